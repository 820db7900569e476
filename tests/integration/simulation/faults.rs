//! The groups of the cloud, and its faults.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use headcount::clouds::simulated::{
    Accounting, CallFault, CallKind, DeleteOutcome, Faults, GroupPlan, GroupStyle, LaunchOutcome, Overlap, Pick,
    PlannedFailure, ReadFault,
};
use tokio::time::Instant;

use super::world::World;

/// Two wrong readings in a row that agree are believed (law 5), so wrong readings are at least this far apart.
const WRONG_READINGS_APART: Duration = Duration::from_secs(30);

/// How long a capacity that another client raised from 0 may not have been read: a wrong reading of 0 contradicts nothing then.
const RAISE_UNREAD: Duration = Duration::from_secs(45);

/// A kind of fault or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FaultKind {
    /// Running instances are evicted.
    Evict,
    /// Somebody else changes the capacity.
    Resize,
    /// The next calls meet a fault.
    Call,
    /// The next read is wrong, stale or cannot be decoded.
    Read,
    /// Launches fail from now on.
    Launches,
    /// Deletions fail from now on.
    Deletions,
    /// Launches and deletions succeed from now on.
    Recover,
    /// Calls are slow, lose their responses, are throttled or meet conflicts.
    Degraded,
    /// A group is hidden, or shown again.
    Vanish,
    /// The process crashes.
    Crash,
    /// Of two processes, the other one becomes the leader's.
    Handover,
    /// The cloud launches instances of its own beyond the capacity, and removes them later.
    Surplus,
    /// A write takes effect after its client gave up.
    Late,
    /// After a write without a response, reads show the group as it was before.
    Lag,
    /// Instances of a scale set cannot be listed, or slowly.
    View,
    /// Polls, launch activity or templates are refused or hang.
    Side,
    /// Instances are listed without an ID.
    Nameless,
}

impl FaultKind {
    pub(super) const ALL: [Self; 17] = [
        Self::Evict,
        Self::Resize,
        Self::Call,
        Self::Read,
        Self::Launches,
        Self::Deletions,
        Self::Recover,
        Self::Degraded,
        Self::Vanish,
        Self::Crash,
        Self::Handover,
        Self::Surplus,
        Self::Late,
        Self::Lag,
        Self::View,
        Self::Side,
        Self::Nameless,
    ];

    /// Those that only runs with one process meet; docs/simulation.md says why.
    pub(super) const OF_ONE_PROCESS: [Self; 6] =
        [Self::Surplus, Self::Late, Self::Lag, Self::View, Self::Side, Self::Nameless];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Resize => "resize",
            Self::Call => "call",
            Self::Read => "read",
            Self::Launches => "launches",
            Self::Deletions => "deletions",
            Self::Recover => "recover",
            Self::Degraded => "degraded",
            Self::Vanish => "vanish",
            Self::Crash => "crash",
            Self::Handover => "handover",
            Self::Surplus => "surplus",
            Self::Late => "late",
            Self::Lag => "lag",
            Self::View => "view",
            Self::Side => "side",
            Self::Nameless => "nameless",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The faults of one run.
pub(super) struct FaultPlan {
    rng: Rng,
    muted: BTreeSet<FaultKind>,
    /// Nobody but the caller changes anything, and every response that arrives is right.
    is_exclusive: bool,
    vanished: BTreeSet<String>,
    /// When a read was last wrong, or still going to be.
    last_read_fault: Option<Instant>,
    is_read_fault_pending: bool,
    /// When another client last raised the capacity of each group from 0.
    raised_from_zero: BTreeMap<String, Instant>,
    names: Vec<String>,
}

impl FaultPlan {
    /// One to three groups of any kind, and the faults over them.
    pub(super) fn over(rng: &mut Rng, muted: &BTreeSet<FaultKind>) -> (Self, Vec<GroupPlan>) {
        let plans: Vec<GroupPlan> = (0..rng.u32(1..4)).map(|number| group(rng, &format!("group-{number}"))).collect();
        let mut rng = rng.fork();
        let is_exclusive = rng.u32(..4) == 0;
        let names = plans.iter().map(|plan| plan.name.clone()).collect();
        let muted = muted.clone();
        (
            Self {
                rng,
                muted,
                is_exclusive,
                vanished: BTreeSet::new(),
                last_read_fault: None,
                is_read_fault_pending: false,
                raised_from_zero: BTreeMap::new(),
                names,
            },
            plans,
        )
    }

