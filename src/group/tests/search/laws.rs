//! What holds in every state of a world, and what no client can rule out.

use std::hash::{Hash, Hasher};

use super::cloud::{Call, Kind, LAG, MAX, Stage, View, name, number};
use super::promises::Asked;
use super::world::World;
use crate::cloud::{GroupReading, InstanceState, ZoneName};
use crate::group::job::Work;

/// A law that does not hold, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub String);

/// What no client can rule out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Assume {
    /// The group changes between a read and the write that was computed on it, and no read shows it before the cloud
    /// acts on it.
    ChangedBetweenReadAndWrite,
    /// A read that a write was computed on lags, or those after one that showed what the write did, and no other read
    /// shows that before the cloud acts on it.
    ReadLags,
    /// Another client sets the capacity while a write of ours is to be undone.
    OtherSetsDuringUndo,
    /// The process ends while a write of its own is to be undone.
    RestartDuringUndo,
    /// The process ends while a write of its own is on its way, and CA asks for the same once more.
    RestartDuringWrite,
}

impl Assume {
    pub(super) const ALL: [Self; 5] = [
        Self::ChangedBetweenReadAndWrite,
        Self::ReadLags,
        Self::OtherSetsDuringUndo,
        Self::RestartDuringUndo,
        Self::RestartDuringWrite,
    ];

    /// Its name, how likely it is, and the worst outcome.
    pub(super) fn text(self) -> (&'static str, &'static str, &'static str) {
        let one = "the cloud terminates one instance of its own choice for each that the capacity is too low by";
        match self {
            Self::ChangedBetweenReadAndWrite => (
                "changed-between-read-and-write",
                "rare: a change within about a second before a write, and reads that lag by 20 s after it",
                one,
            ),
            Self::ReadLags => ("read-lags", "rare: reads lag by seconds, and here the next ones by 20 s", one),
            Self::OtherSetsDuringUndo => {
                ("other-client-during-undo", "rare: another client sets the capacity within the same 30 s", one)
            }
            Self::RestartDuringUndo => ("restart-during-undo", "rare: the process ends within the same 30 s", one),
            Self::RestartDuringWrite => (
                "restart-during-write",
                "very rare: the process ends during a write, and that takes effect after the next process wrote",
                one,
            ),
        }
    }
}

/// What is remembered of a world to judge it. The machine knows none of this.
#[derive(Clone, Debug, Default)]
pub(super) struct Laws {
    /// Instances that CA named, and instances that any client did: a bit each.
    asked_for: u8,
    named: u8,
    /// Instances whose deletion this process saw accepted.
    accepted: u8,
    /// How many live instances are too many because of a write of ours.
    ours: u8,
    /// Since when more live than the capacity says, or since ours are among them.
    pub(super) surplus_since: Option<u64>,
    /// When a read first showed that, with nothing left to wait for. No later one lags.
    seen_since: Option<u64>,
    excuse: Option<Assume>,
    /// What the last read showed of what others did, and whether it lagged.
    read: (u8, bool),
    /// The same when the last write was sent.
    sent: (u8, bool),
    last_write: Option<u64>,
    /// The highest capacity that a read showed or that was set.
    highest: u8,
    /// A capacity write without a response: when it was sent, its capacity, and whether a read has shown that.
    lost: Option<(u64, u8, bool)>,
    desired: Option<u8>,
    /// Whether another client set the capacity to 0.
    is_zero_asked: bool,
    /// Whether a process ended while a write of its own was on its way.
    is_forgotten: bool,
    /// What has happened that no client can rule out. The search takes it.
    pub(super) assumed: Option<Assume>,
}

fn bit(id: u8) -> u8 {
    1 << id
}

fn beyond(view: &View) -> u8 {
    view.live().saturating_sub(view.desired)
}

/// Whether what is being sent is a preempted deletion, once more.
fn is_resent(world: &World) -> bool {
    world.group.job.as_ref().is_some_and(|job| matches!(job.work, Work::Resend(_)))
}

fn broken(why: String) -> Result<(), Broken> {
    Err(Broken(why))
}

impl Laws {
    /// CA or another client named an instance to be deleted.
    pub(super) fn named(&mut self, id: u8) {
        self.named |= bit(id);
    }

    pub(super) fn asked_to_delete(&mut self, id: u8) {
        self.asked_for |= bit(id);
        self.named(id);
    }

    /// A read was answered.
    pub(super) fn read(&mut self, capacity: &View, list: &View, is_fresh: bool, is_whole: bool, now: u64) {
        self.read = (capacity.foreign.min(list.foreign), !is_fresh);
        self.highest = self.highest.max(capacity.desired);
        let is_seen = self.ours > 0 && is_fresh && is_whole && list.listed() == list.live();
        self.seen_since = self.seen_since.or_else(|| is_seen.then_some(now));
        if self.seen_since.is_some() && !is_fresh {
            // The machine believes the last read. The next one that does not lag shows it again.
            (self.seen_since, self.excuse) = (None, Some(Assume::ReadLags));
        }
        if let Some((_, to, is_shown)) = &mut self.lost {
            *is_shown |= capacity.desired == *to;
        }
    }

