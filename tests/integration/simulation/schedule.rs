//! One run: what a seed decides, and how to reduce it.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use headcount::clouds::simulated::{Accounting, GroupPlan, GroupStyle, Overlap, Simulated};
use headcount::verify::Report;
use tokio::time::{Instant, sleep, sleep_until};

use super::autoscaler::Autoscaler;
use super::faults::{FaultKind, FaultPlan, of_three_zones};
use super::oracle::Oracle;
use super::world::World;
use super::{Violation, is_verbose, two_fleets};

/// The number of steps of the caller in one run.
const STEPS: u32 = 40;
/// How often the published state is checked during a step.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How many processes serve the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processes {
    One,
    Two,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    processes: Processes,
    pub(super) steps: u32,
    /// Faults that are left out. They are still drawn, so that the rest of the schedule does not change.
    pub(super) muted: BTreeSet<FaultKind>,
    /// Whether all groups are Auto Scaling groups that are served by zones.
    pub(super) has_separate_zones: bool,
    /// The report whose group all groups are like, and its file.
    world: Option<Arc<(String, Report)>>,
}

impl Schedule {
    /// The whole run of a seed, or the part of it that the environment selects.
    pub(super) fn from_environment(seed: u64, processes: Processes) -> Self {
        let variable = |name| std::env::var(name).ok();
        let steps = variable("HEADCOUNT_STEPS").and_then(|steps| steps.parse().ok()).unwrap_or(STEPS);
        let muted = variable("HEADCOUNT_MUTED").unwrap_or_default();
        let muted = muted.split(',').filter_map(FaultKind::parse).collect();
        Self { seed, processes, steps, muted, has_separate_zones: false, world: None }
    }

    /// The same with Auto Scaling groups that are served by zones.
    pub(super) fn by_zones(self) -> Self {
        Self { has_separate_zones: true, ..self }
    }

    /// The same with groups that do what a report shows.
    pub(super) fn in_world(self, world: &Arc<(String, Report)>) -> Self {
        Self { world: Some(Arc::clone(world)), ..self }
    }

    /// The groups, as the report shows them if there is one: of what was drawn, their sizes stay, and how they treat
    /// overlapping operations.
    pub(super) fn seen(&self, plans: Vec<GroupPlan>) -> Vec<GroupPlan> {
        if self.has_separate_zones {
            let mut rng = Rng::with_seed(self.seed).fork();
            return plans.iter().map(|plan| of_three_zones(plan, &mut rng)).collect();
        }
        let Some(world) = &self.world else { return plans };
        let (_, report) = &**world;
        let seen = |drawn: GroupPlan| {
            let plan = GroupPlan::as_seen(&drawn.name, report.assumed, &report.behavior);
            let plan = plan.sized(drawn.min, drawn.max, drawn.initial);
            match (plan.style, plan.accounting, drawn.overlap) {
                (GroupStyle::AutoScaling, ..) => plan.overlap(Overlap::Together),
                // No group has both (`faults/draws.rs`).
                (_, Accounting::OnAccept, Overlap::Preempt) => plan.overlap(Overlap::Conflict),
                (.., overlap) => plan.overlap(overlap),
            }
        };
        plans.into_iter().map(seen).collect()
    }