    /// Whether nobody but the caller changes anything, and every response that arrives is right.
    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// When the process crashes in the next step, if it does.
    pub(super) fn crash(&mut self) -> Option<Duration> {
        let (crashes, after) = (self.rng.u32(..12) == 0, Duration::from_millis(self.rng.u64(..15_000)));
        (crashes && !self.muted.contains(&FaultKind::Crash)).then_some(after)
    }

    /// Draws a fault or a change, or nothing.
    pub(super) fn change(&mut self, world: &World) {
        self.track_read_faults(world);
        let name = self.names[self.rng.usize(..self.names.len())].clone();
        let style = world.cloud.world(|world, _| world.group(&name).map(|group| group.plan().style));
        let mut rng = self.rng.fork();
        let kind = match self.rng.u32(..24) {
            0 => FaultKind::Evict,
            1 => FaultKind::Resize,
            2 => FaultKind::Call,
            3 => FaultKind::Read,
            4 => FaultKind::Launches,
            5 => FaultKind::Deletions,
            6 | 7 => FaultKind::Recover,
            8 | 9 => FaultKind::Degraded,
            10 => FaultKind::Vanish,
            11 | 12 => FaultKind::Surplus,
            13 => FaultKind::Late,
            14 => FaultKind::Lag,
            15 => FaultKind::View,
            16 => FaultKind::Side,
            17 => FaultKind::Nameless,
            _ => return,
        };
        let meddles = matches!(
            kind,
            FaultKind::Evict
                | FaultKind::Resize
                | FaultKind::Read
                | FaultKind::Vanish
                | FaultKind::Lag
                | FaultKind::Nameless
        );
        if self.muted.contains(&kind) || (meddles && self.is_exclusive) {
            return;
        }
        match (kind, style) {
            (FaultKind::Evict, Some(_)) => drop(world.cloud.evict(&name, rng.usize(1..4))),
            (FaultKind::Resize, Some(_)) => self.resize(world, &name, &mut rng),
            (FaultKind::Call, _) => {
                world.cloud.faults(|faults| faults.script(None, None, rng.u32(1..4), call_fault(&mut rng)));
            }
            (FaultKind::Read, Some(_)) => self.script_read_fault(world, &name, &mut rng),
            (FaultKind::Launches, Some(style)) => {
                let outcome = launch(&mut rng, style);
                drop(world.cloud.replan(&name, |plan| plan.launches_now(Pick::Chance(0.7), outcome)));
            }
            (FaultKind::Deletions, Some(style)) => {
                let outcome = deletion(&mut rng, style);
                drop(world.cloud.replan(&name, |plan| plan.deletions_now(Pick::Chance(0.5), outcome)));
            }
            (FaultKind::Recover, Some(_)) => all_succeed(world, &name),
            (FaultKind::Degraded, _) => world.cloud.faults(|faults| degrade(faults, &mut rng)),
            (FaultKind::Vanish, _) => self.vanish(world, name),
            (FaultKind::Surplus, Some(_)) => {
                let lasts = Duration::from_secs(rng.u64(5..120));
                world.launch_surplus(&name, rng.u32(1..6), lasts);
            }
            (FaultKind::Late, Some(_)) => {
                let late = CallFault::Late(Duration::from_secs(rng.u64(..12)));
                let kind = if rng.bool() { CallKind::SetCapacity } else { CallKind::DeleteInstances };
                world.cloud.faults(|faults| faults.script(Some(kind), Some(&name), 1, late));
            }
            (FaultKind::Lag, _) => {
                let lag = Duration::from_secs(rng.u64(..15));
                world.cloud.faults(|faults| faults.lag_after_loss = lag);
            }
            (FaultKind::View, Some(_)) => {
                let (times, fault) = (rng.u32(1..5), side_fault(&mut rng));
                world.cloud.faults(|faults| faults.script(Some(CallKind::ListInstances), Some(&name), times, fault));
            }
            (FaultKind::Side, _) => side(world, &mut rng),
            (FaultKind::Nameless, Some(GroupStyle::ScaleSet)) => {
                let lasts = Duration::from_secs(rng.u64(1..60));
                drop(world.cloud.hide_ids(&name, rng.usize(1..4), lasts));
            }
            (FaultKind::Nameless, Some(GroupStyle::AutoScaling))
            | (_, None)
            | (FaultKind::Crash | FaultKind::Handover, _) => {}
        }
    }