    /// As many instances are to be launched. The capacity follows.
    pub(super) fn launches(&mut self, number: u8) {
        self.highest += number;
    }

    /// Whether the last read shows all that others did.
    pub(super) fn has_read(&self, view: &View) -> bool {
        self.read == (view.foreign, false)
    }

    pub(super) fn sends(&mut self) {
        self.sent = self.read;
    }

    /// A write was answered.
    pub(super) fn answered(&mut self, call: &Call, is_lost: bool, now: u64) {
        self.last_write = Some(now);
        match call {
            Call::Set { to, .. } => {
                self.highest = self.highest.max(*to);
                self.lost = if is_lost { Some((now, *to, false)) } else { self.lost };
            }
            Call::Delete { ids, .. } if !is_lost => ids.iter().for_each(|id| self.accepted |= bit(*id)),
            _ => {}
        }
    }

    /// A write of ours took effect.
    pub(super) fn wrote(
        &mut self,
        call: &Call,
        victims: &[u8],
        before: &View,
        after: &View,
        now: u64,
    ) -> Result<(), Broken> {
        if let Some(victim) = victims.iter().find(|id| self.named & bit(**id) == 0) {
            return broken(format!("law 1: {call:?} deletes i-{victim}, which nobody named"));
        }
        let (was, is) = (beyond(before), beyond(after));
        if is > was {
            self.ours += is - was;
            self.seen_since = None;
            self.surplus_since = None;
            let (foreign, is_stale) = self.sent;
            if foreign == before.foreign && !is_stale && !self.is_forgotten {
                return broken(format!("law 1: {call:?} leaves {is} live instances without room"));
            }
            self.excuse = Some(match is_stale {
                _ if self.is_forgotten => Assume::RestartDuringWrite,
                true => Assume::ReadLags,
                false => Assume::ChangedBetweenReadAndWrite,
            });
        }
        self.settle(after, now);
        Ok(())
    }

    pub(super) fn changed_by_others(&mut self, view: &View, now: u64) {
        if self.ours > 0 && self.desired != Some(view.desired) {
            self.excuse = Some(Assume::OtherSetsDuringUndo);
            self.seen_since = None;
        }
        self.is_zero_asked |= view.desired == 0 && self.desired != Some(0);
        self.settle(view, now);
    }

    pub(super) fn settle(&mut self, view: &View, now: u64) {
        let excess = beyond(view);
        self.ours = self.ours.min(excess);
        self.desired = Some(view.desired);
        self.is_zero_asked &= view.desired == 0;
        self.surplus_since = if excess == 0 { None } else { Some(self.surplus_since.unwrap_or(now)) };
    }

    /// The cloud terminated an instance of its own choice.
    pub(super) fn terminated(&mut self, id: u8, view: &View, now: u64) -> Result<(), Broken> {
        let is_ours = self.ours > beyond(view) && self.named & bit(id) == 0;
        if is_ours && self.seen_since.is_some_and(|since| since < now) {
            return broken(format!(
                "law 1: i-{id} is terminated although a read showed that a write of ours left no room"
            ));
        }
        self.assumed = self.excuse.filter(|_| is_ours);
        self.settle(view, now);
        Ok(())
    }

    pub(super) fn restarted(&mut self, is_writing: bool) {
        self.is_forgotten |= is_writing;
        (self.accepted, self.last_write, self.lost, self.highest) = (0, None, None, 0);
        self.seen_since = None;
        if self.ours > 0 {
            self.excuse = Some(Assume::RestartDuringUndo);
        }
    }

    /// A deletion is being sent.
    pub(super) fn deletes(&self, world: &World, ids: &[u8], kept: &[u8]) -> Result<(), Broken> {
        let state = world.group.state();
        for id in ids {
            if self.asked_for & bit(*id) == 0 {
                return broken(format!("law 1: i-{id} is to be deleted, and CA did not name it"));
            }
            // What is sent once more goes with all that other deletions under way name.
            if is_resent(world) {
                continue;
            }
            let listed = state.observation().instances.iter().find(|one| one.id == name(*id));
            if listed.is_none_or(|one| one.state == InstanceState::Deleting) {
                return broken(format!("law 7: i-{id} is to be deleted, and is known to be going or gone"));
            }
            if state.in_flight().deletes(&name(*id)) {
                return broken(format!("law 7: i-{id} is to be deleted a second time"));
            }
        }
        let lowers = u32::try_from(ids.len() - kept.len()).expect("few");
        let target = state.status().target;
        // What never became a node is replaced, and its response shows that: below.
        let is_replaced = world.asked.iter().any(|(_, asked)| matches!(asked, Asked::DeleteUnregistered(_)));
        let is_judged = !is_resent(world) && !is_replaced;
        if target < u32::from(world.cloud.min) + lowers && is_judged {
            return broken(format!(
                "law 6: {lowers} are to be deleted of a target of {target}, and min is {}",
                world.cloud.min
            ));
        }
        Ok(())
    }

