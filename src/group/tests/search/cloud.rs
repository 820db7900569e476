//! A cloud with one node group and a few instances in it: what each write makes of it, and what a read shows.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::cloud::{
    CapacityIs, Consistency, Counts, Deletion, Failure, FailureClass, GroupHints, GroupReading, GrowsBy, Instance,
    InstanceState, LaunchActivity, Launched, OperationHandle, Permit, ProviderId, Provisioning, ZoneName, Zones,
};
use crate::group::{OperationId, Time};

/// How long a read may lag, and how long a write without a response may take effect after it was sent, in milliseconds.
pub(super) const LAG: u64 = 30_000;
/// No decision depends on how much older than this something is, in milliseconds.
pub(super) const OLD: u64 = 61_000;
/// The highest capacity.
pub(super) const MAX: u8 = 4;
/// No world makes more instances than this.
const IDS: u8 = 6;
/// The same where launches choose between zones.
const IDS_IN_ZONES: u8 = 8;
/// The zones. An instance with an even number is in the first one.
pub(super) const ZONES: [&str; 2] = ["a", "b"];

/// What kind of cloud it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    AutoScaling,
    /// An Auto Scaling group that grows by launches.
    Launching(Raises),
    /// The same, of which each zone is served.
    Zoned(Raises),
    ScaleSet {
        /// Whether a capacity is compared with the one before, and not with the live instances.
        is_nominal: bool,
        /// Whether the capacity falls when a deletion is accepted, and not when the instance is gone.
        is_released: bool,
        /// Whether the configuration says that the capacity is actual.
        is_declared: bool,
    },
}

/// When a launch raises the capacity. The documentation of AWS does not say which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Raises {
    /// With its instances, before the response.
    WithInstances,
    /// Some time after its instances, before the response or after it.
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// It is not listed yet where the cloud lists launches as activities first.
    Launching,
    Coming,
    Up,
    Going,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub id: u8,
    pub stage: Stage,
    /// When its launch began.
    pub launched: u64,
}

/// The moment counts by how long ago it is: the search hashes that.
impl Hash for Machine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.id, self.stage).hash(state);
    }
}

/// What the cloud knows of the group, and a read returns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub desired: u8,
    /// The version of the scale set.
    pub version: u8,
    pub machines: Vec<Machine>,
    /// How often something happened that Headcount did not cause.
    pub foreign: u8,
    pub provisioning: Provisioning,
}

/// A call of the machine's job that the cloud has not answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Read(IsWhole),
    Poll(Vec<OperationId>),
    Set { to: u8, version: u8 },
    Delete { ids: Vec<u8>, kept: Vec<u8> },
}

pub(super) type IsWhole = bool;

/// An operation of a scale set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    pub handle: u8,
    pub made: Vec<u8>,
    pub deletes: Vec<u8>,
}

/// The group as the cloud has it.
#[derive(Clone)]
pub(super) struct Cloud {
    pub kind: Kind,
    pub min: u8,
    pub view: View,
    /// What reads that lag may show, newest first, and when it was replaced.
    pub past: Vec<(View, u64)>,
    pub operations: Vec<Operation>,
    /// When launches failed.
    pub failures: Vec<u64>,
    /// How many instances and operations there have been.
    pub ids: u8,
    pub handles: u8,
}

pub(super) fn name(id: u8) -> ProviderId {
    ProviderId::from(format!("aws:///{}/i-{id}", zone_of(id)))
}

/// The zone of an instance.
pub(super) fn zone_of(id: u8) -> &'static str {
    ZONES[usize::from(id % 2)]
}

pub(super) fn number(id: &ProviderId) -> Option<u8> {
    id.instance().strip_prefix("i-")?.parse().ok()
}

pub(super) fn count(number: usize) -> u8 {
    u8::try_from(number).expect("small")
}

impl View {
    pub(super) fn live(&self) -> u8 {
        count(self.machines.iter().filter(|one| one.stage != Stage::Going).count())
    }

    pub(super) fn stage(&self, id: u8) -> Option<Stage> {
        self.machines.iter().find(|one| one.id == id).map(|one| one.stage)
    }

    /// How many are listed and not going.
    pub(super) fn listed(&self) -> u8 {
        count(self.machines.iter().filter(|one| matches!(one.stage, Stage::Coming | Stage::Up)).count())
    }

    pub(super) fn turn(&mut self, id: u8, stage: Stage) {
        self.machines.iter_mut().filter(|one| one.id == id).for_each(|one| one.stage = stage);
    }
}

impl Kind {
    pub(super) fn is_guarded(self) -> bool {
        matches!(self, Self::ScaleSet { .. })
    }

    pub(super) fn is_launching(self) -> bool {
        matches!(self, Self::Launching(_) | Self::Zoned(_))
    }