    fn script_read_fault(&mut self, world: &World, name: &str, rng: &mut Rng) {
        let (now, read_fault) = (Instant::now(), read_fault(rng));
        let is_raise_unread =
            self.raised_from_zero.get(name).is_some_and(|at| now.saturating_duration_since(*at) < RAISE_UNREAD);
        if is_raise_unread && read_fault == ReadFault::Capacity(0) {
            return;
        }
        if self.last_read_fault.is_none_or(|last| now.saturating_duration_since(last) > WRONG_READINGS_APART) {
            world.cloud.faults(|faults| faults.script_read(None, name, 1, read_fault));
            (self.last_read_fault, self.is_read_fault_pending) = (Some(now), true);
        }
    }

    /// Somebody else changes the capacity. A group of 0 is left alone while a wrong reading is pending: see [`RAISE_UNREAD`].
    fn resize(&mut self, world: &World, name: &str, rng: &mut Rng) {
        let is_empty = world.cloud.world(|world, _| world.group(name).is_some_and(|group| group.capacity() == 0));
        if is_empty && self.is_read_fault_pending {
            return;
        }
        if is_empty {
            self.raised_from_zero.insert(name.to_owned(), Instant::now());
        }
        drop(world.cloud.set_desired_externally(name, rng.u32(..=20)));
    }

    /// A wrong read may arrive late, and counts from its arrival: now at the latest, if none is pending any more.
    fn track_read_faults(&mut self, world: &World) {
        let is_read_fault_pending = world.cloud.faults(|faults| faults.has_scripted_reads());
        if is_read_fault_pending || self.is_read_fault_pending {
            self.last_read_fault = Some(Instant::now());
        }
        self.is_read_fault_pending = is_read_fault_pending;
    }

    fn vanish(&mut self, world: &World, name: String) {
        world.lost_state();
        if self.vanished.remove(&name) {
            world.cloud.restore_group(&name);
        } else {
            world.cloud.remove_group(&name);
            self.vanished.insert(name);
        }
    }

