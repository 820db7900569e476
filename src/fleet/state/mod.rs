//! All that is known of one group, and how observations and operations change it. Pure: no I/O, no clock, no locks.
//!
//! The keeper owns one of these and drives it; everything the readers see is derived from it by [`GroupState::status`].
//! `in_flight.rs` and `habit.rs` say what a reading shows of operations, `lowering.rs` when a capacity may be lowered,
//! `missing.rs` keeps the placeholders of missing instances.

mod accounting;
mod in_flight;
mod lowering;
mod placeholders;

use std::collections::BTreeSet;
use std::time::SystemTime;

use tokio::time::Instant;

use super::census::{self, Census, census};
use super::limits::{OPERATIONS, ROLLED_BACK_LIFE};
use super::observation::{Observation, count};
use super::operation::{Kind, Operation, OperationId};
use super::placeholder::{Placeholder, PlaceholderState};
use super::status::{GroupStatus, status};
use crate::cloud::{Acceptance, Failure, InstanceState, OperationHandle, ProviderId};
use accounting::Unseen;
use lowering::Reduction;

/// Makes the ID of a placeholder from a label that is unique in the group.
pub(super) type NamePlaceholder<'a> = &'a (dyn Fn(&str) -> ProviderId + Send + Sync);

/// One group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    observation: Option<Observation>,
    operations: Vec<Operation>,
    placeholders: Vec<Placeholder>,
    placeholders_made: u64,
    /// The last deletion, until a reading shows whether the capacity still counts what it names.
    unseen: Option<Unseen>,
    reduction: Option<Reduction>,
    /// When a reading first showed a capacity that somebody else had raised.
    raised: Option<Instant>,
    /// Whether the last reading had the version of the one before it.
    is_steady: bool,
}

/// A capacity write that the cloud accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapacityWrite {
    /// The capacity it was computed from.
    pub from: u32,
    /// The capacity it set.
    pub to: u32,
    /// When the cloud accepted it.
    pub accepted: Instant,
    /// When it was sent, by the cloud's clock.
    pub sent: SystemTime,
}

impl GroupState {
    /// The last good observation.
    pub(super) fn observation(&self) -> Option<&Observation> {
        self.observation.as_ref()
    }

    /// The operations in flight.
    pub(super) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations as they are once this reading is taken in.
    pub(super) fn operations_after(&self, reading: &Observation) -> Vec<Operation> {
        let mut operations = in_flight::after(&self.operations, reading);
        if let Some(unseen) = &self.unseen {
            in_flight::note_habit(&mut operations, unseen.operation, unseen.is_counted(reading));
        }
        operations
    }

    /// A new reading, with what is known of the instances on their way out.
    pub(super) fn recall(&self, mut reading: Observation) -> Observation {
        if let Some(before) = &self.observation {
            accounting::carry_over(before, &mut reading);
        }
        reading
    }

    /// The missing instances.
    pub(super) fn placeholders(&self) -> &[Placeholder] {
        &self.placeholders
    }

    /// The numbers of this moment; `None` before the first observation.
    pub(super) fn census(&self) -> Option<Census> {
        Some(census(self.observation.as_ref()?, &self.operations))
    }

    /// What CA is told; `None` before the first observation.
    pub(super) fn status(&self) -> Option<GroupStatus> {
        Some(status(self.observation.as_ref()?, &self.operations, &self.placeholders))
    }

    /// Takes an observation in: operations that it shows done drop out, and the placeholders follow the shortfall.
    pub(super) fn observe(&mut self, mut observation: Observation, name: NamePlaceholder<'_>) {
        let now = observation.begun;
        let before = self.census();
        let ran_before = self.running_ids();
        let began = self.observation.as_ref().map_or(observation.at, |previous| previous.at);
        self.operations = self.operations_after(&observation);
        self.unseen = None;
        self.presume_reduction(&observation);
        let known = self.observation.as_ref().map(|known| &known.reading.etag);
        self.is_steady = known == Some(&observation.reading.etag) || observation.reading.etag.is_none();
        if before.is_some_and(|before| before.desired < observation.reading.desired) {
            self.raised = Some(observation.begun);
        }
        if self.is_steady {
            accounting::note_uncounted(&mut observation, &self.operations);
        }
        self.observation = Some(observation);
        self.follow_departures(before, &ran_before);
        let fell = before.zip(self.census()).map_or(0, |(old, new)| old.remaining.saturating_sub(new.remaining));
        self.fit_placeholders(fell, began, now, name);
    }

    /// Where running instances left that nobody here deleted (an eviction), a running scale-up expects that much less.
    /// Instances that leave while they are being created are what the scale-up itself failed to make.
    fn follow_departures(&mut self, before: Option<Census>, ran_before: &BTreeSet<ProviderId>) {
        let (Some(before), Some(after)) = (before, self.census()) else { return };
        let left = count(ran_before.difference(&self.running_ids()).count());
        let lost = before.remaining.saturating_sub(after.remaining).min(left);
        self.lower_expectations(lost);
    }

    fn lower_expectations(&mut self, by: u32) {
        for operation in &mut self.operations {
            if let Kind::Capacity { expected, .. } = &mut operation.kind {
                *expected = expected.saturating_sub(by);
            }
        }
    }

