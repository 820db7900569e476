//! Why a cloud call failed, in terms that a decision can be made on. Each cloud classifies its own error codes into
//! these variants in one file (`aws/errors.rs`); the gRPC edge maps them to status codes in one place.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// The circumstances of a failed cloud call.
#[derive(Clone, Debug, Error)]
#[error("{operation} {subject}: {message}{}", code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
pub struct Fault {
    /// The API operation, as the cloud's documentation names it.
    pub operation: &'static str,
    /// The group, instance or type it was about.
    pub subject: String,
    /// The cloud's own error code.
    pub code: Option<String>,
    /// The cloud's own message, or what went wrong on the way there.
    pub message: String,
    /// The SDK's error.
    #[source]
    pub source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A failed cloud call.
#[derive(Clone, Debug, Error)]
pub enum CloudError {
    /// The cloud asks for fewer calls. Nothing was done. Retryable after the given time.
    #[error("throttled: {fault}")]
    Throttled {
        /// How long the cloud asked to wait, where it said so.
        retry_after: Option<Duration>,
        /// The circumstances.
        fault: Box<Fault>,
    },
    /// The cloud could not be reached, or it failed inside, or the time was up. Retryable. A write may have taken effect.
    #[error("unreachable: {0}")]
    Unreachable(Box<Fault>),
    /// Credentials or permissions are missing. Nothing was done. Not retryable until somebody changes them.
    #[error("denied: {0}")]
    Denied(Box<Fault>),
    /// The thing does not exist (any more). Nothing was done.
    #[error("not found: {0}")]
    NotFound(Box<Fault>),
    /// The group changed under the write, or another operation is in progress. Nothing was done. Read again and retry.
    #[error("conflict: {0}")]
    Conflict(Box<Fault>),
    /// A quota or the cloud's capacity refused the write at once. Nothing was done.
    #[error("out of resources: {0}")]
    OutOfResources(Box<Fault>),
    /// The cloud refused the call as it was made. Nothing was done. Not retryable.
    #[error("refused: {0}")]
    Refused(Box<Fault>),
    /// The answer could not be understood. A write may have taken effect.
    #[error("unintelligible answer: {0}")]
    Unintelligible(Box<Fault>),
}

/// Errors that are found here, and not by the cloud.
impl CloudError {
    /// The call makes no sense as it was asked for, and was not made.
    pub fn refused(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Refused(Fault::own(operation, subject, message.into()))
    }

    /// The call was not made, because of something else that happens to the group.
    pub fn conflict(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Conflict(Fault::own(operation, subject, message.into()))
    }

    /// What the call is about does not exist.
    pub fn not_found(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::NotFound(Fault::own(operation, subject, message.into()))
    }

    /// The call got no answer, or was not made because it got none a moment ago.
    pub fn unreachable(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Unreachable(Fault::own(operation, subject, message.into()))
    }

    /// The answer makes no sense, or lacks what it must have.
    pub fn unintelligible(operation: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::Unintelligible(Fault::own(operation, subject, message.into()))
    }
}

impl Fault {
    fn own(operation: &'static str, subject: &str, message: String) -> Box<Self> {
        Box::new(Self { operation, subject: subject.to_owned(), code: None, message, source: None })
    }
}

impl CloudError {
    /// The circumstances.
    pub fn fault(&self) -> &Fault {
        match self {
            Self::Throttled { fault, .. }
            | Self::Unreachable(fault)
            | Self::Denied(fault)
            | Self::NotFound(fault)
            | Self::Conflict(fault)
            | Self::OutOfResources(fault)
            | Self::Refused(fault)
            | Self::Unintelligible(fault) => fault,
        }
    }

    /// Whether the same call may succeed a little later, with nobody having done anything about it.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::Unreachable(_) | Self::Unintelligible(_))
    }

    /// Whether a write that ended so may have taken effect all the same.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unintelligible(_))
    }
}
