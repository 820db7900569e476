//! Why a stage of a run ended early.

use thiserror::Error;

use super::evidence::{code, told};
use super::state::StateError;
use crate::cloud::CloudError;

/// Why a stage ended early.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    /// A call failed.
    #[error("{0}")]
    Cloud(#[from] CloudError),
    /// The group is gone.
    #[error("the cloud does not return the group any more")]
    Gone,
    /// It took too long.
    #[error("gave up waiting for {0}")]
    TimedOut(&'static str),
    /// The cloud did not launch any.
    #[error("the launch failed ({0})")]
    NoInstance(String),
    /// A capacity above what is allowed.
    #[error("a capacity of {0} is above --max-instances")]
    TooMany(u32),
    /// What was found cannot be kept in a file.
    #[error("{0}")]
    State(#[from] StateError),
}

impl Trouble {
    /// What a report says of it.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Cloud(error) => told(error),
            Self::NoInstance(reason) => format!("the launch failed ({})", code(reason)),
            other => other.to_string(),
        }
    }
}
