//! Raising a capacity back after a write of ours (law 11), where the cloud checks no precondition.
//!
//! Such a write replaces whatever happened since the read that it was computed on, and a deletion lowers the capacity
//! although its instance may have been going for another reason. Then more instances live than the capacity has room
//! for, and the cloud terminates as many of its own choice. So for [`Consistency::LAG`] after each own write, the
//! capacity is compared with the live instances that nobody named, and raised to their number: never above the highest
//! capacity that a read showed, less what we deleted. One that was going already, and that the cloud has replaced, does
//! not count.

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{CapacityWrite, GroupState};
use crate::cloud::{Consistency, Counts, Deletions, GrowsBy, Instance, OwnLaunches, ProviderId, Reads};
use crate::group::Time;
use crate::group::in_flight::InFlight;
use crate::group::observation::{Observation, count, is_zero};
use crate::group::operation::Operation;

/// What our recent writes made of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecentWrites {
    /// The capacity that was set last, or that the first deletion was computed on, with the launches that add to it.
    set: u32,
    /// How much of it is launches that no read had shown by then. A surplus of the cloud's own looks the same.
    #[serde(default, skip_serializing_if = "is_zero")]
    unshown: u32,
    /// When a write that set this capacity was sent, if one did, and by when the group had this capacity: when that write
    /// was answered, or else when the capacity was read. Both by the cloud's clock.
    written: (Option<SystemTime>, SystemTime),
    /// Instances whose deletion was sent since and not refused. Each lowers the capacity by one, and by two if it was
    /// already going: AWS lowers it for each call (autoscaler #2930).
    named: u32,
    /// The highest capacity that a read showed since the read before the first of these writes. Deletions are not
    /// subtracted.
    seen: u32,
    /// Whether the capacity had room for all live instances whenever one of them was sent.
    had_room: bool,
    /// When the last one was sent or answered, or a read showed that it took effect.
    at: Time,
    /// Whether a surplus is likely, so that the group is read often.
    is_watched: bool,
}

/// A capacity write without a response. It may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LostWrite {
    /// What our writes make of the capacity if it takes effect.
    then: RecentWrites,
    /// Until when it may take effect.
    until: Time,
    /// Whether a read has shown its capacity since. Another client may have set that, too: then it still takes effect
    /// later, and undoes what was written since.
    is_shown: bool,
}

/// Why a capacity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WriteReason {
    /// CA asked for it.
    Requested,
    /// It raises the capacity back (law 11).
    Undo,
}

impl RecentWrites {
    /// What a deletion begins with that follows no write of ours: the group had this capacity when it was observed.
    fn of_deletion(capacity: u32, unshown: u32, observation: &Observation) -> Self {
        let (at, written) = (observation.begun, (None, observation.at));
        Self { set: capacity, unshown, written, named: 0, seen: capacity, had_room: true, at, is_watched: true }
    }

    /// Whether they may be why the capacity is this number. Each instance whose deletion is in flight may have lowered it
    /// once more if it was named since, or if no response came to an earlier deletion: that may take effect late.
    fn explain(&self, capacity: u32, in_flight: &InFlight) -> bool {
        let once_more = self.named.saturating_add(self.named_before(in_flight)).min(in_flight.named());
        let lowest = self.result().saturating_sub(once_more);
        // The deletions may have lowered what another client set after the last capacity write.
        let raised = self.ceiling().saturating_sub(once_more)..=self.ceiling();
        (lowest..=self.set).contains(&capacity) || (self.named > 0 && raised.contains(&capacity))
    }

    /// Instances named before a write set this capacity, if one did, in deletions that got no response. It still counts them.
    fn named_before(&self, in_flight: &InFlight) -> u32 {
        self.written.0.map_or(0, |sent| in_flight.unanswered(sent))
    }

    /// The highest capacity that a read showed, less what was deleted since.
    fn ceiling(&self) -> u32 {
        self.seen.saturating_sub(self.named).saturating_sub(self.unshown)
    }

