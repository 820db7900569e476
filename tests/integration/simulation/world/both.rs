//! Exceptions to the laws: two processes write to one group, and neither can know what the other one wrote.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::clouds::simulated::{Call, CallKind};

use super::laws::{AFTER_CRASH, UNSETTLED};
use super::{World, whole};

/// If two processes name the same instance within this time, neither can know about the other's deletion: the read
/// before it and the write itself take up to 1.5 s each.
const SAME_TIME: Duration = Duration::from_secs(3);

impl World {
    /// Whether two processes named the same instance at the same time, shortly before. AWS lowers the desired capacity
    /// for each termination of an instance (autoscaler #2930).
    pub(super) fn was_named_by_both(&self, group: &str, at: Duration) -> bool {
        if !self.ledger.borrow().has_second_process {
            return false;
        }
        self.cloud.faults(|faults| {
            let is_deletion = |call: &&Call| {
                let is_recent = call.at <= at && at <= call.at + AFTER_CRASH;
                call.kind == CallKind::DeleteInstances && call.group.as_deref() == Some(group) && is_recent
            };
            let deletions: Vec<&Call> = faults.calls().filter(is_deletion).collect();
            deletions.iter().enumerate().any(|(number, first)| {
                let soon = deletions.iter().skip(number + 1).filter(|call| call.at <= first.at + SAME_TIME);
                let names: BTreeSet<&str> = first.detail.split(' ').collect();
                soon.into_iter().any(|call| call.detail.split(' ').any(|name| names.contains(name)))
            })
        })
    }

    /// Whether two processes wrote to a group at the same time, shortly before, and one of them set its capacity.
    /// SetDesiredCapacity has no precondition: it undoes what the other one wrote since the read that it was computed
    /// from.
    pub(super) fn was_set_by_both(&self, group: &str, at: Duration) -> bool {
        self.cloud.faults(|faults| {
            let is_write = |call: &&Call| {
                let is_write = matches!(call.kind, CallKind::SetCapacity | CallKind::DeleteInstances);
                let is_recent = call.at <= at && at <= call.at + AFTER_CRASH;
                is_write && is_recent && call.group.as_deref() == Some(group)
            };
            let (own, others): (Vec<_>, Vec<_>) = faults.calls().filter(is_write).partition(|call| self.has_sent(call));
            let sets =
                |one: &Call, other: &Call| one.kind == CallKind::SetCapacity && one.at.abs_diff(other.at) <= SAME_TIME;
            own.iter().any(|one| others.iter().any(|other| sets(one, other) || sets(other, one)))
        })
    }

    /// Whether both processes wrote to a group so recently that neither may know what the other one wrote.
    pub(in crate::simulation) fn was_written_by_both(&self, group: &str) -> bool {
        let since = self.cloud.elapsed().saturating_sub(UNSETTLED);
        self.cloud.faults(|faults| {
            let is_recent = |call: &&Call| {
                let is_write = matches!(call.kind, CallKind::SetCapacity | CallKind::DeleteInstances);
                is_write && call.group.as_deref() == Some(whole(group)) && call.at >= since
            };
            let (own, others): (Vec<_>, Vec<_>) =
                faults.calls().filter(is_recent).partition(|call| self.has_sent(call));
            !own.is_empty() && !others.is_empty()
        })
    }
}
