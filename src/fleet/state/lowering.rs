//! When a capacity may be lowered, and what has to be watched after that.
//!
//! A cloud without preconditions takes a capacity as it comes, whatever has happened since it was computed: instances that
//! were launched meanwhile, or requested by another client, are then too many, and the cloud deletes as many as it likes. So
//! nothing is lowered that may be growing, and each write is remembered until no surplus can come of it any more.

use tokio::time::Instant;

use super::GroupState;
use crate::cloud::Reads;
use crate::fleet::census::Census;
use crate::fleet::limits::{HEAL_WINDOW, LAUNCH_BEGINS, LAUNCH_SHOWS, SETTLE};
use crate::fleet::observation::{Observation, count};

/// The last write that may have lowered the capacity, whatever became of it. A heal may undo it (law 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reduction {
    /// The capacity that it set.
    to: u32,
    /// The highest capacity that it may have lowered. The largest number where that is not known, because another client may have
    /// raised it.
    from: u32,
    /// Live instances that were beyond the capacity before a write, as far as they still are: the cloud's own.
    pub(super) surplus: u32,
    /// The capacity that our last accepted write set while one without a response might still land. 0 if there was none.
    set: u32,
    /// Instances whose deletion was sent since and not refused. The numbers above mean that much less.
    deleted: u32,
    /// When it was sent.
    sent: Instant,
    /// When the first write was sent that the ceiling allows for.
    since: Instant,
    /// Whether instances are so likely to come up under it that the group is read often.
    is_watched: bool,
    /// The highest capacity of the writes without a response that are part of it: these may take effect after later ones.
    lost: Option<u32>,
}

impl Reduction {
    /// Whether a write without a response is part of it.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The lowest capacity that it and the deletions sent since account for.
    fn lowest(&self) -> u32 {
        self.to.saturating_sub(self.deleted)
    }

    /// A write that the cloud could not check. How far another client had raised the capacity before it is not known, so a heal
    /// may go as far as instances live. (A surplus that was there before is the cloud's own.)
    fn to_at_least(to: u32, now: Instant, recent: Option<Self>) -> Self {
        Self {
            to: recent.map_or(to, |recent| recent.lowest().min(to)),
            from: u32::MAX,
            surplus: 0,
            set: recent.map_or(0, Self::last_set),
            deleted: 0,
            sent: now,
            since: recent.map_or(now, |recent| recent.since),
            is_watched: recent.is_some_and(|recent| recent.is_watched),
            lost: recent.and_then(|recent| recent.lost),
        }
    }

    /// A reduction to `to`, after a recent one. A recent write without a response may still lower the capacity further.
    fn to(to: u32, from: u32, now: Instant, recent: Option<Self>) -> Self {
        let lost = recent.filter(Self::is_lost);
        Self {
            to: lost.map_or(to, |lost| lost.lowest().min(to)),
            from: recent.map_or(from, |recent| recent.ceiling().max(from)),
            surplus: 0,
            set: recent.map_or(0, Self::last_set),
            deleted: 0,
            sent: now,
            since: recent.map_or(now, |recent| recent.since),
            is_watched: true,
            lost: recent.and_then(|recent| recent.lost),
        }
    }

    /// What our last accepted write set, without what was deleted since.
    fn last_set(self) -> u32 {
        self.set.saturating_sub(self.deleted)
    }

    /// The capacity before it, without what was deleted since: no heal goes above that, unless a write without a response did. Its
    /// instances may come up after those deletions (seed 190822).
    fn ceiling(&self) -> u32 {
        self.from.saturating_sub(self.deleted).max(self.lost.unwrap_or(0))
    }
}

/// Why a capacity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fleet) enum WriteReason {
    /// CA asked for it.
    Requested,
    /// It raises the capacity back (law 11).
    Heal,
}

impl GroupState {
    /// Notes that a capacity write is being sent. A reduction is remembered even if no response comes: instances may come
    /// up under it all the same. So they may under a scale-up that the cloud cannot check (`is_conditional`): another client
    /// may have raised the capacity further in the meantime.
    pub(in crate::fleet) fn send_capacity(
        &mut self,
        (from, to): (u32, u32),
        reason: WriteReason,
        is_conditional: bool,
        now: Instant,
    ) {
        self.in_flight.send_capacity();
        let recent = self.recent_reduction(now);
        if to < from {
            self.reduction = Some(Reduction::to(to, from, now, recent));
        } else if !is_conditional && reason == WriteReason::Requested {
            let census = self.census();
            let beyond = census.live.saturating_sub(census.capacity).saturating_sub(self.to_raise_back(census));
            let surplus = recent.map_or(beyond, |recent| recent.surplus.max(beyond));
            self.reduction = Some(Reduction { surplus, ..Reduction::to_at_least(to, now, recent) });
        } else if let Some(recent) = recent.filter(|_| reason == WriteReason::Requested) {
            let from = recent.from.saturating_add(to - from);
            let to = recent.to.min(to.saturating_add(recent.deleted));
            self.reduction = Some(Reduction { to, from, ..recent });
        }
    }

