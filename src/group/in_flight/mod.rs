//! The operations in flight, and whether the capacity still counts each instance being deleted.
//!
//! An observation is judged by what is in flight after it, before it is adopted: a scale-up that has settled no longer
//! explains what it explained on the observation before.

mod counting;
mod launches;
mod settling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::group::Time;

use super::accounting::{Accounting, Baseline};
use super::limits::OPERATIONS;
use super::observation::{Observation, count, is_zero};
use super::operation::{Attempt, Failed, Operation, OperationId, OperationRequest, Phase};
use super::state::CapacityWrite;
use crate::cloud::{
    Consistency, Counts, GroupReading, Identity, Instance, InstanceState, Launched, OperationHandle, ProviderId,
};
use launches::Launch;

/// All that is in flight in one group.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct InFlight {
    /// Writes that the cloud accepted, or may have accepted, and that have not visibly finished, oldest first.
    operations: Vec<Operation>,
    /// Whether the capacity still counts each instance being deleted, as far as observations have shown it.
    accounting: BTreeMap<ProviderId, Accounting>,
    /// What the last deletion was computed on, until an observation shows how the cloud counts it.
    baseline: Option<Baseline>,
    /// Instances whose deletion was sent after the last observation, or that it is too old to show as being deleted.
    unread: BTreeSet<ProviderId>,
    /// Live instances beyond the capacity, as the last observation showed them.
    surplus: u32,
    /// When the youngest launch began that the last observation shows, by the cloud's clock: the observation is younger
    /// than what was written before.
    shown_until: Option<SystemTime>,
    /// The etags of the last observations, oldest first.
    etags: VecDeque<String>,
    /// Launches whose outcome is not known, or that observations need not show yet, oldest first.
    launches: Vec<Launch>,
    /// The capacity that these lead to. Where no write may have undone one, the next launch starts from what was read.
    #[serde(default, skip_serializing_if = "is_zero")]
    expected: u32,
    /// Instances whose deletions lower that capacity.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    lowered_since: BTreeSet<ProviderId>,
}

impl InFlight {
    /// The operations, oldest first.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The instances that this operation deletes, while it is in flight.
    pub(crate) fn deleted_by(&self, id: OperationId) -> Option<&BTreeSet<ProviderId>> {
        self.operations.iter().find(|operation| operation.id == id)?.deletes()
    }

    /// Live instances beyond the capacity, as the last observation showed them.
    pub(crate) fn surplus(&self) -> u32 {
        self.surplus
    }

    /// Notes how many live instances an observation shows beyond the capacity.
    pub(crate) fn note_surplus(&mut self, surplus: u32) {
        self.surplus = surplus;
    }

    /// The deletions that the cloud can be polled for.
    pub(crate) fn running_deletions(&self) -> Vec<(OperationId, OperationHandle)> {
        let deletions = self.operations.iter().filter(|one| one.deletes().is_some());
        deletions.filter_map(|one| Some((one.id, one.running()?.clone()))).collect()
    }

    /// Whether the cloud is polled for all deletions in flight that have not succeeded.
    pub(crate) fn deletions_are_polled(&self) -> bool {
        let mut deletions = self.operations.iter().filter(|one| one.deletes().is_some());
        deletions.all(|one| one.is_polled() || matches!(one.phase, Phase::Succeeded(_)))
    }

    /// Whether a deletion of this instance is running, as far as polls have told.
    pub(crate) fn is_running_deletion(&self, id: &ProviderId) -> bool {
        let mut running = self.operations.iter().filter(|one| one.is_polled());
        running.any(|one| one.deletes().is_some_and(|ids| ids.contains(id)))
    }

    /// How many instances the deletions in flight name.
    pub(crate) fn named(&self) -> u32 {
        self.operations.iter().filter_map(Operation::deletes).map(|ids| count(ids.len())).sum()
    }

    /// How many instances the deletions in flight name that were sent after this moment, by the cloud's clock.
    pub(crate) fn named_since(&self, at: SystemTime) -> u32 {
        let later = self.operations.iter().filter(|one| one.sent > at);
        later.filter_map(Operation::deletes).map(|ids| count(ids.len())).sum()
    }

