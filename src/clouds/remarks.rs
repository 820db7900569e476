//! What the operator is told about a group: each thing once, and not at every refresh.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::cloud::GroupName;

/// Things said before they are forgotten, so that a group that keeps changing its mind cannot fill the memory.
const REMARKS_MAX: usize = 10_000;

/// What was said already.
#[derive(Debug, Default)]
pub(super) struct Remarks(Mutex<HashSet<(GroupName, String)>>);

impl Remarks {
    /// Logs what was not said of this group before.
    pub(super) fn tell(&self, group: &GroupName, remarks: Vec<String>) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for remark in remarks {
            if said.len() >= REMARKS_MAX {
                said.clear();
            }
            if said.insert((group.clone(), remark.clone())) {
                tracing::warn!(%group, "{remark}");
            }
        }
    }

    /// What was said, sorted.
    pub(super) fn all(&self) -> Vec<(GroupName, String)> {
        let mut all: Vec<_> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        all.sort();
        all
    }
}