    /// Runs it.
    pub(super) fn run(&self) -> Result<(), Violation> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(self.play())));
        outcome.unwrap_or_else(|_| Err(Violation("it panicked".to_owned())))
    }

    /// The same violation with fewer steps and fewer faults.
    pub(super) fn shrunk(self, mut violation: Violation) -> (Self, Violation) {
        let mut smallest = self;
        let shorter = (1..smallest.steps).map(|steps| Self { steps, ..smallest.clone() });
        if let Some((shorter, found)) = shorter.into_iter().find_map(|one| Some((one.clone(), one.run().err()?))) {
            (smallest, violation) = (shorter, found);
        }
        for kind in FaultKind::ALL {
            let mut milder = smallest.clone();
            milder.muted.insert(kind);
            if let Err(found) = milder.run() {
                (smallest, violation) = (milder, found);
            }
        }
        (smallest, violation)
    }

    async fn play(&self) -> Result<(), Violation> {
        match self.processes {
            Processes::One => self.play_alone().await,
            Processes::Two => two_fleets::play(self).await,
        }
    }

    async fn play_alone(&self) -> Result<(), Violation> {
        let mut rng = Rng::with_seed(self.seed);
        let (mut fault_plan, plans) = FaultPlan::over(&mut rng, &self.muted);
        let cloud = Simulated::with_groups(self.seed, self.seen(plans));
        let mut world = World::start(Arc::new(cloud), self.seed, self.has_separate_zones);
        world.wait_ready(Duration::from_secs(120)).await?;
        let mut autoscaler = Autoscaler::new(rng.fork(), fault_plan.is_exclusive());
        let mut oracle = Oracle::default();
        let outcome = async {
            for _ in 0..self.steps {
                fault_plan.change(&world);
                let crash = fault_plan.crash();
                self.step(&mut world, &mut autoscaler, &mut oracle, crash).await?;
                world.check()?;
            }
            fault_plan.stop(&world);
            world.wait_ready(Duration::from_secs(300)).await?;
            autoscaler.tidy_up(&world).await;
            world.check_agreement().await?;
            world.check_reads_before_writes()?;
            if fault_plan.is_exclusive() {
                world.check_nothing_unrequested()?;
            }
            world.check_recordings()?;
            world.check()
        }
        .await;
        if outcome.is_err() && is_verbose() {
            world.print_log();
        }
        outcome
    }

    /// One loop of the caller, during which the process may crash.
    async fn step(
        &self,
        world: &mut World,
        autoscaler: &mut Autoscaler,
        oracle: &mut Oracle,
        crash: Option<Duration>,
    ) -> Result<(), Violation> {
        let crash_at = crash.map(|after| Instant::now() + after);
        let crashes = {
            let step = autoscaler.step(world);
            tokio::pin!(step);
            loop {
                oracle.look(&[world])?;
                tokio::select! {
                    biased;
                    outcome = &mut step => { outcome?; break false }
                    () = sleep_until(crash_at.unwrap_or_else(Instant::now)), if crash_at.is_some() => break true,
                    () = sleep(LOOK_EVERY) => {}
                }
            }
        };
        if crashes {
            world.restart();
        }
        Ok(())
    }
}

impl Processes {
    /// The test that has this many, and serves groups whole or by zones.
    fn test(self, has_separate_zones: bool) -> &'static str {
        match (self, has_separate_zones) {
            (Self::One, false) => "simulation::the_laws_hold_under_every_schedule",
            (Self::One, true) => "simulation::the_laws_hold_for_groups_that_are_served_by_zones",
            (Self::Two, false) => "simulation::two_fleets_hold_the_laws_through_every_handover",
            (Self::Two, true) => "simulation::two_fleets_hold_the_laws_for_groups_that_are_served_by_zones",
        }
    }
}

/// The command that replays it.
impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let muted: Vec<&str> = self.muted.iter().map(|kind| kind.name()).collect();
        write!(formatter, "HEADCOUNT_LOG=1 HEADCOUNT_SEEDS={}..{}", self.seed, self.seed + 1)?;
        write!(formatter, " HEADCOUNT_STEPS={} HEADCOUNT_MUTED={}", self.steps, muted.join(","))?;
        let test = match &self.world {
            None => self.processes.test(self.has_separate_zones),
            Some(world) => {
                write!(formatter, " HEADCOUNT_WORLD=tests/reports/{}", world.0)?;
                "simulation::the_laws_hold_in_the_world_of_each_report"
            }
        };
        write!(formatter, " cargo test --profile simulation --no-default-features --test integration {test}")
    }
}