    /// A capacity write is being sent.
    pub(super) fn sets_capacity(&self, world: &World, basis: &GroupReading, to: u8) -> Result<(), Broken> {
        let from = u8::try_from(basis.desired).expect("small");
        let is_declared = !matches!(world.cloud.kind, Kind::ScaleSet { is_declared: false, .. });
        if to < from && !is_declared {
            return broken(format!("law 1: a scale set's capacity is to be lowered from {from} to {to}"));
        }
        // What is being deleted and still counted leaves the capacity again.
        let status = world.group.state().status();
        let going = u8::try_from(status.in_state(InstanceState::Deleting)).expect("small");
        // A raise may end below the minimum where a deletion without a response may have lowered the capacity.
        let may_end_below = to > from && world.group.state().in_flight().has_unsettled();
        if (to < world.cloud.min && !may_end_below) || to > from.max(MAX + going) {
            return broken(format!("law 6: the capacity is to be set to {to}"));
        }
        let is_asked = world.asked.iter().any(|(_, asked)| !matches!(asked, Asked::Delete(_)));
        if let Some((sent, lost, false)) = self.lost.filter(|_| !world.cloud.kind.is_guarded())
            && world.now < sent + LAG
            && (is_asked || to + u8::try_from(self.named.count_ones()).expect("few") < lost)
        {
            return broken(format!("law 7: {to} is to be set while a write of {lost} is lost"));
        }
        let state = world.group.state();
        if is_asked || state.deferred() > 0 || state.in_flight().owed_now() > 0 {
            return Ok(());
        }
        let is_recent = self.last_write.is_some_and(|written| world.now <= written + LAG + 5_000);
        if world.cloud.kind.is_guarded() || !is_recent || to <= from || to > self.highest {
            return broken(format!("law 11: the capacity is to be set from {from} to {to}, and nobody asked"));
        }
        Ok(())
    }

    /// A request got the response OK.
    pub(super) fn responded(
        &self,
        asked: &Asked,
        before: &[(Option<ZoneName>, u32)],
        world: &World,
        is_accepted: bool,
    ) -> Result<(), Broken> {
        let group = &world.group;
        let after = group.state().status();
        let is_shown = match asked {
            Asked::Increase(_, zone) if is_accepted => {
                let target = |targets: &[(Option<ZoneName>, u32)]| {
                    targets.iter().find(|(one, _)| one == zone).map_or(0, |(_, target)| *target)
                };
                target(&world.targets()) > target(before)
            }
            Asked::Increase(..) => after.target > 0,
            Asked::Delete(id) | Asked::DeleteUnregistered(id) => {
                let min = group.state().observation().reading.min;
                if matches!(asked, Asked::DeleteUnregistered(_))
                    && after.target < min.min(before.iter().map(|(_, target)| target).sum())
                {
                    return broken(format!("law 6: i-{id} is not replaced, and the target is {}", after.target));
                }
                let id = name(*id);
                let listed = after.instances.iter().find(|one| one.id == id);
                listed.is_none_or(|one| one.state == InstanceState::Deleting) || group.is_to_be_resent(&id)
            }
            Asked::Placeholder | Asked::Decrease => true,
        };
        if is_shown { Ok(()) } else { broken(format!("law 4: {asked:?} is OK and does not show in {after:?}")) }
    }

    /// What holds in every state.
    pub(super) fn check(&self, world: &World) -> Result<(), Broken> {
        if world.cloud.kind.is_guarded() {
            return Ok(());
        }
        let status = world.group.state().status();
        let mut back = status.instances.iter().filter(|one| one.state != InstanceState::Deleting);
        let back = back.find_map(|one| number(&one.id).filter(|id| self.accepted & bit(*id) != 0));
        back.map_or(Ok(()), |id| broken(format!("law 4: i-{id} is reported as live, and its deletion was accepted")))
    }

    /// What holds whenever there is nothing to do but to wait.
    pub(super) fn before_time_passes(&self, world: &World) -> Result<(), Broken> {
        let state = world.group.state();
        if self.is_zero_asked
            || state.status().target > 0
            || world.cloud.view.live() <= beyond(&world.cloud.view) - self.ours
        {
            return Ok(());
        }
        let observed = &state.observation().instances;
        let is_known = |id: u8| observed.iter().any(|one| one.id == name(id) && one.state != InstanceState::Deleting);
        let up = world.cloud.view.machines.iter().filter(|one| one.stage == Stage::Up && self.named & bit(one.id) == 0);
        match up.map(|one| one.id).find(|id| is_known(*id)) {
            Some(id) => broken(format!("law 5: the target is 0 while i-{id} lives, and nobody asked for that")),
            None => Ok(()),
        }
    }

    pub(super) fn hash_into(&self, age: impl Fn(u64) -> u64, hasher: &mut impl Hasher) {
        (self.asked_for, self.named, self.accepted, self.ours, self.seen_since.map(&age), self.excuse).hash(hasher);
        (self.surplus_since.map(&age), self.read, self.sent, self.last_write.map(&age), self.highest).hash(hasher);
        (
            self.lost.map(|(sent, to, is_shown)| (age(sent), to, is_shown)),
            self.desired,
            self.is_forgotten,
            self.is_zero_asked,
        )
            .hash(hasher);
    }
}
