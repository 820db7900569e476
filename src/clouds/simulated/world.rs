//! The simulated world: all groups, and the order in which things happen to them.
//!
//! Pure, like the groups: time comes in as a duration since the beginning of the world. Every method that takes `now`
//! first does all that has fallen due until then, in order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::group::Group;
use super::lifecycle::instances;
use super::memory::Memory;
use super::plan::{GroupPlan, Kind};
use super::record::{Author, Event, Killed, Operation, Receipt, Refusal, RefusalKind};
use crate::cloud::ProviderId;

/// The wall-clock time at which every world begins: 2026-01-01T00:00:00Z.
const GENESIS: Duration = Duration::from_secs(1_767_225_600);
/// Happenings that a world remembers.
const EVENTS_MAX: usize = 10_000;

/// The simulated world.
#[derive(Debug)]
pub struct World {
    seed: u64,
    pub(super) now: Duration,
    editions: u64,
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    /// When which group is next; entries that the group has outrun are skipped.
    agenda: BinaryHeap<Reverse<(Duration, Arc<str>)>>,
    events: VecDeque<Event>,
    /// How many of the latest events nobody has taken yet.
    untold: usize,
    kills: Vec<Killed>,
    pub(super) memory: Option<Memory>,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Duration::ZERO,
            editions: 0,
            groups: BTreeMap::new(),
            agenda: BinaryHeap::new(),
            events: VecDeque::new(),
            untold: 0,
            kills: Vec::new(),
            memory: None,
        }
    }

    /// Does all that falls due until `now`. Time never runs backwards: an earlier `now` is as good as the latest.
    pub fn advance(&mut self, now: Duration) {
        while let Some(Reverse((due, _))) = self.agenda.peek()
            && *due <= now
        {
            let Some(Reverse((due, name))) = self.agenda.pop() else { break };
            let Some(group) = self.groups.get_mut(&name) else { continue };
            if group.next_due() == Some(due) {
                group.announced = None;
                group.step();
                self.now = self.now.max(due);
                self.settle(&name);
            }
        }
        self.now = self.now.max(now);
    }

    /// The latest time that the world has been brought to.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Creates a group, in place of one of the same name.
    pub fn create_group(&mut self, now: Duration, plan: GroupPlan) {
        self.advance(now);
        self.editions += 1;
        let group = Group::new(plan, self.seed, self.editions, self.now);
        let name = Arc::clone(&group.name);
        self.groups.insert(Arc::clone(&name), group);
        self.settle(&name);
    }

    /// Takes a group out of sight: the cloud says that there is none. Answers whether there was one.
    pub fn remove_group(&mut self, now: Duration, name: &str) -> bool {
        self.set_hidden(now, name, true)
    }

    /// Brings a removed group back as it would be had it not been away. Answers whether there is one.
    pub fn restore_group(&mut self, now: Duration, name: &str) -> bool {
        self.set_hidden(now, name, false)
    }

    /// The groups in sight, by name.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(|group| !group.hidden)
    }

    /// One group, if it is in sight.
    pub fn view(&self, name: &str) -> Option<&Group> {
        self.groups.get(name).filter(|group| !group.hidden)
    }

    /// Sets a capacity through the API. Answers the operation, where the group's kind has them.
    pub fn set_capacity(
        &mut self,
        now: Duration,
        group: &str,
        to: u32,
        if_match: Option<&str>,
    ) -> Result<Option<u64>, Refusal> {
        self.edit(now, group, |group, at| match group.plan.kind {
            Kind::AwsLike => group.set_desired(at, to, Author::Caller).map(|()| None),
            Kind::AzureLike => group.resize(at, to, if_match, Author::Caller).map(Some),
        })?
    }

    /// Deletes instances through the API, by the cloud's IDs, and lowers the capacity by their number.
    pub fn delete_instances(&mut self, now: Duration, group: &str, ids: &[&str]) -> Result<Receipt, Refusal> {
        self.edit(now, group, |group, at| match group.plan.kind {
            Kind::AzureLike => group.delete(at, ids),
            Kind::AwsLike => {
                let mut receipt = Receipt::default();
                for id in ids {
                    match group.terminate(at, id, true) {
                        Ok(true) => receipt.accepted.push((*id).to_owned()),
                        Ok(false) => receipt.already_gone.push((*id).to_owned()),
                        Err(refusal) => receipt.refused.push(((*id).to_owned(), refusal)),
                    }
                }
                if !receipt.accepted.is_empty() {
                    let count = u32::try_from(receipt.accepted.len()).unwrap_or(u32::MAX);
                    group.tell(at, format!("{} being deleted, capacity {}", instances(count), group.capacity));
                }
                Ok(receipt)
            }
        })?
    }

    /// Terminates one instance of an Auto Scaling group; without `decrement` it will be replaced. Answers whether it
    /// was there and not going already.
    pub fn terminate(&mut self, now: Duration, group: &str, id: &str, decrement: bool) -> Result<bool, Refusal> {
        self.edit(now, group, |group, at| group.terminate(at, id, decrement))?
    }

    /// An operation, while it is remembered.
    pub fn operation(&self, group: &str, number: u64) -> Option<&Operation> {
        self.groups.get(group)?.operations.get(&number)
    }

    /// The group that lists an instance with this cloud ID.
    pub fn group_of(&self, id: &str) -> Option<&Group> {
        self.groups().find(|group| group.find(id).is_some())
    }

    /// Every instance that a capacity write of the caller's cost its life, unnamed by anyone.
    pub fn killed_unnamed(&self) -> Vec<Killed> {
        self.kills.iter().filter(|killed| killed.author == Author::Caller).cloned().collect()
    }

    /// Every instance that any capacity write cost its life.
    pub fn kills(&self) -> &[Killed] {
        &self.kills
    }

    /// What happened, oldest first, as far as it is remembered.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// What happened since this was last asked.
    pub fn take_new_events(&mut self) -> Vec<Event> {
        let untold = std::mem::take(&mut self.untold);
        self.events.range(self.events.len() - untold..).cloned().collect()
    }

    /// The fewest instances that each group kept at any moment since this was last asked, by group: those that live and
    /// have room in the capacity. To be held against what is published: a true 0 may last for less than a second.
    pub fn take_lows(&mut self) -> BTreeMap<Arc<str>, u32> {
        self.groups.values_mut().map(|group| (Arc::clone(&group.name), group.take_low())).collect()
    }

    fn set_hidden(&mut self, now: Duration, name: &str, hidden: bool) -> bool {
        self.advance(now);
        let Some(group) = self.groups.get_mut(name) else { return false };
        let at = self.now;
        if group.hidden != hidden {
            group.hidden = hidden;
            group.tell(at, if hidden { "the group was removed" } else { "the group is back" }.to_owned());
        }
        self.settle(name);
        true
    }

    /// Does something to a group in sight.
    pub(super) fn edit<R>(
        &mut self,
        now: Duration,
        name: &str,
        change: impl FnOnce(&mut Group, Duration) -> R,
    ) -> Result<R, Refusal> {
        self.advance(now);
        let at = self.now;
        let Some(group) = self.groups.get_mut(name).filter(|group| !group.hidden) else {
            let message = format!("There is no group {name}.");
            return Err(Refusal::new(RefusalKind::NotFound, "ResourceNotFound", message));
        };
        let result = change(group, at);
        self.settle(name);
        Ok(result)
    }

    /// Takes over what a group has to tell after something was done to it or by it.
    fn settle(&mut self, name: &str) {
        let Some(group) = self.groups.get_mut(name) else { return };
        group.mark_low();
        if let Some(due) = group.next_due()
            && group.announced != Some(due)
        {
            group.announced = Some(due);
            self.agenda.push(Reverse((due, Arc::clone(&group.name))));
        }
        self.kills.append(&mut group.kills);
        self.untold += group.events.len();
        self.events.extend(group.events.drain(..));
        let surplus = self.events.len().saturating_sub(EVENTS_MAX);
        self.events.drain(..surplus);
        self.untold = self.untold.min(EVENTS_MAX);
        if let Some(memory) = &mut self.memory {
            memory.note(self.now, group);
        }
    }
}

/// Wall-clock time so long after the beginning of the world.
pub fn wall_clock(at: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + GENESIS + at
}

/// What people call an instance: the last part of its ID.
pub(super) fn short(id: &ProviderId) -> &str {
    id.as_str().rsplit('/').next().unwrap_or_default()
}

/// What the narration calls an instance: a scale set's has but a number.
pub(super) fn called(id: &ProviderId) -> String {
    match short(id) {
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("instance {number}"),
        name => name.to_owned(),
    }
}
