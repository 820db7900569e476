//! The history of a group: its operations and its activities.

use std::time::Duration;

use super::group::Group;
use super::outcome::PlannedFailure;
use super::plan::GroupStyle;
use super::record::{Activity, ActivityKind, ActivityStatus, Ending, Operation, OperationKind};

/// The number of finished operations that a group keeps.
const OPERATIONS_MAX: usize = 100;
/// The number of activities that a group keeps; the real ones show 100 on a page.
const ACTIVITIES_MAX: usize = 100;

impl Group {
    pub(super) fn open_operation(&mut self, at: Duration, kind: OperationKind) -> u64 {
        let number = self.next_serial();
        self.operations
            .insert(number, Operation { number, kind, started: at, ending: None, pending: 0, failure: None });
        let surplus = self.operations.len().saturating_sub(OPERATIONS_MAX);
        let old: Vec<u64> =
            self.operations.values().filter(|one| one.ending.is_some()).take(surplus).map(|one| one.number).collect();
        for number in old {
            self.operations.remove(&number);
        }
        number
    }

    /// Assigns an instance to an operation, in place of its earlier one.
    pub(super) fn assign(&mut self, serial: u64, operation: Option<u64>, at: Duration) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        let before = std::mem::replace(&mut member.operation, operation);
        if let Some(operation) = operation.and_then(|number| self.operations.get_mut(&number)) {
            operation.pending += 1;
        }
        self.resolve(before, at, None);
    }

    /// Records that one instance's part in an operation is over.
    pub(super) fn resolve(&mut self, operation: Option<u64>, at: Duration, failure: Option<&PlannedFailure>) {
        let Some(number) = operation else { return };
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.pending = operation.pending.saturating_sub(1);
        if operation.failure.is_none() {
            operation.failure = failure.cloned();
        }
        self.close_if_done(number, at);
    }

    /// Ends an operation with nothing pending.
    pub(super) fn close_if_done(&mut self, number: u64, at: Duration) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if operation.pending > 0 || operation.ending.is_some() {
            return;
        }
        let ending = operation.failure.clone().map_or(Ending::Succeeded, Ending::Failed);
        operation.ending = Some((at, ending));
        self.changed();
    }

    pub(super) fn open_activity(&mut self, at: Duration, kind: ActivityKind, instance: Option<String>) -> u64 {
        let number = self.next_serial();
        let status = ActivityStatus::InProgress;
        self.activities.push_back(Activity {
            number,
            kind,
            instance,
            started: at,
            ended: None,
            status,
            is_made_up_for: false,
            is_own: false,
        });
        if self.activities.len() > ACTIVITIES_MAX {
            self.activities.pop_front();
        }
        number
    }

    /// An activity of the cloud's own that is done at once.
    pub(super) fn note_own_activity(&mut self, at: Duration, kind: ActivityKind, instance: String) {
        if self.plan.style == GroupStyle::ScaleSet {
            return;
        }
        let number = self.open_activity(at, kind, Some(instance));
        self.mark_last_activity_own();
        self.close_activity(Some(number), at, ActivityStatus::Successful);
    }

    /// Marks the activity that was opened last as the cloud's own.
    pub(super) fn mark_last_activity_own(&mut self) {
        if let Some(activity) = self.activities.back_mut() {
            activity.is_own = true;
        }
    }

    pub(super) fn close_activity(&mut self, number: Option<u64>, at: Duration, status: ActivityStatus) {
        let Some(number) = number else { return };
        if let Some(activity) = self.activities.iter_mut().rev().find(|activity| activity.number == number) {
            activity.ended = Some(at);
            activity.status = status;
        }
    }
}