    /// The node groups that it is served as: itself, or each of its zones.
    pub(super) fn served(self) -> Vec<Option<ZoneName>> {
        match self {
            Self::Zoned(_) => ZONES.map(|zone| Some(ZoneName::from(zone))).to_vec(),
            _ => vec![None],
        }
    }

    /// When its launches raise the capacity.
    pub(super) fn raises(self) -> Option<Raises> {
        match self {
            Self::Launching(raises) | Self::Zoned(raises) => Some(raises),
            Self::AutoScaling | Self::ScaleSet { .. } => None,
        }
    }

    pub(super) fn consistency(self) -> Consistency {
        match self {
            Self::AutoScaling => Consistency::AUTO_SCALING,
            Self::Launching(_) => Consistency { grows_by: GrowsBy::Launch, ..Consistency::AUTO_SCALING },
            Self::Zoned(_) => Consistency { grows_by: GrowsBy::LaunchInZone, ..Consistency::AUTO_SCALING },
            Self::ScaleSet { is_declared: true, .. } => {
                Consistency { capacity_is: CapacityIs::Actual, ..Consistency::SCALE_SET }
            }
            Self::ScaleSet { .. } => Consistency::SCALE_SET,
        }
    }
}

pub(super) fn at(now: u64) -> (Time, SystemTime) {
    let since = Duration::from_millis(now);
    (Time::after_start(since), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + since)
}

pub(super) fn reading(cloud: &Cloud, capacity: &View, list: Option<&View>) -> GroupReading {
    let (kind, min) = (cloud.kind, cloud.min);
    let instances = list.map(|view| {
        let listed = view.machines.iter().filter(|one| kind.is_guarded() || one.stage != Stage::Launching);
        listed.map(|one| instance(kind, *one)).collect()
    });
    GroupReading {
        name: "g".into(),
        identity: None,
        consistency: kind.consistency(),
        min: min.into(),
        max: MAX.into(),
        floor: 0,
        desired: capacity.desired.into(),
        etag: kind.is_guarded().then(|| format!("v{}", capacity.version)),
        units_per_node: Some(1),
        is_detail_outdated: false,
        without_id: 0,
        retained: 0,
        has_own_surplus: false,
        provisioning: if kind.is_guarded() { capacity.provisioning } else { Provisioning::Running },
        growth: Permit::Granted,
        removal: Permit::Granted,
        launch: Permit::Granted,
        instances,
        hints: Arc::new(GroupHints::default()),
        zones: zones(kind),
        launch_fingerprint: 0,
        // A label follows that begins with a time, which the search takes no notice of.
        placeholder_prefix: "placeholder-Time-".to_owned(),
    }
}

fn zones(kind: Kind) -> Zones {
    let names = kind.served().into_iter().flatten().map(|zone| zone.to_string());
    Zones { names: names.collect(), ..Zones::default() }
}

fn instance(kind: Kind, one: Machine) -> Instance {
    let state = match one.stage {
        Stage::Launching | Stage::Coming => InstanceState::Creating,
        Stage::Up => InstanceState::Running,
        Stage::Going => InstanceState::Deleting,
    };
    let counts = match (kind, one.stage) {
        (Kind::ScaleSet { .. }, _) => Counts::UntilDeleted,
        (_, Stage::Going) => Counts::No,
        _ => Counts::Yes,
    };
    Instance { id: name(one.id), identity: None, state, counts, is_protected: false, failure: None }
}

fn launched(one: &Machine) -> Launched {
    Launched { instance: name(one.id).instance().to_owned(), at: at(one.launched).1 }
}

pub(super) fn failure(at: SystemTime) -> Failure {
    Failure {
        class: FailureClass::OutOfResources,
        code: "NoCapacity".to_owned(),
        message: String::new(),
        at,
        is_explained: true,
        is_eviction: false,
    }
}

impl Cloud {
    pub(super) fn new(kind: Kind, min: u8, capacity: u8, live: u8) -> Self {
        let machines = (0..live).map(|id| Machine { id, stage: Stage::Up, launched: 0 }).collect();
        let view = View { desired: capacity, version: 0, machines, foreign: 0, provisioning: Provisioning::Succeeded };
        Self { kind, min, view, past: Vec::new(), operations: Vec::new(), failures: Vec::new(), ids: live, handles: 0 }
    }

    /// What was there so many changes ago.
    pub(super) fn aged(&self, age: u8) -> &View {
        match age {
            0 => &self.view,
            age => &self.past[usize::from(age) - 1].0,
        }
    }

    fn most_ids(&self) -> u8 {
        if matches!(self.kind, Kind::Zoned(_)) { IDS_IN_ZONES } else { IDS }
    }

    /// Whether as many may be launched, in one zone or anywhere.
    pub(super) fn has_room_for(&self, number: u8) -> bool {
        let taken = if matches!(self.kind, Kind::Zoned(_)) { 2 * number } else { number };
        self.ids + taken <= self.most_ids()
    }

