//! One simulated node group: its state, and what both styles of groups have in common.
//!
//! It does no I/O, takes the time as an argument, and draws all randomness from its own seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::agenda::Due;
use super::chance::hash;
use super::launch_call::LaunchCall;
use super::member::{DeletionAccounting, Member, Phase};
use super::plan::{GroupPlan, GroupStyle, RemovalOrder};
use super::record::{Activity, Author, Event, Killed, Operation};
use super::{ids, world};
use crate::cloud::GroupHints;

/// One simulated node group.
#[derive(Debug)]
pub struct Group {
    pub(super) name: Arc<str>,
    pub(super) plan: GroupPlan,
    pub(super) capacity: u32,
    pub(super) members: BTreeMap<u64, Member>,
    pub(super) operations: BTreeMap<u64, Operation>,
    pub(super) activities: VecDeque<Activity>,
    /// Launches that were requested in the last hours.
    pub(super) launch_calls: Vec<LaunchCall>,
    pub(super) hidden: bool,
    pub(super) rng: Rng,
    pub(super) launches: u32,
    pub(super) deletions: u32,
    /// Instances that are gone because a client named them.
    pub(super) removed: u32,
    pub(super) reconcile_at: Option<Duration>,
    pub(super) scale_in_at: Option<Duration>,
    pub(super) lowered_by: Author,
    /// Instances that the cloud launched beyond the capacity for reasons of its own, and will remove itself.
    pub(super) surplus: u32,
    pub(super) events: Vec<Event>,
    pub(super) kills: Vec<Killed>,
    pub(super) hints: Arc<GroupHints>,
    /// Distinguishes this group from an earlier one of the same name.
    pub(super) generation: u64,
    /// Distinguishes it from those of other clouds.
    pub(super) cloud: u64,
    /// The due time that the world last scheduled for this group.
    pub(super) announced: Option<Duration>,
    /// The fewest remaining instances since the last call of `take_low`; tracked from the first call on.
    low: Option<u32>,
    changes: u64,
    created: u64,
    serial: u64,
    pub(super) agenda: BinaryHeap<Reverse<(Duration, u64, Due)>>,
}

impl Group {
    /// A new group with its initial instances running.
    pub(super) fn new(plan: GroupPlan, seed: u64, generation: u64, at: Duration) -> Self {
        let rng = Rng::with_seed(seed ^ hash([plan.name.as_str()]) ^ generation);
        let (initial, standby) = (plan.initial, plan.standby);
        let mut group = Self {
            name: plan.name.as_str().into(),
            hints: Arc::new(plan.hints.clone()),
            plan,
            capacity: initial,
            members: BTreeMap::new(),
            operations: BTreeMap::new(),
            activities: VecDeque::new(),
            launch_calls: Vec::new(),
            hidden: false,
            rng,
            launches: 0,
            deletions: 0,
            removed: 0,
            reconcile_at: None,
            scale_in_at: None,
            lowered_by: Author::External,
            surplus: 0,
            events: Vec::new(),
            kills: Vec::new(),
            generation,
            cloud: 0,
            announced: None,
            low: None,
            changes: 0,
            created: 0,
            serial: 0,
            agenda: BinaryHeap::new(),
        };
        for nth in 0..initial + standby {
            group.add_member(at, if nth < initial { Phase::Running } else { Phase::Standby });
        }
        group.schedule_eviction(at);
        group
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Distinguishes it from an earlier group of this name.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Its settings and behavior.
    pub fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    /// Its desired capacity, in instances.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The etag of a scale set.
    pub fn etag(&self) -> Option<String> {
        (self.plan.style == GroupStyle::ScaleSet).then(|| format!("\"{}\"", self.generation * 1_000_000 + self.changes))
    }

    /// The instances that the cloud lists, oldest first.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.phase != Phase::Requested)
    }

    /// How many listed instances stay until something removes them. Standby does not count.
    pub fn live(&self) -> u32 {
        self.count(|member| member.phase.lives())
    }

    /// How many instances of the capacity are gone because a client named them.
    pub fn removed(&self) -> u32 {
        self.removed
    }

    /// Live instances that the cloud holds against the capacity: all but its own surplus.
    pub fn live_without_surplus(&self) -> u32 {
        self.live().saturating_sub(self.surplus)
    }

    /// How many live instances the capacity allows for: the lowest target that is right if another client has lowered
    /// it. 0 for a hidden group. Instances that are listed without an ID do not count.
    fn remaining(&self) -> u32 {
        if self.hidden {
            return 0;
        }
        let going = self.count(|member| member.counts() && !member.phase.lives());
        self.live().min(self.capacity.saturating_sub(going)).saturating_sub(self.without_id())
    }

