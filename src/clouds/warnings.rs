//! Warnings about a group's settings. Each is logged once and not at every refresh.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::cloud::GroupName;

/// The most warnings that are kept; then all are forgotten, so that a group that keeps changing cannot fill the memory.
const WARNINGS_MAX: usize = 10_000;

/// The warnings logged so far.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<HashSet<(GroupName, String)>>);

impl Warnings {
    /// Logs the warnings that were not logged for this group before.
    pub(super) fn log_new(&self, group: &GroupName, warnings: Vec<String>) {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if logged.len() >= WARNINGS_MAX {
                logged.clear();
            }
            if logged.insert((group.clone(), warning.clone())) {
                tracing::warn!(%group, "{warning}");
            }
        }
    }

    /// Every warning logged so far, sorted.
    pub(super) fn all(&self) -> Vec<(GroupName, String)> {
        let mut all: Vec<_> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        all.sort();
        all
    }
}