    /// Ends all faults: from now on everything works.
    pub(super) fn stop(&mut self, world: &World) {
        world.cloud.faults(Faults::clear);
        for name in std::mem::take(&mut self.vanished) {
            world.cloud.restore_group(&name);
        }
        self.names.iter().for_each(|name| all_succeed(world, name));
    }
}

fn all_succeed(world: &World, name: &str) {
    let _not_in_sight = world.cloud.replan(name, |plan| {
        plan.launches_fine();
        plan.deletions_fine();
    });
}

fn group(rng: &mut Rng, name: &str) -> GroupPlan {
    // A cloud that takes deleted instances out of its capacity at once, and then restores them because a capacity write
    // preempted the deletion, allows no safe write: the capacity that was read is too low by them. No group has both.
    let (plan, overlaps) = match rng.u32(..3) {
        // The weight is drawn from a copy of the generator: the rest of a seed's schedule does not depend on it.
        0 => (GroupPlan::aws(name).weighted(rng.clone().fork().u32(1..4)), vec![Overlap::Together]),
        1 => {
            let plan = GroupPlan::azure(name).accounting(Accounting::WhenGone);
            (plan, vec![Overlap::Together, Overlap::Conflict, Overlap::Preempt])
        }
        _ => {
            let plan = GroupPlan::azure(name).accounting(Accounting::OnAccept);
            (plan, vec![Overlap::Together, Overlap::Conflict])
        }
    };
    let min = rng.u32(..4);
    let max = min + rng.u32(5..40);
    plan.sized(min, max, rng.u32(min..=max)).overlap(overlaps[rng.usize(..overlaps.len())])
}

/// Calls that are no part of a write are refused for good, or fail or hang for a while.
fn side(world: &World, rng: &mut Rng) {
    let kinds = [CallKind::Follow, CallKind::LaunchActivity, CallKind::LaunchSpec, CallKind::InstanceTypes];
    let kind = kinds[rng.usize(..kinds.len())];
    let (is_denied, times, fault) = (rng.u32(..4) == 0, rng.u32(1..8), side_fault(rng));
    world.cloud.faults(|faults| {
        if is_denied {
            faults.denied.insert(kind);
        } else {
            faults.denied.remove(&kind);
            faults.script(Some(kind), None, times, fault);
        }
    });
}

fn side_fault(rng: &mut Rng) -> CallFault {
    match rng.u32(..5) {
        0 => CallFault::Throttled { retry_after: Some(Duration::from_secs(rng.u64(1..60))) },
        1 => CallFault::Unreachable,
        2 => CallFault::Malformed,
        3 => CallFault::Slow(Duration::from_secs(rng.u64(1..20))),
        // It hangs.
        _ => CallFault::Slow(Duration::from_secs(3600)),
    }
}

fn degrade(faults: &mut Faults, rng: &mut Rng) {
    faults.rates.latency = Duration::ZERO..=Duration::from_millis(rng.u64(..1500));
    faults.rates.lost_response = f64::from(rng.u32(..2)) * 0.1;
    faults.rates.throttled = f64::from(rng.u32(..2)) * 0.1;
    faults.rates.conflict = f64::from(rng.u32(..2)) * 0.1;
    if rng.u32(..3) == 0 {
        faults.clear();
    }
}

fn call_fault(rng: &mut Rng) -> CallFault {
    match rng.u32(..8) {
        0 => CallFault::Throttled { retry_after: Some(Duration::from_secs(rng.u64(1..30))) },
        1 => CallFault::Unreachable,
        2 => CallFault::LostResponse,
        3 => CallFault::Malformed,
        4 => CallFault::Conflict,
        5 => CallFault::Denied,
        6 => CallFault::OutOfResources,
        _ => CallFault::Slow(Duration::from_secs(rng.u64(1..20))),
    }
}

fn read_fault(rng: &mut Rng) -> ReadFault {
    match rng.u32(..5) {
        0 => ReadFault::Capacity(0),
        1 => ReadFault::NoInstances,
        2 => ReadFault::Missing,
        3 => ReadFault::Stale(Duration::from_secs(rng.u64(1..15))),
        _ => ReadFault::Broken,
    }
}

/// SetDesiredCapacity is never refused for lack of capacity, and an Auto Scaling group does not lower its capacity for it.
fn launch(rng: &mut Rng, style: GroupStyle) -> LaunchOutcome {
    let failure = PlannedFailure::out_of_resources("NoCapacity", "none left");
    let after = Duration::from_secs(1)..=Duration::from_secs(20);
    match (rng.u32(..4), style) {
        (0, _) => LaunchOutcome::fails(failure, after),
        (1, GroupStyle::AutoScaling) => LaunchOutcome::FailsInZone { failure, after },
        (1, GroupStyle::ScaleSet) => LaunchOutcome::rolls_back(failure, after),
        (2, GroupStyle::ScaleSet) => LaunchOutcome::Refused(failure),
        _ => LaunchOutcome::Breaks { failure, after },
    }
}

/// A termination that an Auto Scaling group accepts does not fail later.
fn deletion(rng: &mut Rng, style: GroupStyle) -> DeleteOutcome {
    let failure = PlannedFailure::other("CannotDelete", "not now");
    match (rng.bool(), style) {
        (true, GroupStyle::ScaleSet) => DeleteOutcome::FailsLater(failure),
        _ => DeleteOutcome::Refused(failure),
    }
}
