//! Which group is verified, in which source.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::guard::{Bounds, Ineligible, Plan, plan};
use super::state::{Found, State, StateError};
use crate::cloud::{CloudError, GroupName, GroupReading, VerifiableCloud};

/// The group, as it was read, and its cloud.
pub struct Choice {
    /// The source.
    pub source: Arc<str>,
    /// The cloud.
    pub cloud: Arc<dyn VerifiableCloud>,
    /// The group.
    pub reading: GroupReading,
}

/// Why no group is verified.
#[derive(Debug, Error)]
pub enum ChoiceError {
    /// A source could not be read.
    #[error("{0}: {1}")]
    Unreadable(Arc<str>, CloudError),
    /// No source has it.
    #[error("no source has a node group {0}")]
    Nowhere(String),
    /// Several sources have it.
    #[error("several sources have it: {}", .0.join(", "))]
    Ambiguous(Vec<String>),
    /// It may not be used.
    #[error("{0} is not used: {1}")]
    Ineligible(GroupName, Ineligible),
    /// A run of another group left this file.
    #[error("{} is of the group {group}; name another file with --state", path.display())]
    OtherGroup {
        /// The file.
        path: PathBuf,
        /// The other group.
        group: GroupName,
    },
    /// The file of a run that was killed cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Finds a group by its name, or by `SOURCE/NAME`.
///
/// # Errors
///
/// If a source cannot be read, or if not exactly one of them has the group.
pub async fn choose(sources: Vec<(Arc<str>, Arc<dyn VerifiableCloud>)>, name: &str) -> Result<Choice, ChoiceError> {
    let mut found = Vec::new();
    for (source, cloud) in sources {
        let group = name.strip_prefix(&format!("{source}/")).unwrap_or(name);
        let unreadable = |error| ChoiceError::Unreadable(Arc::clone(&source), error);
        // Listing first: it tells the cloud which groups are its own.
        cloud.list().await.map_err(unreadable)?;
        if let Some(reading) = cloud.observe_for_write(&GroupName(group.into())).await.map_err(unreadable)? {
            found.push(Choice { source, cloud, reading });
        }
    }
    let names: Vec<String> = found.iter().map(|choice| format!("{}/{name}", choice.source)).collect();
    match (found.pop(), found.is_empty()) {
        (Some(choice), true) => Ok(choice),
        (None, _) => Err(ChoiceError::Nowhere(name.to_owned())),
        (Some(_), false) => Err(ChoiceError::Ambiguous(names)),
    }
}

impl Choice {
    /// What would be done with it, and whether a run was killed before this one.
    ///
    /// # Errors
    ///
    /// If the group may not be used.
    pub fn plan(&self, state: &State, bounds: Bounds) -> Result<(Plan, bool), ChoiceError> {
        let reading = &self.reading;
        match state.left()? {
            Some((Found { group, .. }, path)) if group != reading.name => Err(ChoiceError::OtherGroup { path, group }),
            // What a run that was killed left need not look like a group that is at rest.
            Some((found, _)) if reading.hints.is_set_aside => Ok((Plan::restoring(found, bounds.instances_max), true)),
            _ => match plan(reading, bounds) {
                Ok(plan) => Ok((plan, false)),
                Err(why) => Err(ChoiceError::Ineligible(reading.name.clone(), why)),
            },
        }
    }
}