    /// By when a write had set this capacity, if one did.
    fn wrote_by(&self) -> Option<SystemTime> {
        self.written.0.map(|_| self.written.1)
    }

    /// The capacity that they lead to. Launches that no read had shown by then are left out: the write may have come just
    /// after one of them raised the capacity, and undone that.
    fn result(&self) -> u32 {
        self.set.saturating_sub(self.named).saturating_sub(self.unshown)
    }
}

impl GroupState {
    /// Notes that a capacity write got no response. Until a read shows it or it cannot take effect any more, no other
    /// one is sent: that would be computed on a capacity that may change (law 7). A cloud that checks capacity writes
    /// refuses the later one of two.
    pub(crate) fn lose_capacity(&mut self, write: &CapacityWrite, sent: Time) {
        if !self.is_guarded() {
            let then = self.with_write(write, sent);
            self.lost_write = Some(LostWrite { then, until: sent + Consistency::LATE, is_shown: false });
        }
    }

    /// Notes that the cloud accepted a capacity write.
    pub(super) fn note_accepted(&mut self, write: &CapacityWrite) {
        if self.is_guarded() {
            return;
        }
        self.recent_writes = Some(self.with_write(write, write.accepted));
        let to = write.to.saturating_add(self.in_flight.unshown());
        if let Some(lost) = &mut self.lost_write {
            lost.then.seen = lost.then.seen.max(to.saturating_add(lost.then.named));
        }
    }

    /// What our recent writes and this one make of the capacity.
    fn with_write(&self, write: &CapacityWrite, at: Time) -> RecentWrites {
        let CapacityWrite { from, to, reason, sent, answered, .. } = *write;
        let unshown = self.in_flight.unshown();
        let (from, to) = (from.saturating_add(unshown), to.saturating_add(unshown));
        let (recent, has_room) = (self.standing_writes(at), !self.has_surplus());
        let ceiling = recent.map_or(from, |recent| recent.ceiling().max(from));
        let grown = if reason == WriteReason::Requested { to.saturating_sub(from) } else { 0 };
        RecentWrites {
            set: to,
            unshown,
            written: (Some(sent), answered),
            named: 0,
            seen: ceiling.saturating_add(grown).max(to),
            had_room: recent.is_none_or(|recent| recent.had_room) && (has_room || reason == WriteReason::Undo),
            at,
            is_watched: to < from || recent.is_some_and(|recent| recent.is_watched),
        }
    }

    /// Whether a capacity write got no response, no read has shown it, and it may still take effect.
    pub(crate) fn awaits_lost_write(&self) -> bool {
        self.lost_write.is_some_and(|lost| !lost.is_shown)
    }

    /// Whether a read has shown a capacity write without a response.
    pub(crate) fn is_lost_write_shown(&self) -> bool {
        self.lost_write.is_some_and(|lost| lost.is_shown)
    }

    /// What the capacity is raised back to where this many instances need room: not to less than a write without a
    /// response sets, which may have taken effect after all that was deleted, or do so at any moment. AWS terminates
    /// instances sooner than that is over.
    pub(crate) fn not_below_lost_write(&self, to: u32) -> u32 {
        let awaited = self.lost_write.filter(|lost| !lost.is_shown).map(|lost| lost.then);
        let lands_at = awaited.map_or(0, |then| then.set.saturating_sub(then.unshown));
        to.max(lands_at.min(self.observation.reading.max))
    }

    /// Whether something without a response may have lowered the capacity that we wrote: a deletion, or a capacity write.
    fn may_have_been_lowered(&self) -> bool {
        self.lost_write.is_some() || self.in_flight.unanswered(self.observation.at) > 0
    }

