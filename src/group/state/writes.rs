//! What becomes of our writes: accepted, lost, finished or failed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use crate::group::Time;

use super::placeholders::Missed;
use super::{GroupState, WriteReason, size};
use crate::cloud::{Failure, OperationHandle, ProviderId};
use crate::group::limits::{FAILED_DELETION_LIFE, ROLLED_BACK_LIFE};
use crate::group::observation::{Observation, count};
use crate::group::operation::{Attempt, Failed, Operation, OperationId, OperationRequest, Phase};
use crate::group::placeholder::{Placeholder, PlaceholderState};
use crate::group::surplus::Surplus;

/// A capacity write that the cloud accepted.
#[derive(Clone, Debug)]
pub(crate) struct CapacityWrite {
    /// The capacity it was computed from, without launches in flight.
    pub from: u32,
    /// The capacity it set. Launches in flight add to it.
    pub to: u32,
    /// Why it was sent.
    pub reason: WriteReason,
    /// When the cloud accepted it.
    pub accepted: Time,
    /// When it was sent, by the cloud's clock.
    pub sent: SystemTime,
    /// When its outcome became known, by the cloud's clock.
    pub answered: SystemTime,
    /// The instances being deleted that the capacity had no room for when it was sent: [`GroupState::without_room`].
    pub without_room: BTreeSet<ProviderId>,
    /// What the cloud can be polled by, if it can.
    pub handle: Option<OperationHandle>,
}

/// A deletion that the cloud accepted.
#[derive(Clone, Debug)]
pub(crate) struct DeletionWrite {
    /// The instances.
    pub ids: BTreeSet<ProviderId>,
    /// When it was sent, by the cloud's clock.
    pub sent: SystemTime,
    /// When the cloud accepted it.
    pub accepted: Time,
    /// What the cloud can be polled by, if it can.
    pub handle: Option<OperationHandle>,
    /// How it came to be in flight.
    pub attempt: Attempt,
}

impl GroupState {
    /// Notes that a capacity write is being sent.
    pub(crate) fn send_capacity(&mut self) {
        self.in_flight.send_capacity();
    }

    /// A read has shown that a capacity write took effect, and nothing is left to wait for.
    pub(crate) fn finish_capacity(&mut self, write: CapacityWrite) {
        self.note_requested(write.to.saturating_sub(write.from));
        self.in_flight.exclude(write.without_room);
    }

    /// The cloud accepted a new capacity. A scale-up's placeholders come at once; those of a reduction go.
    pub(crate) fn accept_capacity(&mut self, id: OperationId, write: CapacityWrite) {
        let CapacityWrite { from, to, accepted, sent, .. } = write;
        self.in_flight.exclude(write.without_room.clone());
        self.note_accepted(&write);
        let unshown = self.in_flight.unshown();
        let deleted = from.saturating_add(unshown).saturating_sub(self.census().remaining);
        let expected = to.saturating_add(unshown).saturating_sub(deleted);
        if to > from {
            self.grown = Some(accepted);
        }
        self.in_flight.start_capacity(&write, id, expected);
        self.note_growth_over_unfilled((from, to));
        self.fit_placeholders(from.saturating_sub(to), Missed::Requested(sent), accepted);
    }

    /// The cloud accepted a deletion.
    pub(crate) fn accept_deletion(&mut self, id: OperationId, write: DeletionWrite) {
        let DeletionWrite { ids, sent, accepted, handle, attempt } = write;
        self.survivors.retain(|id, _| !ids.contains(id));
        self.learn_no_kind_of_capacity();
        self.in_flight.lower_expectations(count(ids.len()));
        let request = self.deletion_of(ids, attempt);
        let operation = Operation { id, request, sent, accepted, phase: Phase::accepted(handle) };
        self.in_flight.start_deletion(operation, &self.observation);
    }

    /// A deletion of these instances got no response until `ended`. They count as being deleted until a read settles
    /// it.
    pub(crate) fn lose_deletion(&mut self, id: OperationId, ids: BTreeSet<ProviderId>, sent: SystemTime, ended: Time) {
        self.learn_no_kind_of_capacity();
        let request = self.deletion_of(ids, Attempt::Unanswered);
        let operation = Operation { id, request, sent, accepted: ended, phase: Phase::Unsettled };
        self.in_flight.start_deletion(operation, &self.observation);
    }

    fn deletion_of(&self, ids: BTreeSet<ProviderId>, attempt: Attempt) -> OperationRequest {
        let listed = self.observation.instances.iter().filter(|one| ids.contains(&one.id));
        let identities = listed.filter_map(|one| Some((one.id.clone(), one.identity?))).collect();
        OperationRequest::Deletion { ids, identities, attempt, owed: 0 }
    }

    /// Whether the read may be older than our last accepted writes.
    pub(crate) fn may_be_outdated(&self) -> bool {
        self.in_flight.has_unread() || self.census().capacity < self.own_capacity()
    }

