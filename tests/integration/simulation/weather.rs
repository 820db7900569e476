//! What the cloud is made of, and how it misbehaves.

use std::time::Duration;

use fastrand::Rng;
use headcount::cloud::simulated::{
    Accounting, DeleteOutcome, Distortion, GroupPlan, Kind, LaunchOutcome, Mishap, Overlap, Pick, PlannedFailure,
};

use super::World;

/// One to three groups of any kind.
pub(super) fn groups(rng: &mut Rng) -> Vec<GroupPlan> {
    (0..rng.u32(1..4)).map(|number| group(rng, &format!("group-{number}"))).collect()
}

fn group(rng: &mut Rng, name: &str) -> GroupPlan {
    // A cloud that takes deleted instances out of its capacity at once, and then revives them because a capacity write got
    // ahead of the deletion, leaves no safe write: whatever was read before is too low by them. So these two are apart.
    let (plan, overlaps) = match rng.u32(..3) {
        0 => (GroupPlan::aws(name), vec![Overlap::Together]),
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

/// Something changes, or nothing.
pub(super) fn change(world: &World, rng: &mut Rng) {
    let names: Vec<String> =
        world.cloud.world(|world, _| world.groups().map(|group| group.name().to_owned()).collect());
    let Some(name) = rng.choice(&names) else { return };
    match rng.u32(..14) {
        0 => drop(world.cloud.evict(name, rng.usize(1..4))),
        1 => resize(world, name, rng),
        2 => world.cloud.faults(|faults| faults.script(None, None, rng.u32(1..4), mishap(rng))),
        3 => world.cloud.faults(|faults| faults.distort(None, name, 1, distortion(rng))),
        4 => drop(world.cloud.replan(name, |plan| plan.launches_now(Pick::Chance(0.7), launch(rng, plan.kind)))),
        5 => drop(world.cloud.replan(name, |plan| plan.deletions_now(Pick::Chance(0.5), deletion(rng, plan.kind)))),
        6 => drop(world.cloud.replan(name, GroupPlan::launches_fine)),
        7 => drop(world.cloud.replan(name, GroupPlan::deletions_fine)),
        8 => world.cloud.faults(|faults| {
            faults.chances.latency = Duration::ZERO..=Duration::from_millis(rng.u64(..1500));
            faults.chances.lost_answer = f64::from(rng.u32(..2)) * 0.1;
            faults.chances.throttled = f64::from(rng.u32(..2)) * 0.1;
            faults.chances.conflict = f64::from(rng.u32(..2)) * 0.1;
        }),
        9 => world.cloud.faults(|faults| faults.clear()),
        _ => {}
    }
}

/// Somebody else changes the capacity. On an Auto Scaling group only downwards: where the group has just been raised and
/// has not begun to launch, a reduction computed on what is listed comes too late, and AWS has no precondition to tell.
fn resize(world: &World, name: &str, rng: &mut Rng) {
    let known = world.cloud.world(|world, _| world.view(name).map(|group| (group.plan().kind, group.capacity())));
    let most = match known {
        Some((Kind::AwsLike, capacity)) => capacity,
        _ => 20,
    };
    drop(world.cloud.set_desired_externally(name, rng.u32(..=most)));
}

fn mishap(rng: &mut Rng) -> Mishap {
    match rng.u32(..7) {
        0 => Mishap::Throttled { retry_after: Some(Duration::from_secs(rng.u64(1..30))) },
        1 => Mishap::Unreachable,
        2 => Mishap::LostAnswer,
        3 => Mishap::Garbled,
        4 => Mishap::Conflict,
        5 => Mishap::Denied,
        _ => Mishap::Slow(Duration::from_secs(rng.u64(1..20))),
    }
}

fn distortion(rng: &mut Rng) -> Distortion {
    match rng.u32(..5) {
        0 => Distortion::Capacity(0),
        1 => Distortion::NoInstances,
        2 => Distortion::Missing,
        3 => Distortion::Stale(Duration::from_secs(rng.u64(1..15))),
        _ => Distortion::Broken,
    }
}

/// SetDesiredCapacity is never refused for want of machines, nor does an Auto Scaling group lower its capacity for it.
fn launch(rng: &mut Rng, kind: Kind) -> LaunchOutcome {
    let failure = PlannedFailure::out_of_resources("NoCapacity", "none left");
    let after = Duration::from_secs(1)..=Duration::from_secs(20);
    match (rng.u32(..4), kind) {
        (0, _) => LaunchOutcome::fails(failure, after),
        (1, Kind::AzureLike) => LaunchOutcome::rolls_back(failure, after),
        (2, Kind::AzureLike) => LaunchOutcome::Refused(failure),
        _ => LaunchOutcome::Breaks { failure, after },
    }
}

/// A termination that an Auto Scaling group accepts does not fail later.
fn deletion(rng: &mut Rng, kind: Kind) -> DeleteOutcome {
    let failure = PlannedFailure::other("CannotDelete", "not now");
    match (rng.bool(), kind) {
        (true, Kind::AzureLike) => DeleteOutcome::FailsLater(failure),
        _ => DeleteOutcome::Refused(failure),
    }
}

/// From now on everything works, and what was being launched in vain is launched well.
pub(super) fn calm(world: &World) {
    world.cloud.faults(headcount::cloud::simulated::Faults::clear);
    let names: Vec<String> =
        world.cloud.world(|world, _| world.groups().map(|group| group.name().to_owned()).collect());
    for name in names {
        let outcome = world.cloud.replan(&name, |plan| {
            plan.launches_fine();
            plan.deletions_fine();
            plan.evictions = None;
        });
        outcome.expect("it exists");
    }
}