    /// How many instances the deletions without a response name that were sent before this moment, by the cloud's clock.
    pub(crate) fn unanswered(&self, before: SystemTime) -> u32 {
        let unanswered = self.operations.iter().filter(|one| one.sent < before).filter_map(|one| match &one.request {
            OperationRequest::Deletion { ids, attempt: Attempt::Unanswered, .. } => Some(count(ids.len())),
            _ => None,
        });
        unanswered.sum()
    }

    /// Whether an accepted deletion names this instance.
    pub(crate) fn deletes(&self, id: &ProviderId) -> bool {
        // Every instance that an operation deletes has an accounting: most lookups end there.
        self.accounting.contains_key(id)
            && self.operations.iter().filter_map(Operation::deletes).any(|ids| ids.contains(id))
    }

    /// Whether a deletion of this instance was sent after the last observation: the capacity that was read still counts
    /// it.
    pub(crate) fn is_unread(&self, id: &ProviderId) -> bool {
        self.unread.contains(id)
    }

    /// Whether the last observation is older than a deletion that the cloud had accepted before.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether this instance is being deleted: by the cloud's own word, or by an accepted deletion.
    pub(crate) fn is_leaving(&self, instance: &Instance) -> bool {
        instance.state == InstanceState::Deleting || self.deletes(&instance.id)
    }

    /// Whether an observation shows that the cloud deletes none of the live instances by itself.
    pub(crate) fn is_protected(&self, observation: &Observation) -> bool {
        let live = observation.instances.iter().filter(|one| one.counts != Counts::No && !self.is_leaving(one));
        live.clone().next().is_some() && live.clone().all(|one| one.is_protected)
    }

    /// Whether the capacity still counts an instance being deleted, as far as observations have shown it.
    pub(crate) fn accounting(&self, id: &ProviderId) -> Accounting {
        self.accounting.get(id).copied().unwrap_or(Accounting::Unknown)
    }

    /// The capacity that the last observation's reading means, with the writes that it may not show yet.
    pub(crate) fn capacity(&self, reading: &GroupReading) -> u32 {
        self.written_capacity(reading).saturating_add(self.unshown())
    }

    /// Whether an instance that the last observation lists was launched after this moment, so that it shows what was
    /// written until then.
    pub(crate) fn shows(&self, sent: SystemTime) -> bool {
        self.shown_until.is_some_and(|until| until > sent + Consistency::CLOCK_ERROR)
    }

    /// What is in flight once this observation is adopted. Recent launches tell which writes it is younger than.
    pub(crate) fn after(&self, observation: &Observation, launches: &[Launched]) -> Self {
        let mut next = self.clone();
        next.forget(&next.launched_again(observation, launches));
        next.unread = next.not_shown_by(observation);
        next.settle_growth(observation);
        next.shown_until = observation.shown_until(launches);
        next.mark_visible(&observation.reading);
        next.note_etag(&observation.reading);
        next.settle_unknown(observation);
        next.drop_settled(observation);
        if let Some(baseline) = next.baseline.take() {
            next.learn_accounting(&baseline, observation);
            // Instances that were read before the deletion was accepted do not show which others have left since.
            let is_older = observation.detailed < baseline.accepted || !next.unread.is_disjoint(&baseline.named);
            next.baseline = Some(baseline).filter(|_| is_older);
        }
        next.note_launches(observation);
        next.note_surplus_leaving(observation);
        next.forget_accounting(observation);
        next
    }

    /// Notes the etag that an observation shows.
    pub(crate) fn note_etag(&mut self, reading: &GroupReading) {
        let Some(etag) = reading.etag.as_ref().filter(|etag| !self.etags.contains(etag)) else { return };
        if self.etags.len() >= Consistency::ETAGS_BEHIND {
            self.etags.pop_front();
        }
        self.etags.push_back(etag.clone());
    }

