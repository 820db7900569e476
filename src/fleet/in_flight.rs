//! The operations in flight, and whether the capacity still counts each instance being deleted.
//!
//! An observation is judged by what is in flight after it, before it is adopted: a scale-up that has settled no longer
//! explains what it explained on the observation before.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::accounting::{Accounting, Baseline};
use super::census::census;
use super::limits::{OPERATION_LIFE, OPERATIONS, SETTLE};
use super::observation::{Observation, count};
use super::operation::{Operation, OperationId, OperationRequest, Phase};
use crate::cloud::{Counts, Instance, InstanceState, ProviderId};

/// All that is in flight in one group.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    operations: Vec<Operation>,
    /// Whether the capacity still counts each instance being deleted, as far as observations have shown it.
    accounting: BTreeMap<ProviderId, Accounting>,
    /// What the last deletion was computed on, until an observation shows how the cloud counts it.
    baseline: Option<Baseline>,
    /// Instances whose deletion was sent after the last observation.
    unread: BTreeSet<ProviderId>,
    /// Live instances beyond the capacity, as the last observation showed them.
    surplus: u32,
}

impl InFlight {
    /// The operations, oldest first.
    pub(super) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Live instances beyond the capacity, as the last observation showed them.
    pub(super) fn surplus(&self) -> u32 {
        self.surplus
    }

    /// Notes how many live instances an observation shows beyond the capacity.
    pub(super) fn note_surplus(&mut self, surplus: u32) {
        self.surplus = surplus;
    }

    /// A cloud that removes its own surplus deletes instances that its capacity does not count.
    fn note_surplus_leaving(&mut self, observation: &Observation) {
        for instance in &observation.instances {
            let is_new = instance.state == InstanceState::Deleting && !self.accounting.contains_key(&instance.id);
            if self.surplus > 0 && is_new {
                self.surplus -= 1;
                self.accounting.insert(instance.id.clone(), Accounting::NotCounted);
            }
        }
    }

    /// Whether an accepted deletion names this instance.
    pub(super) fn deletes(&self, id: &ProviderId) -> bool {
        // Every instance that an operation deletes has an accounting: most lookups end there.
        self.accounting.contains_key(id)
            && self.operations.iter().filter_map(Operation::deletes).any(|ids| ids.contains(id))
    }

    /// Whether a deletion of this instance was sent after the last observation: the capacity that was read still counts it.
    pub(super) fn is_unread(&self, id: &ProviderId) -> bool {
        self.unread.contains(id)
    }

    /// Whether this instance is being deleted: by the cloud's own word, or by an accepted deletion.
    pub(super) fn is_leaving(&self, instance: &Instance) -> bool {
        instance.state == InstanceState::Deleting || self.deletes(&instance.id)
    }

    /// Whether the capacity still counts an instance being deleted, as far as observations have shown it.
    pub(super) fn accounting(&self, id: &ProviderId) -> Accounting {
        self.accounting.get(id).copied().unwrap_or(Accounting::Unknown)
    }

    /// The capacity that a read means, with the writes that it may not show yet.
    pub(super) fn capacity(&self, desired: u32) -> u32 {
        self.operations.iter().fold(desired, |capacity, operation| operation.explains(capacity).unwrap_or(capacity))
    }

    /// What is in flight once this observation is adopted.
    pub(super) fn after(&self, observation: &Observation) -> Self {
        let mut next = self.clone();
        next.unread.clear();
        next.mark_visible(observation.reading.desired);
        next.settle_unknown(observation);
        next.drop_settled(observation.begun);
        if let Some(baseline) = next.baseline.take() {
            next.learn_accounting(&baseline, observation);
            // Instances that were read before the deletion was accepted do not show which others have left since.
            next.baseline = Some(baseline).filter(|baseline| observation.detailed < baseline.accepted);
        }
        next.note_surplus_leaving(observation);
        next.forget_accounting(observation);
        next
    }

    /// Notes what an observation shows of the deletion that was computed on this baseline.
    fn learn_accounting(&mut self, baseline: &Baseline, observation: &Observation) {
        if !self.operations.iter().any(|operation| operation.id == baseline.operation) {
            return;
        }
        let shown = baseline.accounting(observation);
        // A later read that does not show it takes nothing back.
        if shown == Accounting::Unknown {
            return;
        }
        for id in &baseline.named {
            if self.accounting(id) != Accounting::NotCounted {
                self.accounting.insert(id.clone(), shown);
            }
        }
    }

    /// Notes that a capacity write is being sent: what is read from now on no longer shows how the last deletion is counted.
    pub(super) fn send_capacity(&mut self) {
        self.baseline = None;
    }