    /// Launches an instance in this zone.
    pub(super) fn launch_in(&mut self, zone: Option<&ZoneName>, now: u64) {
        self.ids += u8::from(zone.is_some_and(|zone| **zone != *zone_of(self.ids)));
        self.launch(now);
    }

    pub(super) fn launch(&mut self, now: u64) {
        if self.ids < self.most_ids() {
            self.view.machines.push(Machine { id: self.ids, stage: Stage::Launching, launched: now });
            self.ids += 1;
        }
    }

    pub(super) fn gone(&mut self, id: u8) {
        self.view.machines.retain(|one| one.id != id);
        if matches!(self.kind, Kind::ScaleSet { is_released: false, .. }) {
            self.view.desired = self.view.desired.saturating_sub(1);
            self.view.version += 1;
        }
    }

    /// Sets the capacity, and returns the operation and whom the cloud deletes for it.
    pub(super) fn set(&mut self, to: u8, now: u64) -> (Option<u8>, Vec<u8>) {
        let from = self.view.desired;
        self.view.desired = to;
        let Kind::ScaleSet { is_nominal, is_released, .. } = self.kind else { return (None, Vec::new()) };
        self.view.version += 1;
        let going = count(self.view.machines.iter().filter(|one| one.stage == Stage::Going).count());
        let counted = self.view.live() + if is_released { 0 } else { going };
        let basis = if is_nominal { from } else { counted };
        let first = self.ids;
        for _ in basis..to {
            self.launch(now);
        }
        // Nobody says which ones it chooses: here, those that CA names last.
        let up = self.view.machines.iter().rev().filter(|one| one.stage == Stage::Up).map(|one| one.id);
        let victims: Vec<u8> = up.take(usize::from(basis.saturating_sub(to))).collect();
        victims.iter().for_each(|id| self.view.turn(*id, Stage::Going));
        let handle = self.operate((first..self.ids).collect(), Vec::new());
        (Some(handle), victims)
    }

    pub(super) fn operate(&mut self, made: Vec<u8>, deletes: Vec<u8>) -> u8 {
        self.handles += 1;
        self.operations.push(Operation { handle: self.handles, made, deletes });
        self.view.provisioning = Provisioning::Running;
        self.handles
    }

    /// An operation has ended.
    pub(super) fn end_operation(&mut self, has_succeeded: bool) {
        self.view.provisioning = match (self.operations.is_empty(), has_succeeded) {
            (false, _) => Provisioning::Running,
            (true, true) => Provisioning::Succeeded,
            (true, false) => Provisioning::Failed,
        };
    }

    /// Deletes these, and keeps the capacity for some of them.
    pub(super) fn delete(&mut self, ids: &[u8], kept: &[u8]) -> Deletion {
        let mut deletion = Deletion::default();
        let mut begun = Vec::new();
        for id in ids {
            let stage = self.view.stage(*id);
            let is_new = matches!(stage, Some(Stage::Up | Stage::Launching | Stage::Coming));
            let lowers = match self.kind {
                Kind::ScaleSet { is_released, .. } => is_new && is_released,
                // Each call lowers it, for an instance that is already going, too (autoscaler #2930).
                Kind::AutoScaling | Kind::Launching(_) | Kind::Zoned(_) => stage.is_some() && !kept.contains(id),
            };
            if lowers {
                self.view.desired = self.view.desired.saturating_sub(1);
            }
            let is_accepted = is_new || (!self.kind.is_guarded() && stage.is_some());
            if is_accepted {
                deletion.accepted.push(name(*id))
            } else {
                deletion.already_gone.push(name(*id))
            }
            if is_new {
                self.view.turn(*id, Stage::Going);
                begun.push(*id);
            }
        }
        if self.kind.is_guarded() && !begun.is_empty() {
            self.view.version += 1;
            let handle = self.operate(Vec::new(), begun);
            deletion.handle = Some(OperationHandle(handle.to_string()));
        }
        deletion
    }

    pub(super) fn remember(&mut self, before: View, now: u64) {
        if before != self.view {
            self.past.insert(0, (before, now));
        }
    }

    pub(super) fn activity(&self) -> LaunchActivity {
        let launching = self.view.machines.iter().filter(|one| one.stage == Stage::Launching).count();
        let is_listed = self.kind.is_guarded();
        let failures = self.failures.iter().rev().map(|failed| failure(at(*failed).1)).collect();
        let up = self.view.machines.iter().filter(|one| matches!(one.stage, Stage::Coming | Stage::Up));
        LaunchActivity {
            failures: if is_listed { Vec::new() } else { failures },
            under_way: if is_listed { 0 } else { u32::from(count(launching)) },
            launched: up.map(launched).collect(),
            ..LaunchActivity::default()
        }
    }
}