    /// Notes that a capacity write is being sent: what is read from now on no longer shows how the last deletion is
    /// counted.
    pub(crate) fn send_capacity(&mut self) {
        self.baseline = None;
        self.note_overwritten();
    }

    /// Records a capacity write; `expected` is the capacity without instances being deleted that it should lead to.
    pub(crate) fn start_capacity(&mut self, write: &CapacityWrite, id: OperationId, expected: u32) {
        let (from, to) = (write.from, write.to);
        for expected in self.operations.iter_mut().filter_map(Operation::expected_mut) {
            *expected = expected.saturating_add(to).saturating_sub(from);
        }
        self.rebase_launches(to);
        let outdated = self.etags.iter().cloned().collect();
        let request = OperationRequest::Capacity { from, to, is_visible: false, outdated, expected, carried: 0 };
        let phase = Phase::accepted(write.handle.clone());
        self.push(Operation { id, request, sent: write.sent, accepted: write.accepted, phase });
    }

    /// Records a deletion that was computed on `before`.
    pub(crate) fn start_deletion(&mut self, operation: Operation, before: &Observation) {
        let ids = operation.deletes().cloned().unwrap_or_default();
        let is_uncounted = |other: &Instance| {
            let is_released = other.state == InstanceState::Deleting && other.counts == Counts::No;
            is_released || self.accounting(&other.id).is_uncounted()
        };
        self.baseline = Some(Baseline::new(&operation, before, ids.clone(), is_uncounted));
        // From now on, this deletion can be why the capacity is what it was before a scale-up. A scale-up that has been
        // visible no longer explains such a read as lagging.
        self.operations.retain(|operation| !operation.is_visible_unpolled_growth());
        let lowers = |id: &&ProviderId| !self.accounting(id).is_uncounted();
        let lowering: Vec<ProviderId> = ids.iter().filter(lowers).cloned().collect();
        self.lower_launches(&lowering);
        self.unread.extend(lowering);
        self.expect_deletion(ids);
        self.push(operation);
    }

    /// Records instances that the cloud reports as gone or being deleted already. No capacity was given up for them
    /// now.
    pub(crate) fn note_leaving(&mut self, operation: Operation) {
        self.expect_deletion(operation.deletes().cloned().unwrap_or_default());
        self.push(operation);
    }

    /// How many instances are still to be launched in the place of those being deleted. The target includes them.
    pub(crate) fn owed(&self) -> u32 {
        self.operations.iter().map(Operation::owed).sum()
    }

    /// The same, without those whose deletion got no response: they may live on.
    pub(crate) fn owed_now(&self) -> u32 {
        self.operations.iter().filter(|one| one.phase != Phase::Unsettled).map(Operation::owed).sum()
    }

    /// Notes how many instances are to be launched in the place of those that an operation deletes.
    pub(crate) fn owe(&mut self, id: OperationId, number: u32) {
        for operation in self.operations.iter_mut().filter(|operation| operation.id == id) {
            if let OperationRequest::Deletion { owed, .. } = &mut operation.request {
                *owed = number;
            }
        }
    }

    /// Nothing is to be launched any more in the place of instances whose deletion was answered.
    pub(crate) fn settle_owed(&mut self) {
        for operation in self.operations.iter_mut().filter(|one| one.phase != Phase::Unsettled) {
            if let OperationRequest::Deletion { owed, .. } = &mut operation.request {
                *owed = 0;
            }
        }
    }

    fn expect_deletion(&mut self, ids: BTreeSet<ProviderId>) {
        for id in ids {
            self.accounting.entry(id).and_modify(Accounting::restart).or_insert(Accounting::Unknown);
        }
    }

    fn push(&mut self, operation: Operation) {
        if self.operations.len() >= OPERATIONS {
            // Not one that the cloud works on or that got no response: what becomes of it is not known yet.
            let is_waited_for = |one: &Operation| one.is_polled() || one.phase == Phase::Unsettled;
            let oldest = self.operations.iter().position(|one| !is_waited_for(one)).unwrap_or(0);
            self.operations.remove(oldest);
        }
        self.operations.push(operation);
    }