    /// Notes that a capacity write got no response. Even if a read shows its capacity, another write may have set that, and it
    /// may take effect later, and then lower what was written since: no source says for how long.
    /// A cloud that checks its capacity writes refuses it by then.
    pub(in crate::fleet) fn lose_capacity(&mut self, to: u32, now: Instant) {
        if self.observation.reading.consistency.is_guarded() {
            return;
        }
        let (census, recent) = (self.census(), self.recent_reduction(now));
        let lost = recent.and_then(|recent| recent.lost).map_or(to, |lost| lost.max(to));
        let reduction = if to > census.capacity {
            Reduction {
                surplus: census.live.saturating_sub(census.capacity),
                is_watched: true,
                lost: Some(lost),
                ..Reduction::to_at_least(to, now, recent)
            }
        } else {
            Reduction {
                to: recent.map_or(to, |recent| recent.lowest().min(to)),
                lost: Some(lost),
                ..Reduction::to(to, census.capacity, now, recent)
            }
        };
        self.reduction = Some(reduction);
    }

    /// Notes that the cloud accepted a capacity. A write without a response may still lower it, unless the cloud checks capacity
    /// writes: then only deletions lower it from now on, and a lower one that is read is in doubt.
    pub(super) fn note_set(&mut self, to: u32) {
        if self.observation.reading.consistency.is_guarded() {
            if let Some(reduction) = &mut self.reduction {
                reduction.to = reduction.to.max(to.saturating_add(reduction.deleted));
            }
        } else if let Some(reduction) = self.reduction.as_mut().filter(|reduction| reduction.is_lost()) {
            reduction.set = to.saturating_add(reduction.deleted);
        }
    }

    /// Notes that a read shows a higher capacity than was known. A write without a response may still take effect, and then lowers
    /// that one (seed 99352).
    pub(super) fn note_raised(&mut self, desired: u32) {
        if let Some(reduction) = self.reduction.as_mut().filter(|reduction| reduction.is_lost()) {
            reduction.from = reduction.from.max(desired.saturating_add(reduction.deleted));
        }
    }

    /// The capacity that we set last, where a write without a response may have lowered it since.
    pub(in crate::fleet) fn last_set_capacity(&self) -> u32 {
        self.recent_reduction(self.observation.begun).map_or(0, Reduction::last_set)
    }

    /// Whether a write without a response may have lowered what our later writes set.
    pub(in crate::fleet) fn has_lost_write(&self) -> bool {
        self.recent_reduction(self.observation.begun).is_some_and(|recent| recent.is_lost())
    }

    /// Notes that a deletion is being sent. It may lower the capacity further, even if no response comes.
    pub(in crate::fleet) fn send_deletion(&mut self, number: usize) {
        if let Some(reduction) = &mut self.reduction {
            reduction.deleted = reduction.deleted.saturating_add(count(number));
        }
    }

    /// Notes that the cloud refused part of a deletion that was sent. That part lowers nothing: instances that come up under
    /// an earlier reduction are made room for as before.
    pub(in crate::fleet) fn refuse_deletion(&mut self, number: usize) {
        if let Some(reduction) = &mut self.reduction {
            reduction.deleted = reduction.deleted.saturating_sub(count(number));
        }
    }

    /// Notes that a deletion failed or was preempted. The cloud may have lowered the capacity when it accepted the deletion, and
    /// its `surviving` instances live. `before` is the capacity that it was computed on, without the instances that are gone. What
    /// is lower by more than they are was lowered by another client. Where it is not lower, there is nothing to undo, and a lower one
    /// that is read later is in doubt. Where the cloud checks capacity writes, the next scale-up makes room for them.
    pub(super) fn undo_deletion(&mut self, before: u32, surviving: u32) {
        if self.observation.reading.consistency.is_guarded() || self.observation.reading.desired >= before {
            return;
        }
        let sent = self.observation.begun;
        let to = before.saturating_sub(surviving);
        let recent = self.recent_reduction(sent);
        self.reduction = Some(Reduction { since: sent, ..Reduction::to(to, before, sent, recent) });
    }