    /// Keeps the accounting of instances that are still being deleted, and of no others.
    fn forget_accounting(&mut self, observation: &Observation) {
        let leaving: BTreeSet<&ProviderId> =
            observation.instances.iter().filter(|one| self.is_leaving(one)).map(|one| &one.id).collect();
        let accounting = std::mem::take(&mut self.accounting);
        let operations = &self.operations;
        let is_deleted = |id: &ProviderId| operations.iter().filter_map(Operation::deletes).any(|ids| ids.contains(id));
        self.accounting = accounting.into_iter().filter(|(id, _)| leaving.contains(id) || is_deleted(id)).collect();
    }

    /// Notes that the capacity counts none of the instances being deleted, where live instances alone account for all of it.
    pub(super) fn note_uncounted(&mut self, observation: &Observation) {
        if observation.reading.desired > census(observation, self).live.saturating_sub(self.surplus) {
            return;
        }
        let deleting = observation.instances.iter().filter(|one| one.state == InstanceState::Deleting);
        for instance in deleting {
            self.accounting.insert(instance.id.clone(), Accounting::NotCounted);
        }
    }

    /// The instances being deleted that the capacity has no room for beside those that live. Ones that it is known to count are
    /// among them only where the capacity was read later than the instances: it has lost those that are gone by now.
    pub(super) fn without_room(&self, observation: &Observation) -> BTreeSet<ProviderId> {
        let leaving = || observation.instances.iter().filter(|one| self.is_leaving(one));
        let (unread, read): (Vec<_>, Vec<_>) = leaving().partition(|one| self.is_unread(&one.id));
        let has = |accounting: Accounting| move |one: &&&Instance| self.accounting(&one.id) == accounting;
        let mut counted: Vec<&Instance> = read.iter().filter(has(Accounting::Counted)).copied().collect();
        let unknown = read.iter().filter(has(Accounting::Unknown)).filter(|one| one.counts != Counts::No);
        let taken = census(observation, self).live.saturating_sub(self.surplus) + count(unread.len() + counted.len());
        let desired = observation.reading.desired;
        let is_older = observation.detailed < observation.begun && self.surplus == 0;
        counted.sort_by_key(|one| self.deletes(&one.id));
        let gone = counted.iter().take(if is_older { size(taken.saturating_sub(desired)) } else { 0 });
        let without_room = gone.chain(unknown.skip(size(desired.saturating_sub(taken))));
        without_room.map(|one| one.id.clone()).collect()
    }

    /// Notes that the capacity counts none of these instances.
    pub(super) fn exclude(&mut self, ids: BTreeSet<ProviderId>) {
        self.accounting.extend(ids.into_iter().map(|id| (id, Accounting::NotCounted)));
    }

    /// A capacity write is visible once a read says something other than what the write was computed from. Once a reduction
    /// is visible, so is everything before it.
    fn mark_visible(&mut self, desired: u32) {
        let mut expected_read = desired;
        let mut reduced = None;
        for (position, operation) in self.operations.iter_mut().enumerate() {
            let is_reduction = operation.is_reduction();
            if let OperationRequest::Capacity { from, to, is_visible, .. } = &mut operation.request
                && !*is_visible
            {
                if expected_read == *from {
                    expected_read = *to;
                } else {
                    *is_visible = true;
                    reduced = reduced.max(is_reduction.then_some(position));
                }
            }
        }
        if let Some(reduced) = reduced {
            let mut position = 0;
            self.operations.retain(|operation| {
                let is_outdated =
                    position < reduced && operation.deletes().is_none() && operation.phase == Phase::Unpolled;
                position += 1;
                !is_outdated
            });
        }
    }

    /// Settles deletions without a response, instance by instance. One that is being deleted or gone shows that the deletion
    /// took effect. One that lives shows that it did not, but only if it was read later than the write by more than reads lag.
    fn settle_unknown(&mut self, observation: &Observation) {
        let mut settled = Vec::new();
        for operation in self.operations.iter_mut().filter(|one| one.phase == Phase::Unsettled) {
            if observation.detailed < operation.accepted {
                continue;
            }
            let is_late = observation.detailed.saturating_duration_since(operation.accepted) > SETTLE;
            let OperationRequest::Deletion { ids, before, is_resubmitted } = &mut operation.request else { continue };
            let lives = |id: &ProviderId| {
                observation.instances.iter().any(|one| one.id == *id && one.state != InstanceState::Deleting)
            };
            let (unsettled, done): (BTreeSet<_>, BTreeSet<_>) = std::mem::take(ids).into_iter().partition(lives);
            if !is_late {
                *ids = unsettled;
            }
            if !done.is_empty() {
                let request =
                    OperationRequest::Deletion { ids: done, before: *before, is_resubmitted: *is_resubmitted };
                settled.push(Operation { request, phase: Phase::Unpolled, ..operation.clone() });
            }
        }
        self.operations.retain(|one| one.phase != Phase::Unsettled || one.deletes().is_some_and(|ids| !ids.is_empty()));
        self.operations.extend(settled);
    }

    /// Whether it is unknown if an earlier deletion of this instance took effect.
    pub(super) fn is_unsettled(&self, id: &ProviderId) -> bool {
        let unsettled = self.operations.iter().filter(|operation| operation.phase == Phase::Unsettled);
        unsettled.filter_map(Operation::deletes).any(|ids| ids.contains(id))
    }