    /// The instances that run and are not being deleted.
    fn running_ids(&self) -> BTreeSet<ProviderId> {
        let going = census::going(&self.operations);
        self.observation
            .iter()
            .flat_map(|observation| &observation.instances)
            .filter(|instance| instance.state == InstanceState::Running && !going.contains_key(&instance.id))
            .map(|instance| instance.id.clone())
            .collect()
    }

    /// The cloud accepted a new capacity. Slots follow: a scale-up's come at once, those of a reduction go.
    pub(super) fn accept_capacity(
        &mut self,
        id: OperationId,
        write: CapacityWrite,
        acceptance: Acceptance,
        name: NamePlaceholder<'_>,
    ) {
        for operation in &mut self.operations {
            if let Kind::Capacity { expected, .. } = &mut operation.kind {
                *expected = expected.saturating_add(write.to).saturating_sub(write.from);
            }
        }
        let remaining = self.census().map_or(write.from, |census| census.remaining);
        let kept_out = write.from.saturating_sub(remaining);
        self.push(Operation {
            id,
            kind: Kind::Capacity {
                from: write.from,
                to: write.to,
                seen: false,
                expected: write.to.saturating_sub(kept_out),
            },
            accepted: write.accepted,
            handle: acceptance.handle,
            finished: None,
        });
        let fell = write.from.saturating_sub(write.to);
        self.fit_placeholders(fell, write.sent, write.accepted, name);
    }

    /// The cloud accepted the deletion of these instances.
    pub(super) fn accept_delete(
        &mut self,
        id: OperationId,
        ids: &[ProviderId],
        accepted: Instant,
        handle: Option<OperationHandle>,
        resubmitted: bool,
    ) {
        self.lower_expectations(count(ids.len()));
        self.unseen = self.observation.as_ref().map(|before| Unseen::new(id, before, ids));
        // From now on the capacity can be what it was before a scale-up because of this deletion, and not only because a
        // read lags behind: a scale-up that has been seen casts no shadow any more.
        self.operations.retain(|operation| !operation.is_seen_without_handle());
        let kind = Kind::Delete { ids: ids.iter().cloned().collect(), counted: None, resubmitted };
        self.push(Operation { id, kind, accepted, handle, finished: None });
    }

    /// The cloud says that these are gone or going already, by no deletion of ours. No capacity was given up for them now.
    pub(super) fn note_going(&mut self, id: OperationId, ids: &[ProviderId], now: Instant) {
        let kind = Kind::Delete { ids: ids.iter().cloned().collect(), counted: None, resubmitted: true };
        self.push(Operation { id, kind, accepted: now, handle: None, finished: None });
    }

    fn push(&mut self, operation: Operation) {
        if self.operations.len() >= OPERATIONS {
            self.operations.remove(0);
        }
        self.operations.push(operation);
    }

    /// The cloud says that the operation succeeded. It stays until a read shows it, for as long as reads may lag.
    pub(super) fn succeed(&mut self, id: OperationId, now: Instant) {
        for operation in self.operations.iter_mut().filter(|operation| operation.id == id) {
            operation.finished = Some(now);
        }
    }

    /// The cloud says that the operation failed, and `observation` is what was read after that. A deletion simply drops
    /// out. What a scale-up is short of stays in the target with the reason, whether the cloud kept it in the capacity or
    /// took it back.
    pub(super) fn fail(
        &mut self,
        id: OperationId,
        failure: &Failure,
        observation: Observation,
        name: NamePlaceholder<'_>,
    ) {
        let Some(position) = self.operations.iter().position(|operation| operation.id == id) else { return };
        let operation = self.operations.remove(position);
        let now = observation.begun;
        let since = observation.at;
        self.observe(observation, name);
        let Kind::Capacity { from, to, expected, .. } = operation.kind else { return };
        let share = to.saturating_sub(from);
        let remaining = self.census().map_or(expected, |census| census.remaining);
        let rolled_back = expected.saturating_sub(remaining).min(share);
        self.lower_expectations(rolled_back);
        let made = self.placeholders.len();
        self.add_placeholders(size(rolled_back), since, name);
        for placeholder in &mut self.placeholders[made..] {
            placeholder.state = PlaceholderState::RolledBack { until: now + ROLLED_BACK_LIFE };
        }
        let unexplained = size(share);
        for placeholder in
            self.placeholders.iter_mut().rev().filter(|placeholder| placeholder.in_target()).take(unexplained)
        {
            placeholder.failure.get_or_insert_with(|| failure.clone());
        }
        self.explain_machines(failure, share);
    }

    /// A failed machine that does not say why failed for the operation's reason.
    fn explain_machines(&mut self, failure: &Failure, share: u32) {
        let Some(observation) = &mut self.observation else { return };
        let silent = observation.instances.iter_mut().filter_map(|instance| instance.failure.as_mut());
        for own in silent.filter(|own| !own.is_explained).take(size(share)) {
            *own = failure.clone();
        }
    }
}

fn size(nodes: u32) -> usize {
    usize::try_from(nodes).unwrap_or(usize::MAX)
}
