//! All that is known of one group, and how observations and operations change it. Pure: no I/O, no clock, no locks.
//!
//! The keeper owns one of these and drives it; everything the readers see is derived from it by [`GroupState::tally`].

use std::collections::BTreeSet;
use std::time::SystemTime;

use tokio::time::Instant;

use super::census::{self, Census, census};
use super::limits::{HEAL_WINDOW, LAUNCH_BEGINS, OPERATION_LIFE, OPERATIONS, SETTLE, TAKEN_BACK_LIFE};
use super::observation::{Observation, count};
use super::operation::{Kind, Operation, OperationId};
use super::slot::{self, Slot, Standing};
use super::tally::{Tally, tally};
use crate::cloud::{Acceptance, Failure, InstanceState, OperationHandle, ProviderId};

/// Makes the ID of a placeholder from a label that is unique in the group.
pub(super) type NamePlaceholder<'a> = &'a (dyn Fn(&str) -> ProviderId + Send + Sync);

/// One group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    observation: Option<Observation>,
    operations: Vec<Operation>,
    slots: Vec<Slot>,
    slots_made: u64,
    reduction: Option<Reduction>,
    /// When a reading first showed a capacity that somebody else had raised.
    raised: Option<Instant>,
    /// Whether the last reading had the version of the one before it.
    is_steady: bool,
}