    /// Whether a reduction was sent so recently that an instance may still come up under it.
    pub(in crate::fleet) fn is_watched(&self, now: Instant) -> bool {
        self.recent_reduction(now).is_some_and(|reduction| reduction.is_watched)
    }

    /// Whether a recent reduction of ours, with the deletions sent since, made the capacity as low as it was read. Where it
    /// is lower still, another client lowered it.
    pub(in crate::fleet) fn has_lowered(&self, observation: &Observation) -> bool {
        let recent = self.recent_reduction(observation.begun);
        recent.is_some_and(|reduction| observation.reading.desired >= reduction.lowest())
    }

    /// The highest capacity that a heal may set. `None` until the instances were read after the reduction: which of them live,
    /// an earlier list cannot tell.
    pub(in crate::fleet) fn heal_ceiling(&self) -> Option<u32> {
        let recent = self.recent_reduction(self.observation.begun)?;
        (self.has_lowered(&self.observation) && recent.sent <= self.observation.detailed).then_some(recent.ceiling())
    }

    /// How many of the live instances beyond the capacity a heal would make room for: they are no surplus of the cloud's own.
    fn to_raise_back(&self, census: Census) -> u32 {
        let (ceiling, surplus) = (self.heal_ceiling(), self.reduction.map_or(0, |reduction| reduction.surplus));
        ceiling.map_or(0, |ceiling| census.live.saturating_sub(surplus).min(ceiling).saturating_sub(census.capacity))
    }

    /// When the first write was sent that a heal would undo, for a cloud that cannot check its capacity writes.
    pub(in crate::fleet) fn undone_since(&self) -> Option<Instant> {
        let since = self.recent_reduction(self.observation.begun).map(|reduction| reduction.since);
        since.filter(|_| !self.observation.reading.consistency.is_guarded())
    }

    /// Whether the instances last read are those of the capacity last read. Where these are two calls, the capacity can have
    /// been raised in between, and what seems to be missing is not. With an unchanged etag, it was not.
    pub(in crate::fleet) fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// Whether the capacity was raised so recently that the group may not have begun to launch. Where a write names the etag
    /// that it was computed on, another client's raise does not matter.
    pub(in crate::fleet) fn has_just_grown(&self) -> bool {
        let observation = &self.observation;
        let is_young = |since: Instant| observation.begun.saturating_duration_since(since) < LAUNCH_BEGINS;
        let own = self.in_flight.operations().iter().filter(|operation| operation.is_unpolled_growth());
        let seen = self.raised.filter(|_| !observation.reading.consistency.is_guarded());
        own.map(|operation| operation.accepted).chain(seen).any(is_young)
    }

    /// When the launches of our last scale-up should have begun or failed, if nothing but a read shows what became of them.
    /// `None` where no instance is missing.
    pub(in crate::fleet) fn launches_show_at(&self) -> Option<Instant> {
        let unpolled = self.in_flight.operations().iter().filter(|operation| operation.is_unpolled_growth());
        let last = unpolled.map(|operation| operation.accepted).max()?;
        (self.census().shortfall > 0).then(|| last + LAUNCH_SHOWS)
    }

    /// From when on a list shows all instances that a scale-up made, another client's too. `None` while one runs.
    ///
    /// A scale set and its VMs are two reads, and the list of VMs may lag: VMs that it does not show yet run all the same, and
    /// Azure deletes some VMs of its own choice when the capacity falls below them. An Auto Scaling group comes with its instances,
    /// and its activities tell what is under way.
    pub(in crate::fleet) fn lists_all_from(&self) -> Option<Instant> {
        let observation = &self.observation;
        if observation.reading.consistency.reads == Reads::Together {
            return Some(observation.detailed);
        }
        let mut operations = self.in_flight.operations().iter();
        let is_growing = operations.any(|operation| operation.is_growth() && operation.running().is_some());
        let grown = self.raised.max(self.grown);
        (!is_growing).then(|| grown.map_or(observation.detailed, |grown| grown + SETTLE))
    }

    /// Whether live instances may be missing from the list that was read last.
    pub(in crate::fleet) fn may_lack_instances(&self) -> bool {
        self.lists_all_from().is_none_or(|from| self.observation.detailed < from)
    }

    pub(super) fn recent_reduction(&self, now: Instant) -> Option<Reduction> {
        self.reduction.filter(|reduction| now.saturating_duration_since(reduction.sent) <= HEAL_WINDOW)
    }
}
