//! Writes that take effect after their client gave up.

use std::time::Duration;

use super::world::World;
use crate::cloud::LaunchRequest;

/// A write that takes effect after its client gave up.
#[derive(Clone, Debug)]
pub(super) enum LateWrite {
    /// As [`World::set_capacity`].
    SetCapacity {
        /// The group.
        group: String,
        /// The capacity.
        to: u32,
        /// The precondition.
        if_match: Option<String>,
    },
    /// As [`World::launch`].
    Launch {
        /// The group.
        group: String,
        /// What is launched.
        launch: LaunchRequest,
    },
    /// As [`World::delete_instances`].
    DeleteInstances {
        /// The group.
        group: String,
        /// The cloud's IDs.
        ids: Vec<String>,
        /// Those that the capacity is kept for.
        kept: Vec<String>,
    },
}

impl World {
    /// Schedules a write to take effect later, whether or not its client still waits.
    pub(super) fn write_late(&mut self, due: Duration, write: LateWrite) {
        self.generations += 1;
        self.late_writes.insert((due, self.generations), write);
    }

    pub(super) fn apply_late_write(&mut self, due: Duration) {
        let Some((_, write)) = self.late_writes.pop_first() else { return };
        // No client receives a refusal.
        let _client_gone = match write {
            LateWrite::SetCapacity { group, to, if_match } => {
                self.set_capacity(due, &group, to, if_match.as_deref()).map(drop)
            }
            LateWrite::Launch { group, launch } => self.launch(due, &group, &launch).map(drop),
            LateWrite::DeleteInstances { group, ids, kept } => {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
                self.delete_instances(due, &group, &ids, &kept).map(drop)
            }
        };
    }
}
