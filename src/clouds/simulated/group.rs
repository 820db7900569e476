//! One simulated node group: its state, its agenda, and what both kinds of groups do alike.
//!
//! Pure: it knows no clock but the times it is given, waits for nothing and draws all chance from its own seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::chance::{draw, hash};
use super::member::{Claim, Member, Phase};
use super::plan::{GroupPlan, Kind, Victims};
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
    pub(super) hidden: bool,
    pub(super) rng: Rng,
    pub(super) launches: u32,
    pub(super) deletions: u32,
    pub(super) reconcile_at: Option<Duration>,
    pub(super) scale_in_at: Option<Duration>,
    pub(super) lowered_by: Author,
    pub(super) events: Vec<Event>,
    pub(super) kills: Vec<Killed>,
    pub(super) hints: Arc<GroupHints>,
    /// Tells this group from an earlier one of the same name.
    pub(super) edition: u64,
    /// When the world was last told that this group is next.
    pub(super) announced: Option<Duration>,
    /// The fewest that stayed at any moment since this was last taken; kept once somebody has asked for it.
    low: Option<u32>,
    changes: u64,
    created: u64,
    serial: u64,
    agenda: BinaryHeap<Reverse<(Duration, u64, Due)>>,
}

/// Something that falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// An instance meets its fate.
    Member(u64),
    /// An Auto Scaling group looks whether it has as many instances as desired.
    Reconcile,
    /// An Auto Scaling group terminates what it has too many.
    ScaleIn,
    /// An instance is evicted.
    Evict,
}

impl Group {
    /// A new group with its initial instances running.
    pub(super) fn new(plan: GroupPlan, seed: u64, edition: u64, at: Duration) -> Self {
        let rng = Rng::with_seed(seed ^ hash([plan.name.as_str()]) ^ edition);
        let (initial, standby) = (plan.initial, plan.standby);
        let mut group = Self {
            name: plan.name.as_str().into(),
            hints: Arc::new(plan.hints.clone()),
            plan,
            capacity: initial,
            members: BTreeMap::new(),
            operations: BTreeMap::new(),
            activities: VecDeque::new(),
            hidden: false,
            rng,
            launches: 0,
            deletions: 0,
            reconcile_at: None,
            scale_in_at: None,
            lowered_by: Author::Outside,
            events: Vec::new(),
            kills: Vec::new(),
            edition,
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

    /// How it is made and behaves.
    pub fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    /// The capacity it strives for.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Its etag, where its kind has one.
    pub fn etag(&self) -> Option<String> {
        (self.plan.kind == Kind::AzureLike).then(|| format!("\"{}-{}\"", self.edition, self.changes))
    }

    /// The instances that the cloud lists, oldest first.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.phase != Phase::Requested)
    }

    /// How many listed instances stay unless something is done to them, standby left aside.
    pub fn live(&self) -> u32 {
        self.count(|member| member.phase.lives())
    }

    /// How many of those also have room in the capacity: one that was lowered from outside is as true as what still
    /// lives. Nothing stays of a group that is out of sight.
    fn stays(&self) -> u32 {
        if self.hidden { 0 } else { self.live().min(self.capacity) }
    }

    /// Notes a low, after anything was done to the group or by it.
    pub(super) fn mark_low(&mut self) {
        if let Some(low) = self.low {
            self.low = Some(low.min(self.stays()));
        }
    }

    /// The fewest that stayed since this was last asked, and so of every moment in between.
    pub(super) fn take_low(&mut self) -> u32 {
        let now = self.stays();
        self.low.replace(now).map_or(now, |low| low.min(now))
    }

    /// Launches under way whose instance is not listed yet.
    pub fn launching(&self) -> u32 {
        self.count(|member| member.phase == Phase::Requested)
    }

    /// Its activities, newest first (AWS-like).
    pub fn activities(&self) -> impl Iterator<Item = &Activity> {
        self.activities.iter().rev()
    }

    /// Its operations, oldest first; finished ones are forgotten after a while (Azure-like).
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// Changes whenever what a new machine is made from may have changed.
    pub fn launch_fingerprint(&self) -> u64 {
        let plan = &self.plan;
        let pairs = [&plan.tags, &plan.labels, &plan.hints.labels, &plan.hints.resources, &plan.hints.options];
        hash(
            (plan.instance_types.iter().chain(&plan.zones).map(String::as_str))
                .chain(pairs.into_iter().flatten().flat_map(|(key, value)| [key.as_str(), value.as_str()])),
        )
    }

    /// When something falls due next.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.agenda.peek().map(|Reverse((at, ..))| *at)
    }

