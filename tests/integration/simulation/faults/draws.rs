//! What a seed draws: the groups of the cloud, and each single fault.

use std::time::Duration;

use fastrand::Rng;
use headcount::clouds::simulated::{
    Accounting, CallFault, CallKind, DeleteOutcome, Faults, GroupPlan, GroupStyle, LaunchOutcome, Overlap,
    PlannedFailure, Raise, ReadFault, Sizing,
};

use crate::simulation::world::World;

pub(super) fn group(rng: &mut Rng, name: &str) -> GroupPlan {
    // A cloud that takes deleted instances out of its capacity at once, and then restores them because a capacity write
    // preempted the deletion, allows no safe write: the capacity that was read is too low by them. No group has both.
    let (plan, overlaps) = match rng.u32(..3) {
        // Its details are drawn from a copy of the generator: the rest of a seed's schedule does not depend on them.
        0 => (auto_scaling(name, &mut rng.clone().fork()), vec![Overlap::Together]),
        1 => {
            let plan = GroupPlan::azure(name).accounting(Accounting::WhenGone);
            (plan, vec![Overlap::Together, Overlap::Conflict, Overlap::Preempt])
        }
        _ => {
            let plan = GroupPlan::azure(name).accounting(Accounting::OnAccept);
            (plan, vec![Overlap::Together, Overlap::Conflict])
        }
    };
    // Drawn from a copy, as the weight.
    let sizing = if rng.clone().fork().bool() { Sizing::Actual } else { Sizing::Nominal };
    let plan = plan.sizing(sizing);
    let min = rng.u32(..4);
    let max = min + rng.u32(5..40);
    plan.sized(min, max, rng.u32(min..=max)).overlap(overlaps[rng.usize(..overlaps.len())])
}

/// Half of these groups are in one zone, and grow by launches. AWS does not say when a launch raises the capacity.
fn auto_scaling(name: &str, rng: &mut Rng) -> GroupPlan {
    let mut plan = GroupPlan::aws(name).weighted(rng.u32(1..4));
    if rng.bool() {
        plan.zones.truncate(1);
        plan = launching(plan, rng);
    }
    plan
}

fn launching(plan: GroupPlan, rng: &mut Rng) -> GroupPlan {
    let longest = Duration::from_secs(rng.u64(..20));
    let lag = Duration::from_millis(rng.u64(..5_000));
    let raise = if rng.bool() { Raise::BeforeResponse } else { Raise::After(lag) };
    plan.launch_calls(Duration::ZERO..=longest, raise)
}

/// An Auto Scaling group of this name and size with three zones.
pub(in crate::simulation) fn of_three_zones(drawn: &GroupPlan, rng: &mut Rng) -> GroupPlan {
    let mut plan = GroupPlan::aws(&drawn.name).sized(drawn.min, drawn.max, drawn.initial);
    plan.zones = ["us-east-1a", "us-east-1b", "us-east-1c"].map(str::to_owned).to_vec();
    launching(plan, rng)
}

/// Calls that are no part of a write are refused for good, or fail or hang for a while.
pub(super) fn side(world: &World, rng: &mut Rng) {
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

pub(super) fn side_fault(rng: &mut Rng) -> CallFault {
    match rng.u32(..5) {
        0 => CallFault::Throttled { retry_after: Some(Duration::from_secs(rng.u64(1..60))) },
        1 => CallFault::Unreachable,
        2 => CallFault::Malformed,
        3 => CallFault::Slow(Duration::from_secs(rng.u64(1..20))),
        // It hangs.
        _ => CallFault::Slow(Duration::from_secs(3600)),
    }
}

pub(super) fn degrade(faults: &mut Faults, rng: &mut Rng) {
    faults.rates.latency = Duration::ZERO..=Duration::from_millis(rng.u64(..1500));
    faults.rates.lost_response = f64::from(rng.u32(..2)) * 0.1;
    faults.rates.throttled = f64::from(rng.u32(..2)) * 0.1;
    faults.rates.conflict = f64::from(rng.u32(..2)) * 0.1;
    if rng.u32(..3) == 0 {
        faults.clear();
    }
}

pub(super) fn call_fault(rng: &mut Rng) -> CallFault {
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

pub(super) fn read_fault(rng: &mut Rng) -> ReadFault {
    match rng.u32(..5) {
        0 => ReadFault::Capacity(0),
        1 => ReadFault::NoInstances,
        2 => ReadFault::Missing,
        3 => ReadFault::Stale(Duration::from_secs(rng.u64(1..15))),
        _ => ReadFault::Broken,
    }
}

/// SetDesiredCapacity is never refused for lack of capacity, and an Auto Scaling group does not lower its capacity for
/// it.
pub(super) fn launch(rng: &mut Rng, style: GroupStyle) -> LaunchOutcome {
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
pub(super) fn deletion(rng: &mut Rng, style: GroupStyle) -> DeleteOutcome {
    let failure = PlannedFailure::other("CannotDelete", "not now");
    match (rng.bool(), style) {
        (true, GroupStyle::ScaleSet) => DeleteOutcome::FailsLater(failure),
        _ => DeleteOutcome::Refused(failure),
    }
}