    /// Notes that a deletion is being sent. It lowers the capacity even if no response comes, except for those that are
    /// `kept`: for these the capacity had no room. After it, it has room for all that live and that nobody named, but
    /// for a surplus of the cloud's own.
    pub(crate) fn send_deletion(&mut self, ids: &[ProviderId], kept: BTreeSet<ProviderId>, now: Time) {
        let lowered = count(ids.len().saturating_sub(kept.len()));
        self.in_flight.exclude(kept);
        if self.is_guarded() {
            return;
        }
        let in_flight = &self.in_flight;
        let stays = |one: &&Instance| one.counts != Counts::No && !in_flight.is_leaving(one) && !ids.contains(&one.id);
        let staying = self.observation.instances.iter().filter(stays).map(|one| one.id.clone());
        let (staying, has_room): (Vec<_>, bool) = (staying.collect(), !self.may_have_own_surplus());
        if has_room {
            self.within_capacity.extend(staying);
        }
        let before = RecentWrites::of_deletion(self.census().capacity, self.in_flight.unshown(), &self.observation);
        let with_deletion = |recent: RecentWrites| RecentWrites {
            named: recent.named.saturating_add(lowered),
            had_room: recent.had_room && has_room,
            at: now,
            is_watched: true,
            ..recent
        };
        self.recent_writes = Some(with_deletion(self.standing_writes(now).unwrap_or(before)));
        if let Some(lost) = &mut self.lost_write {
            lost.then = with_deletion(lost.then);
        }
    }