    /// Another operation preempted a scale-up. If a later one of ours runs, or has failed and was not listed since, that
    /// one was to launch what this one asked for.
    pub(crate) fn carry_on(&mut self, preempted: OperationId) {
        let number = self.operations.iter().find(|one| one.id == preempted).map_or(0, Operation::launches);
        let runs = |one: &&mut Operation| one.id > preempted && one.is_growth() && one.is_polled();
        if let Some(Operation { request: OperationRequest::Capacity { carried, .. }, .. }) =
            self.operations.iter_mut().rev().find(runs)
        {
            *carried = carried.saturating_add(number);
        }
    }

    /// The cloud reports that the operation succeeded. It stays for as long as reads may lag.
    pub(crate) fn succeed(&mut self, id: OperationId, now: Time) {
        for operation in self.operations.iter_mut().filter(|operation| operation.id == id) {
            operation.phase = Phase::Succeeded(now);
        }
    }

    /// The operation cannot be polled: from now on, only observations show what becomes of it.
    pub(crate) fn stop_polling(&mut self, id: OperationId, now: Time) {
        for operation in self.operations.iter_mut().filter(|operation| operation.id == id) {
            operation.phase = Phase::Unpolled;
            operation.accepted = now;
        }
        // As in `start_deletion`: a deletion since can be why the capacity is what it was before the scale-up.
        let is_deleted_since = self.operations.iter().any(|later| later.id > id && later.deletes().is_some());
        self.operations.retain(|one| one.id != id || !is_deleted_since || !one.is_visible_unpolled_growth());
    }

    /// The cloud reports that the operation failed. It stays until a list shows what it left behind.
    pub(crate) fn report_failed(&mut self, id: OperationId, failed: Failed) {
        if let Some(operation) = self.operations.iter_mut().find(|operation| operation.id == id) {
            operation.phase = Phase::Failed(Box::new(failed));
        }
    }

    /// The operations that were reported as failed, oldest first.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (OperationId, &Failed)> {
        self.operations.iter().filter_map(|operation| Some((operation.id, operation.failed()?)))
    }

    /// These instances are not deleted once more.
    pub(crate) fn leave_out_of_resend(&mut self, ids: &BTreeSet<ProviderId>) {
        for operation in &mut self.operations {
            if let Phase::Failed(failed) = &mut operation.phase {
                failed.resend.retain(|id| !ids.contains(id));
            }
        }
    }

    /// Takes out an operation that failed.
    pub(crate) fn remove(&mut self, id: OperationId) -> Option<Operation> {
        let position = self.operations.iter().position(|operation| operation.id == id)?;
        Some(self.operations.remove(position))
    }

    /// What the instances that are being deleted were, by ID.
    pub(crate) fn identities(&self) -> impl Iterator<Item = (&ProviderId, Identity)> {
        let identities = self.operations.iter().filter_map(Operation::identities).flatten();
        identities.map(|(id, identity)| (id, *identity))
    }

    /// Forgets what was requested for these instances: others have their IDs now.
    pub(crate) fn forget(&mut self, replaced: &BTreeSet<ProviderId>) {
        if replaced.is_empty() {
            return;
        }
        for operation in &mut self.operations {
            if let OperationRequest::Deletion { ids, identities, owed, .. } = &mut operation.request {
                ids.retain(|id| !replaced.contains(id));
                identities.retain(|id, _| !replaced.contains(id));
                *owed = (*owed).min(count(ids.len()));
            }
        }
        self.operations.retain(|operation| operation.deletes().is_none_or(|ids| !ids.is_empty()));
        self.leave_out_of_resend(replaced);
        self.accounting.retain(|id, _| !replaced.contains(id));
        self.unread.retain(|id| !replaced.contains(id));
    }

    /// Lowers what running scale-ups should lead to: instances were deleted or lost, by none of them.
    pub(crate) fn lower_expectations(&mut self, by: u32) {
        for expected in self.operations.iter_mut().filter_map(Operation::expected_mut) {
            *expected = expected.saturating_sub(by);
        }
    }
}
