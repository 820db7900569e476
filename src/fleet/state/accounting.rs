//! How the cloud counts what is being deleted: some take it out of the capacity when they accept the deletion, others when
//! the machine is gone. The first reading after the acceptance shows it, whichever call that reading was made for. Of what
//! somebody else deletes, or a process before this one did, only a capacity shows it that those who live fill up; from then
//! on it is known for these instances.

use std::collections::BTreeSet;

use crate::cloud::{Counts, Instance, InstanceState, ProviderId};
use crate::fleet::census::census;
use crate::fleet::observation::{Observation, count};
use crate::fleet::operation::{Operation, OperationId};

/// A deletion that no reading has shown anything of yet.
#[derive(Clone, Debug)]
pub(super) struct Unseen {
    /// The deletion.
    pub operation: OperationId,
    /// The capacity it was computed on.
    desired: u32,
    /// The instances it named.
    named: BTreeSet<ProviderId>,
    /// The others that were listed then.
    others: BTreeSet<ProviderId>,
}

impl Unseen {
    /// A deletion that was computed on this reading and names these.
    pub(super) fn new(operation: OperationId, before: &Observation, named: &[ProviderId]) -> Self {
        let named: BTreeSet<_> = named.iter().cloned().collect();
        let listed = before.instances.iter().map(|instance| &instance.id);
        let others = listed.filter(|id| !named.contains(*id)).cloned().collect();
        Self { operation, desired: before.reading.desired, named, others }
    }

    /// Whether the capacity still counts the instances. `None` where it may be either, as other instances left in between
    /// and may have taken some of the capacity with them.
    pub(super) fn is_counted(&self, after: &Observation) -> Option<bool> {
        let listed: BTreeSet<&ProviderId> = after.instances.iter().map(|instance| &instance.id).collect();
        let left = |ids: &BTreeSet<ProviderId>| count(ids.iter().filter(|id| !listed.contains(id)).count());
        let (asked, named_left, others_left) = (count(self.named.len()), left(&self.named), left(&self.others));
        let may_be = |capacity: u32| (capacity.saturating_sub(others_left)..=capacity).contains(&after.reading.desired);
        let if_counted = may_be(self.desired.saturating_sub(named_left));
        let if_taken_out = may_be(self.desired.saturating_sub(asked));
        (if_counted != if_taken_out).then_some(if_counted)
    }
}

/// Notes of the instances on their way out that the capacity counts none of them, where those that live fill it up.
pub(super) fn note_uncounted(reading: &mut Observation, operations: &[Operation]) {
    if reading.reading.desired > census(reading, operations).live {
        return;
    }
    let leaving = reading.instances.iter_mut().filter(|instance| instance.state == InstanceState::Deleting);
    for instance in leaving.filter(|instance| instance.counts == Counts::UntilDeleted) {
        instance.counts = Counts::No;
    }
}

/// Says of a new reading what was noted on the one before it: what is on its way out is never counted again.
pub(super) fn carry_over(before: &Observation, reading: &mut Observation) {
    let is_uncounted = |one: &&Instance| one.state == InstanceState::Deleting && one.counts == Counts::No;
    let uncounted: BTreeSet<&ProviderId> = before.instances.iter().filter(is_uncounted).map(|one| &one.id).collect();
    if uncounted.is_empty() {
        return;
    }
    for instance in reading.instances.iter_mut().filter(|one| one.state == InstanceState::Deleting) {
        if uncounted.contains(&instance.id) {
            instance.counts = Counts::No;
        }
    }
}