    /// The cloud reports that these instances are gone or being deleted already, by no deletion of ours. The capacity
    /// that was read with a list counts no instance that the list lacks.
    pub(crate) fn note_leaving(&mut self, id: OperationId, ids: &[ProviderId], sent: SystemTime, now: Time) {
        let ids: BTreeSet<ProviderId> = ids.iter().cloned().collect();
        let listed = &self.observation.instances;
        let gone = ids.iter().filter(|id| !listed.iter().any(|one| one.id == **id)).cloned().collect();
        let request = self.deletion_of(ids, Attempt::Needless);
        self.in_flight.note_leaving(Operation { id, request, sent, accepted: now, phase: Phase::Unpolled });
        self.in_flight.exclude(gone);
    }

    /// The cloud reports that the operation succeeded.
    pub(crate) fn succeed(&mut self, id: OperationId, now: Time) {
        self.note_growth_ended(id, now);
        self.in_flight.succeed(id, now);
    }

    /// The cloud reports that the operation failed.
    pub(crate) fn report_failed(&mut self, id: OperationId, failed: Failed) {
        self.in_flight.report_failed(id, failed);
    }

    /// These instances are not deleted once more.
    pub(crate) fn leave_out_of_resend(&mut self, ids: &BTreeSet<ProviderId>) {
        self.in_flight.leave_out_of_resend(ids);
    }

    /// Another operation preempted this new capacity, and carries it out: no launch has failed.
    pub(crate) fn preempt(&mut self, id: OperationId, now: Time) {
        self.in_flight.carry_on(id);
        self.succeed(id, now);
    }

    /// The operation cannot be polled.
    pub(crate) fn stop_polling(&mut self, id: OperationId, now: Time) {
        self.note_growth_ended(id, now);
        self.in_flight.stop_polling(id, now);
    }

    fn note_growth_ended(&mut self, id: OperationId, now: Time) {
        if self.in_flight.operations().iter().any(|operation| operation.id == id && operation.is_growth()) {
            self.grown = Some(now);
        }
    }

    /// The cloud reports that the operation failed; `observation` was read after that. A deletion simply drops out.
    /// What a scale-up is short of stays in the target with the reason, whether the cloud kept it in the capacity or
    /// took it back.
    pub(crate) fn fail(&mut self, id: OperationId, failure: &Failure, observation: Observation) {
        let Some(operation) = self.in_flight.remove(id) else {
            // An earlier observation has settled it. This one counts all the same: a write may be computed on it.
            let _lost = self.observe(observation);
            return;
        };
        if operation.is_growth() {
            self.learn_no_kind_of_capacity();
        }
        let (now, since) = (observation.begun, observation.at);
        // A capacity that counts again what was not deleted has not grown.
        let again = operation.deletes().map_or(0, |ids| count(ids.len()));
        let most = self.observation.reading.desired.saturating_add(again);
        let (grown, desired) = (self.grown, observation.reading.desired);
        let lost = self.observe(observation);
        if desired <= most {
            self.grown = grown;
        }
        let share = operation.launches();
        let expected = match operation.request {
            OperationRequest::Capacity { expected, .. } => expected,
            OperationRequest::Deletion { ids, .. } => {
                if self.surplus.is_some() && self.has_revived(&ids) {
                    self.surplus = Some(Surplus::Lasting);
                    self.note_surplus();
                }
                self.survivors.extend(ids.into_iter().map(|id| (id, now + FAILED_DELETION_LIFE)));
                return;
            }
        };
        let rolled_back = expected.saturating_sub(lost).saturating_sub(self.census().remaining).min(share);
        self.in_flight.lower_expectations(rolled_back);
        let made = self.placeholders.len();
        self.add_placeholders(size(rolled_back), None, Missed::Requested(since));
        for placeholder in &mut self.placeholders[made..] {
            placeholder.state = PlaceholderState::RolledBack { until: now + ROLLED_BACK_LIFE };
        }
        let failure = Arc::new(failure.clone());
        // Those that have failed already are what other scale-ups are short of.
        let is_open = |placeholder: &&mut Placeholder| placeholder.in_target() && placeholder.failure.is_none();
        let failed = self.placeholders.iter_mut().rev().filter(is_open);
        failed.take(size(share)).for_each(|placeholder| placeholder.failure = Some(Arc::clone(&failure)));
        self.explain_instances(&failure, share);
    }

    /// A failed instance that the cloud gave no reason for failed for the operation's reason; an evicted one did not.
    fn explain_instances(&mut self, failure: &Arc<Failure>, share: u32) {
        let failures = self.observation.instances.iter_mut().filter_map(|instance| instance.failure.as_mut());
        for unexplained in failures.filter(|own| !own.is_explained && !own.is_eviction).take(size(share)) {
            *unexplained = Arc::clone(failure);
        }
    }
}