    /// Notes that the cloud refused part of a deletion that was sent. That part lowers nothing, and where it is all that was
    /// sent, there is no write of ours to undo. An instance that is going already lowers the capacity all the same.
    pub(crate) fn refuse_deletion<'a>(&mut self, refused: impl IntoIterator<Item = &'a ProviderId>) {
        let in_flight = &self.in_flight;
        let lowers = |id: &&ProviderId| !in_flight.accounting(id).is_uncounted();
        let number = count(refused.into_iter().filter(lowers).count());
        let lost = self.lost_write.as_mut().map(|lost| &mut lost.then);
        for writes in self.recent_writes.as_mut().into_iter().chain(lost) {
            writes.named = writes.named.saturating_sub(number);
        }
        self.recent_writes = self.recent_writes.filter(|recent| recent.named > 0 || recent.written.0.is_some());
    }

    /// Notes the capacity that a read shows: another client's raise, or a write without a response that took effect.
    pub(super) fn note_capacity_read(&mut self, observation: &Observation) {
        let (desired, begun) = (observation.reading.desired, observation.begun);
        // Launches that were in flight may have added to it since.
        let with_launches = desired..=desired.saturating_add(self.in_flight.unshown());
        self.note_seen(desired, 0, |writes| desired > writes.set);
        let own_last = self.recent_writes;
        let Some(lost) = &mut self.lost_write else { return };
        // What a later write of ours has set does not show it.
        let is_set_again = own_last.is_some_and(|own| own.set == lost.then.set && own.written.0 > lost.then.written.0);
        if !lost.is_shown && !is_set_again && with_launches.contains(&lost.then.set) {
            lost.is_shown = true;
            self.in_flight.note_included();
            lost.then.written.1 = observation.at;
            self.recent_writes = Some(RecentWrites { at: begun.max(lost.then.at), is_watched: true, ..lost.then });
        }
        if begun > lost.until {
            self.lost_write = None;
        }
    }

    /// Notes the capacity of a read that is not adopted. It began at this moment, by the cloud's clock.
    pub(crate) fn note_unused(&mut self, desired: u32, at: SystemTime) {
        let named_since = self.in_flight.named_since(at);
        self.note_seen(desired, named_since, |writes| writes.written.0.is_some_and(|sent| sent <= at));
    }

    /// Notes the capacity that a read showed, for those of our writes that may have undone it. It still counted as many
    /// instances as were named since.
    fn note_seen(&mut self, desired: u32, named_since: u32, may_have_undone: impl Fn(&RecentWrites) -> bool) {
        let lost = self.lost_write.as_mut().map(|lost| &mut lost.then);
        for writes in self.recent_writes.as_mut().into_iter().chain(lost).filter(|writes| may_have_undone(writes)) {
            let named_before = writes.named.saturating_sub(named_since);
            writes.seen = writes.seen.max(desired.saturating_add(named_before));
        }
    }

    /// Notes the deletions without a response whose instances a read shows to be going. They have just taken effect, or
    /// are about to, where the instances are going for another reason. One that was sent before a capacity write lowers
    /// what that set.
    pub(super) fn note_late_deletions(&mut self, observation: &Observation) {
        let taken_effect = self.in_flight.taken_effect(observation);
        let all: u32 = taken_effect.iter().map(|(_, lowered)| lowered).sum();
        if all == 0 || self.is_guarded() {
            return;
        }
        let (unshown, begun) = (self.in_flight.unshown(), observation.begun);
        let desired = observation.reading.desired.max(self.observation.reading.desired);
        let anew = RecentWrites::of_deletion(desired.saturating_add(unshown), unshown, observation);
        // Where another client has set the capacity since our last write, these deletions lower what it set.
        let anew = RecentWrites { named: all, had_room: false, ..anew };
        let recent = self.standing_writes(begun).unwrap_or(anew);
        let lost = self.lost_write.as_mut().map(|lost| &mut lost.then);
        for writes in lost.into_iter().chain([self.recent_writes.insert(recent)]) {
            let is_late = |sent| writes.written.0.is_some_and(|written| sent < written);
            let late: u32 = taken_effect.iter().filter(|(sent, _)| is_late(*sent)).map(|(_, lowered)| lowered).sum();
            writes.named = writes.named.saturating_add(late);
            (writes.at, writes.is_watched) = (begun.max(writes.at), true);
        }
    }

    /// A launch raises the capacity by this number, or will.
    pub(super) fn note_launch(&mut self, number: u32) {
        if let Some(recent) = &mut self.recent_writes {
            recent.set = recent.set.saturating_add(number);
            recent.seen = recent.seen.saturating_add(number);
        }
        if let Some(lost) = &mut self.lost_write {
            lost.then.seen = lost.then.seen.saturating_add(number);
        }
    }

    /// A launch raises the capacity by this much less than was requested. `is_unshown` tells that the last capacity write
    /// counted on it while no read had shown it.
    pub(super) fn note_not_launched(&mut self, number: u32, is_unshown: bool) {
        let unshown = if is_unshown { number } else { 0 };
        if let Some(recent) = &mut self.recent_writes {
            recent.set = recent.set.saturating_sub(number);
            recent.seen = recent.seen.saturating_sub(number);
            recent.unshown = recent.unshown.saturating_sub(unshown);
        }
        if let Some(LostWrite { then, is_shown, .. }) = &mut self.lost_write {
            then.seen = then.seen.saturating_sub(number);
            let unshown = if *is_shown { 0 } else { unshown.min(then.unshown) };
            then.set = then.set.saturating_sub(unshown);
            then.unshown = then.unshown.saturating_sub(unshown);
        }
    }

    /// Whether our recent writes made the capacity as low as it was read, with the part of our launches that it does
    /// not show yet. Where it is lower still, another client lowered it, or an instance that we named was going
    /// already.
    pub(crate) fn has_lowered(&self, observation: &Observation, unshown: u32) -> bool {
        let lost = self.lost_write.filter(|lost| observation.begun <= lost.until).map(|lost| lost.then);
        let mut writes = self.recent_writes(observation.begun).into_iter().chain(lost);
        writes.any(|writes| observation.reading.desired.saturating_add(unshown) >= writes.result())
    }

    /// Whether instances may be too many under a recent write of ours, so that the group is read often.
    pub(crate) fn is_watched(&self, now: Time) -> bool {
        self.lost_write.is_some_and(|lost| now < lost.until)
            || self.recent_writes(now).is_some_and(|recent| recent.is_watched)
    }

    /// When the last write was sent that may have to be undone.
    pub(crate) fn undone_since(&self) -> Option<Time> {
        self.recent_writes(self.observation.begun).map(|recent| recent.at)
    }

    /// The capacity that our last capacity write leads to, while a read may be older than that. AWS's reads lag by
    /// seconds, and SetDesiredCapacity takes any number: one computed on an older read would undo what we wrote.
    pub(crate) fn own_capacity(&self) -> u32 {
        self.own_write().map_or(0, |recent| recent.result())
    }

    /// The same, if the deletions without a response that were sent before the write lowered what the write replaced, and
    /// not what it set.
    fn own_capacity_at_most(&self) -> u32 {
        let at_most = |own: RecentWrites| own.result().saturating_add(own.named_before(&self.in_flight));
        self.own_write().map_or(0, |own| at_most(own).min(own.set.saturating_sub(own.unshown)))
    }

    /// Our last capacity write, while a read may be older than that.
    fn own_write(&self) -> Option<RecentWrites> {
        let is_lagging = |recent: &RecentWrites| recent.wrote_by().is_some_and(|by| !self.in_flight.shows(by));
        self.recent_writes(self.observation.begun).filter(is_lagging)
    }

    /// The capacity that a capacity which our own writes left too low is raised back to (law 11), if it is. Otherwise, the
    /// cloud would delete instances of its own choice (#10147). Never above the maximum. `own` are the instances that the
    /// cloud launched for reasons of its own ([`crate::cloud::LaunchActivity::own`]), if they can be read.
    ///
    /// Launches in flight are left out of it: each raises the capacity by itself.
    pub(crate) fn undone_capacity(&self, own: Option<&OwnLaunches>) -> Option<u32> {
        let (reading, read) = (&self.observation.reading, self.observation.begun);
        // Where deletions can fail, the instances live on by themselves, and the next scale-up makes room for them.
        if reading.consistency.deletions == Deletions::CanFail {
            return None;
        }
        // A write may undo what a launch is about to raise. That shows before AWS acts: see LAUNCH_RAISES.
        if self.in_flight.is_raising(read) {
            return None;
        }
        let room = self.room_owed(own)?;
        let (census, to_be_raised) = (self.census(), self.in_flight.to_be_raised(read));
        // Without preconditions, a capacity falls when the cloud accepts a deletion. A read that lags does not show that
        // yet, and the surplus is deleted meanwhile.
        let fallen = census.unread;
        let to = room.min(reading.max);
        if to <= reading.desired.saturating_add(to_be_raised).saturating_sub(fallen) {
            return None;
        }
        // A read that lags shows the capacity before our last writes, and raising it to the live instances would undo them.
        // With a lost write it is different: a later write of ours may have been computed from its capacity, and is then
        // written again.
        let lowered = self.in_flight.unshown().saturating_sub(to_be_raised);
        let meant = census.capacity.saturating_sub(lowered).saturating_sub(fallen);
        // Less than what we wrote is never sent, however much the launches add: the read may be older than that.
        let own = self.own_capacity().saturating_sub(self.in_flight.to_be_raised_since_written(read));
        let sent = |to: u32| to.saturating_sub(to_be_raised).max(own.min(reading.max));
        // What we wrote must not be lowered. To write it once more changes nothing if the read lags.
        let written = if to_be_raised > 0 { self.own_capacity_at_most() } else { self.own_capacity() };
        let may_repeat = self.may_have_been_lowered();
        let to = if may_repeat { to.max(meant.max(written).min(reading.max)) } else { to };
        let is_enough = to > meant || (to == meant && may_repeat);
        (is_enough && to >= written).then(|| sent(to))
    }

    /// How many instances a capacity that our writes set has to have room for, if it is too low. `own` are instances
    /// that the cloud launched for reasons of its own, if they can be read.
    ///
    /// An instance that was already going when we named it gave up no place: one more lives than the capacity allows
    /// for, and none of the cloud's own explains it. If a deletion got no response, the named instances that a read
    /// still shows may stay live; the capacity falls only when they begin to go.
    fn room_owed(&self, own: Option<&OwnLaunches>) -> Option<u32> {
        let observation = &self.observation;
        let desired = observation.reading.desired.saturating_add(self.in_flight.to_be_raised(observation.begun));
        let explains =
            |writes: &RecentWrites| writes.at <= observation.detailed && writes.explain(desired, &self.in_flight);
        let own_last = self.recent_writes(observation.begun).filter(explains);
        let lost = self.lost_write.map(|lost| lost.then).filter(explains);
        let writes = own_last.or(lost)?;
        let unsettled = self.may_live_on();
        // Instances that a launch makes, or has made, live as well.
        let live = self.census().live.saturating_add(unsettled).saturating_add(self.in_flight.unlisted());
        let owed = match own {
            Some(own) => live.saturating_sub(self.listed_among(own.additional())),
            None if writes.had_room && observation.reading.consistency.grows_by == GrowsBy::Capacity => live,
            // Any other may be the cloud's own, or of another process's launch, whose capacity follows.
            None => self.live_within_capacity(),
        };
        let owed = owed.min(writes.seen);
        // What was set has room for those of them that were named before.
        let without_room = unsettled.saturating_sub(writes.named_before(&self.in_flight));
        Some(live.min(writes.ceiling().saturating_add(without_room)).max(owed))
    }

    /// Whether launches show that the last observation is younger than the last of our writes that it seemed too old to
    /// show.
    pub(crate) fn is_dated_by_launches(&self) -> bool {
        let since = self.undated_since();
        since.is_some_and(|since| self.observation.launched_after(since, &self.activity.launched).next().is_some())
    }

    /// When the last of our writes was sent that the last observation may be too old to show, by the cloud's clock,
    /// where launches can tell.
    pub(crate) fn undated_since(&self) -> Option<SystemTime> {
        let (observation, in_flight) = (&self.observation, &self.in_flight);
        if self.is_guarded() || observation.reading.consistency.reads != Reads::Together {
            return None;
        }
        let (reading, capacity) = (&observation.reading, self.census().capacity);
        let is_explained = in_flight.written_capacity(reading) != reading.desired;
        let is_undated = |one: &&Operation| match one.deletes() {
            Some(ids) => ids.iter().any(|id| in_flight.is_unread(id)),
            None => one.is_unpolled_growth() && is_explained,
        };
        let operations = in_flight.operations().iter().filter(is_undated).map(|one| one.sent);
        let written = self.recent_writes(observation.begun).filter(|_| capacity < self.own_capacity());
        operations.chain(written.and_then(|recent| recent.wrote_by())).max()
    }

    fn recent_writes(&self, now: Time) -> Option<RecentWrites> {
        self.recent_writes.filter(|recent| now.since(recent.at) <= Consistency::LAG)
    }

    /// The same, unless another client has set the capacity since: a read that can no longer lag behind what they set
    /// shows a number that they do not explain. The next write begins anew from that number.
    fn standing_writes(&self, now: Time) -> Option<RecentWrites> {
        let desired = self.observation.reading.desired.saturating_add(self.in_flight.unshown());
        let is_younger = |recent: &RecentWrites| self.observation.at > recent.written.1 + Consistency::LAG;
        let explains = |recent: &RecentWrites| recent.explain(desired, &self.in_flight);
        self.recent_writes(now).filter(|recent| !is_younger(recent) || explains(recent))
    }

    /// Whether the cloud refuses a capacity write if the group has changed since it was read.
    fn is_guarded(&self) -> bool {
        self.observation.reading.consistency.is_guarded()
    }
}
