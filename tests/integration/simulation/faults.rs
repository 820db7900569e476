//! What the cloud is made of, and how it misbehaves.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use headcount::clouds::simulated::{
    Accounting, DeleteOutcome, Distortion, Faults, GroupPlan, Kind as CloudKind, LaunchOutcome, Mishap, Overlap, Pick,
    PlannedFailure,
};
use tokio::time::Instant;

use super::world::World;

/// Two wrong readings in a row that say the same are believed (law 5), so they come with at least this much in between.
const WRONG_READINGS_APART: Duration = Duration::from_secs(30);

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Running instances are taken away.
    Evict,
    /// Somebody else changes the capacity.
    Resize,
    /// The next calls meet something.
    Mishap,
    /// The next answer is wrong, old or unreadable.
    Distort,
    /// Launches go wrong from now on.
    Launches,
    /// Deletions go wrong from now on.
    Deletions,
    /// Launches and deletions go well from now on.
    Fine,
    /// Calls take long, lose their answers, are throttled or meet conflicts.
    Rough,
    /// A group goes out of sight, or comes back.
    Vanish,
    /// The process dies.
    Death,
}

impl Kind {
    pub(super) const ALL: [Self; 10] = [
        Self::Evict,
        Self::Resize,
        Self::Mishap,
        Self::Distort,
        Self::Launches,
        Self::Deletions,
        Self::Fine,
        Self::Rough,
        Self::Vanish,
        Self::Death,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Resize => "resize",
            Self::Mishap => "mishap",
            Self::Distort => "distort",
            Self::Launches => "launches",
            Self::Deletions => "deletions",
            Self::Fine => "fine",
            Self::Rough => "rough",
            Self::Vanish => "vanish",
            Self::Death => "death",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The faults of one run.
pub(super) struct FaultPlan {
    rng: Rng,
    muted: BTreeSet<Kind>,
    /// Nobody but the caller changes anything, and every answer that comes is right.
    kind: bool,
    vanished: BTreeSet<String>,
    /// When an answer was last wrong, or still to be.
    distorted: Option<Instant>,
    is_distorting: bool,
    names: Vec<String>,
}

impl FaultPlan {
    /// One to three groups of any kind, and the faults over them.
    pub(super) fn over(rng: &mut Rng, muted: &BTreeSet<Kind>) -> (Self, Vec<GroupPlan>) {
        let plans: Vec<GroupPlan> = (0..rng.u32(1..4)).map(|number| group(rng, &format!("group-{number}"))).collect();
        let mut rng = rng.fork();
        let kind = rng.u32(..4) == 0;
        let names = plans.iter().map(|plan| plan.name.clone()).collect();
        let muted = muted.clone();
        (Self { rng, muted, kind, vanished: BTreeSet::new(), distorted: None, is_distorting: false, names }, plans)
    }

    /// Whether nobody but the caller changes anything, and every answer that comes is right.
    pub(super) fn is_kind(&self) -> bool {
        self.kind
    }

    /// When in the next step the process dies, if it does.
    pub(super) fn death(&mut self) -> Option<Duration> {
        let (dies, after) = (self.rng.u32(..12) == 0, Duration::from_millis(self.rng.u64(..15_000)));
        (dies && !self.muted.contains(&Kind::Death)).then_some(after)
    }

    /// Something changes, or nothing.
    pub(super) fn change(&mut self, world: &World) {
        self.see_distortion(world);
        let name = self.names[self.rng.usize(..self.names.len())].clone();
        let cloud_kind = world.cloud.world(|world, _| world.view(&name).map(|group| group.plan().kind));
        let mut rng = self.rng.fork();
        let kind = match self.rng.u32(..16) {
            0 => Kind::Evict,
            1 => Kind::Resize,
            2 => Kind::Mishap,
            3 => Kind::Distort,
            4 => Kind::Launches,
            5 => Kind::Deletions,
            6 | 7 => Kind::Fine,
            8 | 9 => Kind::Rough,
            10 => Kind::Vanish,
            _ => return,
        };
        let meddles = matches!(kind, Kind::Evict | Kind::Resize | Kind::Distort | Kind::Vanish);
        if self.muted.contains(&kind) || (meddles && self.kind) {
            return;
        }
        match (kind, cloud_kind) {
            (Kind::Evict, Some(_)) => drop(world.cloud.evict(&name, rng.usize(1..4))),
            (Kind::Resize, Some(_)) => resize(world, &name, &mut rng),
            (Kind::Mishap, _) => {
                world.cloud.faults(|faults| faults.script(None, None, rng.u32(1..4), mishap(&mut rng)));
            }
            (Kind::Distort, Some(_)) => self.distort(world, &name, &mut rng),
            (Kind::Launches, Some(kind)) => {
                let outcome = launch(&mut rng, kind);
                drop(world.cloud.replan(&name, |plan| plan.launches_now(Pick::Chance(0.7), outcome)));
            }
            (Kind::Deletions, Some(kind)) => {
                let outcome = deletion(&mut rng, kind);
                drop(world.cloud.replan(&name, |plan| plan.deletions_now(Pick::Chance(0.5), outcome)));
            }
            (Kind::Fine, Some(_)) => all_fine(world, &name),
            (Kind::Rough, _) => world.cloud.faults(|faults| rough(faults, &mut rng)),
            (Kind::Vanish, _) => self.vanish(world, name),
            (_, None) | (Kind::Death, _) => {}
        }
    }

    fn distort(&mut self, world: &World, name: &str, rng: &mut Rng) {
        let (now, distortion) = (Instant::now(), distortion(rng));
        if self.distorted.is_none_or(|last| now.saturating_duration_since(last) > WRONG_READINGS_APART) {
            world.cloud.faults(|faults| faults.distort(None, name, 1, distortion));
            (self.distorted, self.is_distorting) = (Some(now), true);
        }
    }

    /// A wrong answer may be a long time coming, and counts from when it came: at the latest now, if none is due any more.
    fn see_distortion(&mut self, world: &World) {
        let is_distorting = world.cloud.faults(|faults| faults.is_distorting());
        if is_distorting || self.is_distorting {
            self.distorted = Some(Instant::now());
        }
        self.is_distorting = is_distorting;
    }

    fn vanish(&mut self, world: &World, name: String) {
        world.lost_sight();
        if self.vanished.remove(&name) {
            world.cloud.restore_group(&name);
        } else {
            world.cloud.remove_group(&name);
            self.vanished.insert(name);
        }
    }

    /// From now on everything works, and what was being launched in vain is launched well.
    pub(super) fn calm(&mut self, world: &World) {
        world.cloud.faults(Faults::clear);
        for name in std::mem::take(&mut self.vanished) {
            world.cloud.restore_group(&name);
        }
        self.names.iter().for_each(|name| all_fine(world, name));
    }
}

fn all_fine(world: &World, name: &str) {
    let _not_in_sight = world.cloud.replan(name, |plan| {
        plan.launches_fine();
        plan.deletions_fine();
    });
}

fn group(rng: &mut Rng, name: &str) -> GroupPlan {
    // A cloud that takes deleted instances out of its capacity at once, and then revives them because a capacity write got
    // ahead of the deletion, leaves no safe write: whatever was read before is too low by them. So these two are apart.
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

/// Somebody else changes the capacity.
fn resize(world: &World, name: &str, rng: &mut Rng) {
    drop(world.cloud.set_desired_externally(name, rng.u32(..=20)));
}

fn rough(faults: &mut Faults, rng: &mut Rng) {
    faults.chances.latency = Duration::ZERO..=Duration::from_millis(rng.u64(..1500));
    faults.chances.lost_answer = f64::from(rng.u32(..2)) * 0.1;
    faults.chances.throttled = f64::from(rng.u32(..2)) * 0.1;
    faults.chances.conflict = f64::from(rng.u32(..2)) * 0.1;
    if rng.u32(..3) == 0 {
        faults.clear();
    }
}

fn mishap(rng: &mut Rng) -> Mishap {
    match rng.u32(..8) {
        0 => Mishap::Throttled { retry_after: Some(Duration::from_secs(rng.u64(1..30))) },
        1 => Mishap::Unreachable,
        2 => Mishap::LostAnswer,
        3 => Mishap::Garbled,
        4 => Mishap::Conflict,
        5 => Mishap::Denied,
        6 => Mishap::OutOfResources,
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
fn launch(rng: &mut Rng, kind: CloudKind) -> LaunchOutcome {
    let failure = PlannedFailure::out_of_resources("NoCapacity", "none left");
    let after = Duration::from_secs(1)..=Duration::from_secs(20);
    match (rng.u32(..4), kind) {
        (0, _) => LaunchOutcome::fails(failure, after),
        (1, CloudKind::AzureLike) => LaunchOutcome::rolls_back(failure, after),
        (2, CloudKind::AzureLike) => LaunchOutcome::Refused(failure),
        _ => LaunchOutcome::Breaks { failure, after },
    }
}

/// A termination that an Auto Scaling group accepts does not fail later.
fn deletion(rng: &mut Rng, kind: CloudKind) -> DeleteOutcome {
    let failure = PlannedFailure::other("CannotDelete", "not now");
    match (rng.bool(), kind) {
        (true, CloudKind::AzureLike) => DeleteOutcome::FailsLater(failure),
        _ => DeleteOutcome::Refused(failure),
    }
}