    /// Updates the low after any change.
    pub(super) fn mark_low(&mut self) {
        if let Some(low) = self.low {
            self.low = Some(low.min(self.remaining()));
        }
    }

    /// The fewest remaining instances at any moment since the last call.
    pub(super) fn take_low(&mut self) -> u32 {
        let now = self.remaining();
        self.low.replace(now).map_or(now, |low| low.min(now))
    }

    /// Launches in progress whose instance is not listed yet.
    pub fn launching(&self) -> u32 {
        self.count(|member| member.phase == Phase::Requested)
    }

    /// Its activities, newest first (Auto Scaling groups only).
    pub fn activities(&self) -> impl Iterator<Item = &Activity> {
        self.activities.iter().rev()
    }

    /// Its operations, oldest first; old finished ones are dropped (scale sets only).
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// Changes whenever the launch spec of a new instance may have changed.
    pub fn launch_fingerprint(&self) -> u64 {
        let plan = &self.plan;
        let pairs = [&plan.tags, &plan.labels, &plan.hints.labels, &plan.hints.resources, &plan.hints.options];
        hash(
            (plan.instance_types.iter().chain(&plan.zones).map(String::as_str))
                .chain(pairs.into_iter().flatten().flat_map(|(key, value)| [key.as_str(), value.as_str()])),
        )
    }

    /// A number that this group has not used yet.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(super) fn count(&self, wanted: impl Fn(&Member) -> bool) -> u32 {
        u32::try_from(self.members.values().filter(|member| wanted(member)).count()).unwrap_or(u32::MAX)
    }

    /// Gives the group a new etag.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    pub(super) fn narrate(&mut self, at: Duration, what: String) {
        self.events.push(Event { at, group: Arc::clone(&self.name), what });
    }

    /// Adds an instance in the given phase, without a transition.
    pub(super) fn add_member(&mut self, at: Duration, phase: Phase) -> u64 {
        self.add_member_in(at, phase, None)
    }

    /// Adds one in this zone, or in the one whose turn it is.
    pub(super) fn add_member_in(&mut self, at: Duration, phase: Phase, zone: Option<String>) -> u64 {
        let serial = self.created;
        self.created += 1;
        let turn = usize::try_from(serial).unwrap_or_default();
        let in_turn = |list: &[String]| list.get(turn % list.len().max(1)).cloned().unwrap_or_default();
        let zone = zone.unwrap_or_else(|| in_turn(&self.plan.zones));
        let instance_type = in_turn(&self.plan.instance_types);
        let id = match self.plan.style {
            GroupStyle::AutoScaling => format!("i-0{:016x}", self.rng.u64(..)),
            GroupStyle::ScaleSet => serial.to_string(),
        };
        let provider_id = ids::provider_id(self.plan.style, &self.name, &zone, &id);
        let member = Member {
            id,
            provider_id,
            zone,
            instance_type,
            phase,
            since: at,
            failure: None,
            transition: None,
            accounting: DeletionAccounting::None,
            resumes: phase,
            operation: None,
            activity: None,
            lacks_id: false,
        };
        self.members.insert(serial, member);
        serial
    }

    /// The serial of the listed instance with this cloud ID.
    pub(super) fn find(&self, id: &str) -> Option<u64> {
        self.members
            .iter()
            .find(|(_, member)| member.phase != Phase::Requested && member.id.eq_ignore_ascii_case(id))
            .map(|(serial, _)| *serial)
    }

    /// Deletes instances of the cloud's own choice because the capacity is too low, and records that no client named
    /// them.
    pub(super) fn kill(&mut self, count: u32, at: Duration, operation: Option<u64>) {
        let mut candidates: Vec<u64> =
            self.members.iter().filter(|(_, member)| member.phase.lives()).map(|(serial, _)| *serial).collect();
        match self.plan.removal_order {
            RemovalOrder::Newest => candidates.reverse(),
            RemovalOrder::Random => self.rng.shuffle(&mut candidates),
        }
        for serial in candidates.into_iter().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let Some(id) = self.members.get(&serial).map(|member| member.provider_id.clone()) else { continue };
            self.narrate(
                at,
                format!("{} is deleted to get down to capacity {}", world::display_name(&id), self.capacity),
            );
            self.kills.push(Killed {
                at,
                group: Arc::clone(&self.name),
                id,
                capacity: self.capacity,
                author: self.lowered_by,
            });
            self.begin_deletion(serial, at, operation, DeletionAccounting::None, None);
        }
    }
}
