//! The simulated world: all groups, and the order in which their scheduled changes happen.
//!
//! It does no I/O and has no clock: a time is a duration since the beginning of the world. Every method that takes
//! `now` first applies all changes that are due by then, in order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::faults::PastReadings;
use super::group::Group;
use super::late_write::LateWrite;
use super::lifecycle::instances;
use super::plan::{GroupPlan, GroupStyle};
use super::record::{Author, DeletionResult, Event, Killed, Operation, Refusal, RefusalKind};
use crate::cloud::ProviderId;

/// The wall-clock time when every world begins: 2026-01-01T00:00:00Z.
const WORLD_BEGINS: Duration = Duration::from_secs(1_767_225_600);
/// The number of events that a world keeps.
const EVENTS_MAX: usize = 10_000;

/// The simulated world.
#[derive(Debug)]
pub struct World {
    seed: u64,
    /// Distinguishes this cloud from the others of the process.
    number: u64,
    pub(super) now: Duration,
    pub(super) generations: u64,
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    /// When each group's next change is due. Outdated entries are skipped.
    agenda: BinaryHeap<Reverse<(Duration, Arc<str>)>>,
    events: VecDeque<Event>,
    /// How many of the latest events have not been taken yet.
    unsent: usize,
    kills: Vec<Killed>,
    /// Writes that take effect later, by the time of their effect.
    pub(super) late_writes: BTreeMap<(Duration, u64), LateWrite>,
    pub(super) past_readings: PastReadings,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        static CLOUDS: AtomicU64 = AtomicU64::new(0);
        Self {
            seed,
            number: CLOUDS.fetch_add(1, Ordering::Relaxed),
            now: Duration::ZERO,
            generations: 0,
            groups: BTreeMap::new(),
            agenda: BinaryHeap::new(),
            events: VecDeque::new(),
            unsent: 0,
            kills: Vec::new(),
            late_writes: BTreeMap::new(),
            past_readings: PastReadings::default(),
        }
    }

    /// Applies all changes that are due by `now`. Time never runs backwards: an earlier `now` has no effect.
    pub fn advance(&mut self, now: Duration) {
        loop {
            let scheduled = self.agenda.peek().map(|Reverse((due, _))| *due);
            let late = self.late_writes.first_key_value().map(|((due, _), _)| *due);
            if let Some(due) = late.filter(|due| *due <= now && scheduled.is_none_or(|scheduled| *due < scheduled)) {
                self.apply_late_write(due);
                continue;
            }
            if scheduled.is_none_or(|due| due > now) {
                break;
            }
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

    /// The current time of the world.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Creates a group, replacing one of the same name.
    pub fn create_group(&mut self, now: Duration, plan: GroupPlan) {
        self.advance(now);
        self.generations += 1;
        let mut group = Group::new(plan, self.seed, self.generations, self.now);
        group.cloud = self.number;
        let name = Arc::clone(&group.name);
        self.groups.insert(Arc::clone(&name), group);
        self.settle(&name);
    }

    /// The groups that are not hidden, by name.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(|group| !group.hidden)
    }

    /// One group, unless it is hidden.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name).filter(|group| !group.hidden)
    }

    /// Sets a capacity through the API. Returns the operation of a scale set.
    pub fn set_capacity(
        &mut self,
        now: Duration,
        group: &str,
        to: u32,
        if_match: Option<&str>,
    ) -> Result<Option<u64>, Refusal> {
        self.edit(now, group, |group, at| match group.plan.style {
            GroupStyle::AutoScaling => group.set_desired(at, to, Author::Caller).map(|()| None),
            GroupStyle::ScaleSet => group.resize(at, to, if_match, Author::Caller).map(Some),
        })?
    }

    /// Deletes instances through the API, by the cloud's IDs. An Auto Scaling group lowers its capacity by one for
    /// each, except those that it is to keep the capacity for.
    pub fn delete_instances(
        &mut self,
        now: Duration,
        group: &str,
        ids: &[&str],
        kept: &[&str],
    ) -> Result<DeletionResult, Refusal> {
        self.edit(now, group, |group, at| match group.plan.style {
            GroupStyle::ScaleSet => group.delete(at, ids),
            GroupStyle::AutoScaling => {
                let mut result = DeletionResult::default();
                for id in ids {
                    match group.terminate(at, id, !kept.contains(id)) {
                        Ok(true) => result.accepted.push((*id).to_owned()),
                        Ok(false) => result.already_gone.push((*id).to_owned()),
                        Err(refusal) => result.refused.push(((*id).to_owned(), refusal)),
                    }
                }
                if !result.accepted.is_empty() {
                    let count = u32::try_from(result.accepted.len()).unwrap_or(u32::MAX);
                    group.narrate(at, format!("{} being deleted, capacity {}", instances(count), group.capacity));
                }
                Ok(result)
            }
        })?
    }

    /// Terminates one instance of an Auto Scaling group; without `decrement` it is replaced. Returns false if it was
    /// gone or being deleted already.
    pub fn terminate(&mut self, now: Duration, group: &str, id: &str, decrement: bool) -> Result<bool, Refusal> {
        self.edit(now, group, |group, at| group.terminate(at, id, decrement))?
    }

    /// Has the cloud launch this many running instances beyond the capacity, and remove as many after this time.
    pub fn launch_surplus(&mut self, now: Duration, group: &str, count: u32, lasts: Duration) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.launch_surplus(at, count, lasts))
    }

    /// Has the cloud list this many instances without an ID for this long.
    pub fn hide_ids(&mut self, now: Duration, group: &str, count: usize, lasts: Duration) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.hide_ids(at, count, lasts))
    }

    /// An operation, as long as it is kept.
    pub fn operation(&self, group: &str, number: u64) -> Option<&Operation> {
        self.groups.get(group)?.operations.get(&number)
    }

    /// The group that lists an instance with this cloud ID.
    pub fn group_of(&self, id: &str) -> Option<&Group> {
        self.groups().find(|group| group.find(id).is_some())
    }

    /// Every unnamed instance that was deleted because of a capacity write of the caller.
    pub fn killed_unnamed(&self) -> Vec<Killed> {
        self.kills.iter().filter(|killed| killed.author == Author::Caller).cloned().collect()
    }

    /// Every instance that was deleted because of any capacity write.
    pub fn kills(&self) -> &[Killed] {
        &self.kills
    }

    /// The events that are kept, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// The events since the last call.
    pub fn take_new_events(&mut self) -> Vec<Event> {
        let unsent = std::mem::take(&mut self.unsent);
        self.events.range(self.events.len() - unsent..).cloned().collect()
    }

    /// The fewest instances that each group had at any moment since the last call: those that are live and that the
    /// capacity allows for. The simulation compares this to what is published, as a real 0 may last less than a second.
    pub fn take_lows(&mut self) -> BTreeMap<Arc<str>, u32> {
        self.groups.values_mut().map(|group| (Arc::clone(&group.name), group.take_low())).collect()
    }

    /// Changes a group that is not hidden.
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

    /// Collects a group's events and its next due time after it changed.
    pub(super) fn settle(&mut self, name: &str) {
        let Some(group) = self.groups.get_mut(name) else { return };
        group.mark_low();
        if let Some(due) = group.next_due()
            && group.announced != Some(due)
        {
            group.announced = Some(due);
            self.agenda.push(Reverse((due, Arc::clone(&group.name))));
        }
        self.kills.append(&mut group.kills);
        self.unsent += group.events.len();
        self.events.extend(group.events.drain(..));
        let surplus = self.events.len().saturating_sub(EVENTS_MAX);
        self.events.drain(..surplus);
        self.unsent = self.unsent.min(EVENTS_MAX);
        self.past_readings.record(self.now, group);
    }
}

/// The wall-clock time this long after the beginning of the world.
pub fn wall_clock(at: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + WORLD_BEGINS + at
}

/// The last segment of a provider ID.
pub(super) fn short_name(id: &ProviderId) -> &str {
    id.as_str().rsplit('/').next().unwrap_or_default()
}

/// The name of an instance in events: a scale set's instances have only numbers.
pub(super) fn display_name(id: &ProviderId) -> String {
    match short_name(id) {
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("instance {number}"),
        name => name.to_owned(),
    }
}