    /// Whether an instance counts as being deleted only because its deletion got no response: it may live on.
    pub(super) fn may_live_on(&self, instance: &Instance) -> bool {
        instance.state != InstanceState::Deleting && self.is_unsettled(&instance.id)
    }

    /// Whether the outcome of any deletion is unknown.
    pub(super) fn has_unsettled(&self) -> bool {
        self.operations.iter().any(|operation| operation.phase == Phase::Unsettled)
    }

    /// Drops operations that have settled: those whose success is old enough for every read to show it, and those that
    /// nothing more will be heard of.
    fn drop_settled(&mut self, now: Instant) {
        let age = |since: Instant| now.saturating_duration_since(since);
        self.operations.retain(|operation| {
            let is_settled = match operation.phase {
                Phase::Succeeded(at) => age(at) > SETTLE,
                Phase::Unpolled => age(operation.accepted) > SETTLE,
                Phase::Running(_) | Phase::Unsettled => false,
            };
            !is_settled && age(operation.accepted) <= OPERATION_LIFE
        });
    }

    /// Records a capacity write; `expected` is the capacity without instances being deleted that it should lead to.
    pub(super) fn start_capacity(
        &mut self,
        id: OperationId,
        (from, to): (u32, u32),
        expected: u32,
        accepted: Instant,
        phase: Phase,
    ) {
        for operation in &mut self.operations {
            let capacity = operation.capacity_mut();
            *capacity = capacity.saturating_add(to).saturating_sub(from);
        }
        let request = OperationRequest::Capacity { from, to, is_visible: false, expected };
        self.push(Operation { id, request, accepted, phase });
    }

    /// Records a deletion that was computed on `before`.
    pub(super) fn start_deletion(&mut self, operation: Operation, before: &Observation) {
        let ids = operation.deletes().cloned().unwrap_or_default();
        let is_uncounted = |other: &Instance| {
            let is_released = other.state == InstanceState::Deleting && other.counts == Counts::No;
            is_released || self.accounting(&other.id) == Accounting::NotCounted
        };
        self.baseline = Some(Baseline::new(&operation, before, ids.clone(), is_uncounted));
        // From now on, this deletion can be why the capacity is what it was before a scale-up. A scale-up that has been
        // visible no longer explains such a read as lagging.
        self.operations.retain(|operation| !operation.is_visible_unpolled_growth());
        self.unread.extend(ids.iter().cloned());
        self.expect_deletion(ids);
        self.push(operation);
    }

    /// Records instances that the cloud reports as gone or being deleted already. No capacity was given up for them now.
    pub(super) fn note_leaving(&mut self, operation: Operation) {
        self.expect_deletion(operation.deletes().cloned().unwrap_or_default());
        self.push(operation);
    }

    fn expect_deletion(&mut self, ids: BTreeSet<ProviderId>) {
        for id in ids {
            self.accounting.entry(id).and_modify(Accounting::restart).or_insert(Accounting::Unknown);
        }
    }

    fn push(&mut self, operation: Operation) {
        if self.operations.len() >= OPERATIONS {
            self.operations.remove(0);
        }
        self.operations.push(operation);
    }

    /// The cloud reports that the operation succeeded. It stays for as long as reads may lag.
    pub(super) fn succeed(&mut self, id: OperationId, now: Instant) {
        for operation in self.operations.iter_mut().filter(|operation| operation.id == id) {
            operation.phase = Phase::Succeeded(now);
        }
    }

    /// The operation cannot be polled: from now on, only observations show what becomes of it.
    pub(super) fn stop_polling(&mut self, id: OperationId, now: Instant) {
        for operation in self.operations.iter_mut().filter(|operation| operation.id == id) {
            operation.phase = Phase::Unpolled;
            operation.accepted = now;
        }
        // As in `start_deletion`: a deletion since can be why the capacity is what it was before the scale-up.
        let is_deleted_since = self.operations.iter().any(|later| later.id > id && later.deletes().is_some());
        self.operations.retain(|one| one.id != id || !is_deleted_since || !one.is_visible_unpolled_growth());
    }

    /// Takes out an operation that failed.
    pub(super) fn remove(&mut self, id: OperationId) -> Option<Operation> {
        let position = self.operations.iter().position(|operation| operation.id == id)?;
        Some(self.operations.remove(position))
    }

    /// Lowers what running scale-ups should lead to, and what running deletions may be undone to: instances were deleted or
    /// lost, by none of them.
    pub(super) fn lower_expectations(&mut self, by: u32) {
        for operation in &mut self.operations {
            let capacity = operation.capacity_mut();
            *capacity = capacity.saturating_sub(by);
        }
    }
}

fn size(nodes: u32) -> usize {
    usize::try_from(nodes).unwrap_or(usize::MAX)
}