/// The last reduction that was sent, whatever became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reduction {
    /// The lowest capacity that it and the deletions sent since account for.
    lowest: u32,
    /// When it was sent.
    sent: Instant,
    /// Whether instances are likely enough to come up under it that they are looked for.
    is_watched: bool,
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

    /// The missing instances.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The numbers of this moment; `None` before the first observation.
    pub(super) fn census(&self) -> Option<Census> {
        Some(census(self.observation.as_ref()?, &self.operations))
    }

    /// What CA is told; `None` before the first observation.
    pub(super) fn tally(&self) -> Option<Tally> {
        Some(tally(self.observation.as_ref()?, &self.operations, &self.slots))
    }

    /// Takes an observation in: operations that it shows done drop out, and the slots follow the shortfall.
    pub(super) fn observe(&mut self, observation: Observation, name: NamePlaceholder<'_>) {
        let now = observation.begun;
        let before = self.census();
        let ran_before = self.running_ids();
        let began = self.observation.as_ref().map_or(observation.at, |previous| previous.at);
        self.mark_seen(observation.reading.desired);
        self.presume_reduction(&observation);
        let known = self.observation.as_ref().map(|known| &known.reading.version);
        self.is_steady = known == Some(&observation.reading.version) || observation.reading.version.is_none();
        if before.is_some_and(|before| before.desired < observation.reading.desired) {
            self.raised = Some(observation.begun);
        }
        self.observation = Some(observation);
        self.drop_finished(now);
        self.follow_departures(before, &ran_before);
        let fell = before.zip(self.census()).map_or(0, |(old, new)| old.remaining.saturating_sub(new.remaining));
        self.fit_slots(fell, began, now, name);
    }

    /// Makes the slots as many as the shortfall says.
    fn fit_slots(&mut self, capacity_fell: u32, began: SystemTime, now: Instant, name: NamePlaceholder<'_>) {
        let Some(census) = self.census() else { return };
        self.slots.retain(|slot| !matches!(slot.standing, Standing::TakenBack { until } if until <= now));
        slot::shrink(&mut self.slots, size(census.shortfall), size(capacity_fell));
        let held = self.slots.iter().filter(|slot| slot.in_capacity()).count();
        self.add_slots(size(census.shortfall).saturating_sub(held), began, name);
        if let Some(observation) = &self.observation {
            slot::explain(&mut self.slots, &observation.activity);
        }
    }

    fn add_slots(&mut self, number: usize, since: SystemTime, name: NamePlaceholder<'_>) {
        for _ in 0..number {
            self.slots_made += 1;
            let id = name(&format!("{}-{}", slot::whole_seconds(since), self.slots_made));
            self.slots.push(Slot { id, since, standing: Standing::Wanted, failure: None });
        }
    }

    /// A capacity write is seen once a read says something else than what it was computed from. Once a reduction is seen,
    /// so is everything before it.
    fn mark_seen(&mut self, desired: u32) {
        let mut expected = desired;
        let mut reduced = None;
        for (position, operation) in self.operations.iter_mut().enumerate() {
            let is_reduction = operation.is_reduction();
            if let Kind::Capacity { from, to, seen, .. } = &mut operation.kind
                && !*seen
            {
                if expected == *from {
                    expected = *to;
                } else {
                    *seen = true;
                    reduced = reduced.max(is_reduction.then_some(position));
                }
            }
        }
        if let Some(reduced) = reduced {
            let mut position = 0;
            self.operations.retain(|operation| {
                let outdated = position < reduced && operation.deletes().is_none() && operation.handle.is_none();
                position += 1;
                !outdated
            });
        }
    }

    /// Drops operations that have settled: those whose success is old enough that every read must show it by now, and
    /// those that nobody can wait for any longer.
    fn drop_finished(&mut self, now: Instant) {
        self.operations.retain(|operation| {
            let age = now.saturating_duration_since(operation.accepted);
            let settled = match (operation.finished, &operation.handle) {
                (Some(finished), _) => now.saturating_duration_since(finished) > SETTLE,
                (None, None) => age > SETTLE,
                (None, Some(_)) => false,
            };
            !settled && age <= OPERATION_LIFE
        });
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

    /// A capacity write is being sent. A reduction is remembered even if its answer never comes: an instance may come up
    /// under it all the same, whatever is written after it. So may one under a scale-up that the cloud cannot check against
    /// what it was computed on (`is_checked`): somebody else may have raised the capacity further in the meantime.
    pub(super) fn send_capacity(&mut self, from: u32, to: u32, is_checked: bool, now: Instant) {
        if to < from {
            self.reduction = Some(Reduction { lowest: to, sent: now, is_watched: true });
        } else if !is_checked && self.recent_reduction(now).is_none() {
            self.reduction = Some(Reduction { lowest: to, sent: now, is_watched: false });
        }
    }

    /// A deletion is being sent. It may lower the capacity further, even if its answer never comes.
    pub(super) fn send_delete(&mut self, number: usize) {
        if let Some(reduction) = &mut self.reduction {
            reduction.lowest = reduction.lowest.saturating_sub(count(number));
        }
    }

    /// The first reading after a start, with less capacity than lives and an instance launched just now: that is what a
    /// reduction leaves behind that a process before this one sent. A group that somebody else lowers launches nothing.
    fn presume_reduction(&mut self, observation: &Observation) {
        let census = census(observation, &[]);
        let age = observation.activity.latest.and_then(|latest| observation.at.duration_since(latest).ok());
        if self.observation.is_none() && census.desired < census.live && age.is_some_and(|age| age <= HEAL_WINDOW) {
            self.reduction = Some(Reduction { lowest: census.desired, sent: observation.begun, is_watched: true });
        }
    }

    /// Whether a reduction was sent so recently that an instance may still come up under it.
    pub(super) fn has_just_lowered(&self, now: Instant) -> bool {
        self.recent_reduction(now).is_some_and(|reduction| reduction.is_watched)
    }

    /// Whether a recent reduction of ours, and the deletions sent since, are what made the capacity as low
    /// as it was read. Where it is lower still, somebody else lowers it, and means to.
    pub(super) fn lowered(&self, observation: &Observation) -> bool {
        let recent = self.recent_reduction(observation.begun);
        recent.is_some_and(|reduction| observation.reading.desired >= reduction.lowest)
    }

    /// Whether the instances last read are those of the capacity last read. Where these are two calls, the capacity can have
    /// been raised in between, and what is missing then is not missing. Where the version is the one of the reading before,
    /// nothing was: the instances were read between the two.
    pub(super) fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// Whether the capacity was raised so recently, by whomever, that the group may not have begun to launch. Where a write
    /// names the version it was computed on, there is no need to know.
    pub(super) fn has_just_grown(&self, observation: &Observation) -> bool {
        let is_young = |since: Instant| observation.begun.saturating_duration_since(since) < LAUNCH_BEGINS;
        let own = self.operations.iter().filter(|operation| operation.is_growth_without_handle());
        let seen = self.raised.filter(|_| observation.reading.version.is_none());
        own.map(|operation| operation.accepted).chain(seen).any(is_young)
    }

    fn recent_reduction(&self, now: Instant) -> Option<Reduction> {
        self.reduction.filter(|reduction| now.saturating_duration_since(reduction.sent) <= HEAL_WINDOW)
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
        self.fit_slots(fell, write.sent, write.accepted, name);
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

    /// The operations as they would be with this habit noted.
    pub(super) fn with_habit(&self, id: OperationId, is_counted: bool) -> Vec<Operation> {
        let mut operations = self.operations.clone();
        set_habit(&mut operations, id, is_counted);
        operations
    }

    /// The read after an acceptance showed whether the capacity still counts what is being deleted.
    pub(super) fn note_habit(&mut self, id: OperationId, is_counted: bool) {
        set_habit(&mut self.operations, id, is_counted);
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
        let taken_back = expected.saturating_sub(remaining).min(share);
        self.lower_expectations(taken_back);
        let made = self.slots.len();
        self.add_slots(size(taken_back), since, name);
        for slot in &mut self.slots[made..] {
            slot.standing = Standing::TakenBack { until: now + TAKEN_BACK_LIFE };
        }
        let unexplained = size(share);
        for slot in self.slots.iter_mut().rev().filter(|slot| slot.in_target()).take(unexplained) {
            slot.failure.get_or_insert_with(|| failure.clone());
        }
        self.explain_machines(failure, share);
    }

    /// A failed machine that does not say why failed for the operation's reason.
    fn explain_machines(&mut self, failure: &Failure, share: u32) {
        let Some(observation) = &mut self.observation else { return };
        let silent = observation.instances.iter_mut().filter_map(|instance| instance.failure.as_mut());
        for own in silent.filter(|own| own.code == UNEXPLAINED).take(size(share)) {
            *own = failure.clone();
        }
    }

    /// Takes slots out of the target: all that `names` picks. Answers how many of them were part of the capacity.
    pub(super) fn forgo(&mut self, names: &BTreeSet<ProviderId>) -> usize {
        let mut forgone = 0;
        self.slots.retain_mut(|slot| {
            if !names.contains(&slot.id) {
                return true;
            }
            let keep = slot.in_capacity();
            if slot.standing == Standing::Wanted {
                slot.standing = Standing::Forgone;
                forgone += 1;
            }
            keep
        });
        forgone
    }

    /// Wants up to `number` forgone slots again, under new IDs: a scale-up that the capacity has room for already.
    pub(super) fn want_again(&mut self, number: u32, since: SystemTime, name: NamePlaceholder<'_>) -> u32 {
        let mut regained = 0;
        while regained < number {
            let Some(position) = self.slots.iter().position(|slot| slot.standing == Standing::Forgone) else { break };
            self.slots.remove(position);
            regained += 1;
        }
        self.add_slots(size(regained), since, name);
        regained
    }

    /// Puts forgone slots back into the target: the write that was to lower the capacity by them was refused.
    pub(super) fn regain(&mut self, names: &BTreeSet<ProviderId>) {
        for slot in self.slots.iter_mut().filter(|slot| names.contains(&slot.id)) {
            if slot.standing == Standing::Forgone {
                slot.standing = Standing::Wanted;
            }
        }
    }

    /// How many slots are forgone.
    pub(super) fn forgone(&self) -> u32 {
        count(self.slots.iter().filter(|slot| slot.standing == Standing::Forgone).count())
    }
}

/// The code of a failed machine whose cloud gave no reason.
pub(super) const UNEXPLAINED: &str = "provisioning-state-failed";

fn set_habit(operations: &mut [Operation], id: OperationId, is_counted: bool) {
    for operation in operations.iter_mut().filter(|operation| operation.id == id) {
        if let Kind::Delete { counted, .. } = &mut operation.kind {
            *counted = Some(is_counted);
        }
    }
}

fn size(nodes: u32) -> usize {
    usize::try_from(nodes).unwrap_or(usize::MAX)
}