    /// Does what falls due next.
    pub(super) fn step(&mut self) {
        let Some(Reverse((at, _, due))) = self.agenda.pop() else { return };
        match due {
            Due::Member(serial) => self.meet_fate(serial, at),
            Due::Reconcile if self.reconcile_at == Some(at) => {
                self.reconcile_at = None;
                self.reconcile(at);
            }
            Due::ScaleIn if self.scale_in_at == Some(at) => {
                self.scale_in_at = None;
                self.scale_in(at);
            }
            Due::Evict => {
                self.evict(at, 1);
                self.schedule_eviction(at);
            }
            // An entry that something later has replaced.
            Due::Reconcile | Due::ScaleIn => {}
        }
    }

    pub(super) fn schedule(&mut self, at: Duration, due: Due) {
        let order = self.next_serial();
        self.agenda.push(Reverse((at, order, due)));
    }

    /// A number that this group has not used yet.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(super) fn count(&self, wanted: impl Fn(&Member) -> bool) -> u32 {
        u32::try_from(self.members.values().filter(|member| wanted(member)).count()).unwrap_or(u32::MAX)
    }

    /// Notes that the group itself changed, which is what an etag stands for.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    pub(super) fn tell(&mut self, at: Duration, what: String) {
        self.events.push(Event { at, group: Arc::clone(&self.name), what });
    }

    /// Adds an instance in the given phase, without a fate.
    pub(super) fn add_member(&mut self, at: Duration, phase: Phase) -> u64 {
        let serial = self.created;
        self.created += 1;
        let turn = usize::try_from(serial).unwrap_or_default();
        let in_turn = |list: &[String]| list.get(turn % list.len().max(1)).cloned().unwrap_or_default();
        let (zone, instance_type) = (in_turn(&self.plan.zones), in_turn(&self.plan.instance_types));
        let id = match self.plan.kind {
            Kind::AwsLike => format!("i-0{:016x}", self.rng.u64(..)),
            Kind::AzureLike => serial.to_string(),
        };
        let provider_id = ids::provider_id(self.plan.kind, &self.name, &zone, &id);
        let member = Member {
            id,
            provider_id,
            zone,
            instance_type,
            phase,
            since: at,
            failure: None,
            fate: None,
            claim: Claim::None,
            resumes: phase,
            operation: None,
            activity: None,
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

    /// Chooses the victims of a capacity that is too low, and records that nobody named them.
    pub(super) fn kill(&mut self, count: u32, at: Duration, operation: Option<u64>) {
        let mut candidates: Vec<u64> =
            self.members.iter().filter(|(_, member)| member.phase.lives()).map(|(serial, _)| *serial).collect();
        match self.plan.victims {
            Victims::Newest => candidates.reverse(),
            Victims::Random => self.rng.shuffle(&mut candidates),
        }
        for serial in candidates.into_iter().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let Some(id) = self.members.get(&serial).map(|member| member.provider_id.clone()) else { continue };
            self.tell(at, format!("{} is deleted to get down to capacity {}", world::called(&id), self.capacity));
            self.kills.push(Killed {
                at,
                group: Arc::clone(&self.name),
                id,
                capacity: self.capacity,
                author: self.lowered_by,
            });
            self.begin_deletion(serial, at, operation, Claim::None, None);
        }
    }

    fn schedule_eviction(&mut self, at: Duration) {
        if let Some(span) = self.plan.evictions.clone() {
            // A span of nothing would never let time pass.
            let wait = draw(&mut self.rng, &span).max(Duration::from_millis(1));
            self.schedule(at + wait, Due::Evict);
        }
    }
}
