//! Two processes over the same cloud, one of which serves the leader of the autoscaler's Lease. The leader changes at
//! any await point: the former leader's calls continue, and it makes no new ones. Its process is a standby until it
//! leads again.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use headcount::clouds::simulated::Simulated;
use tokio::time::{Instant, sleep, sleep_until};

use super::autoscaler::Autoscaler;
use super::faults::{FaultKind, FaultPlan};
use super::oracle::Oracle;
use super::schedule::{LOOK_EVERY, Schedule};
use super::world::World;
use super::{Violation, is_verbose};

/// Long enough for a process without calls to become a standby.
const REST: Duration = Duration::from_secs(11 * 60);
/// How often a caller reads that has nothing else to do.
const READ_EVERY: Duration = Duration::from_secs(10);
/// The time that a caller gives to a call that reads.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process and its caller.
struct Replica {
    world: World,
    autoscaler: Autoscaler,
    /// Whether the process has ever been the leader's.
    has_led: bool,
}

/// What happens to the replicas during a step.
struct Events {
    handover: Option<Handover>,
    /// When the leader's process crashes.
    crash: Option<Duration>,
    /// When the standby crashes, or the former leader's process after a handover.
    other_crash: Option<Duration>,
    /// The leader has nothing to do for so long that the other one becomes a standby.
    rests: bool,
}

/// A change of the leader.
#[derive(Clone, Copy, Debug)]
struct Handover {
    after: Duration,
    /// The former leader exits at once, and does not wait for the responses.
    abandons: bool,
    /// How long there is no leader.
    gap: Duration,
}

/// What a seed decides about the replicas.
struct Lease {
    rng: Rng,
    is_muted: bool,
    /// The standby's caller reads all the time.
    standby_reads: bool,
    /// The number of steps before the one in which the leader rests.
    rests_in: u32,
}

/// How the leader's part of a step ends.
enum End {
    Done,
    Crash,
    Handover,
}

/// Calls that may outlast the leader's time.
type Calls<'a> = Pin<Box<dyn Future<Output = Result<(), Violation>> + 'a>>;

/// Runs a schedule with two processes.
pub(super) async fn play(schedule: &Schedule) -> Result<(), Violation> {
    let mut rng = Rng::with_seed(schedule.seed);
    let muted = schedule.muted.iter().copied().chain(FaultKind::OF_ONE_PROCESS).collect();
    let (mut fault_plan, plans) = FaultPlan::over(&mut rng, &muted);
    let cloud = Simulated::with_groups(schedule.seed, schedule.seen(plans));
    let leader = World::start(Arc::new(cloud), schedule.seed, schedule.has_separate_zones);
    let standby = leader.beside();
    leader.wait_ready(Duration::from_secs(120)).await?;
    let mut replicas = [leader, standby].map(|world| {
        let autoscaler = Autoscaler::new(rng.fork(), fault_plan.is_exclusive());
        Replica { world, autoscaler, has_led: false }
    });
    let mut lease = Lease::new(rng.fork(), schedule.muted.contains(&FaultKind::Handover));
    let outcome = play_steps(&mut replicas, &mut lease, &mut fault_plan, schedule.steps).await;
    if outcome.is_err() && is_verbose() {
        replicas[0].world.print_log();
    }
    outcome
}

/// The first replica is the leader's, always.
async fn play_steps(
    replicas: &mut [Replica; 2],
    lease: &mut Lease,
    fault_plan: &mut FaultPlan,
    steps: u32,
) -> Result<(), Violation> {
    let mut oracle = Oracle::default();
    for _ in 0..steps {
        fault_plan.change(&replicas[0].world);
        let events = lease.draw(fault_plan.crash(), fault_plan.crash());
        step(replicas, &events, lease.standby_reads, &mut oracle).await?;
        replicas.iter().try_for_each(Replica::check)?;
    }
    fault_plan.stop(&replicas[0].world);
    for replica in &*replicas {
        replica.world.wait_ready(Duration::from_secs(300)).await?;
    }
    // Each leads once more. Reductions that the other one deferred while it led may change the groups in the meantime.
    for replica in &mut *replicas {
        replica.has_led = true;
        replica.world.resume();
        replica.world.fleet.note_call(Instant::now() + PATIENCE).await;
        replica.autoscaler.tidy_up(&replica.world).await;
        replica.world.check_agreement().await?;
    }
    replicas.iter().try_for_each(Replica::check)
}

/// One loop of the leader, in which its process may crash, and one of the next leader if the Lease changes hands.
async fn step(
    replicas: &mut [Replica; 2],
    events: &Events,
    standby_reads: bool,
    oracle: &mut Oracle,
) -> Result<(), Violation> {
    let [leader, standby] = &mut *replicas;
    leader.has_led = true;
    let (world, other) = (&leader.world, &standby.world);
    let mut calls: Calls<'_> = Box::pin(lead(world, &mut leader.autoscaler, events.rests));
    let mut reads = Box::pin(read(other, if standby_reads { REST } else { Duration::ZERO }));
    let (began, mut still_reads) = (Instant::now(), true);
    let end = loop {
        oracle.look(&[world, other])?;
        tokio::select! {
            biased;
            outcome = &mut calls => break outcome.map(|()| End::Done)?,
            () = after(began, events.crash) => break End::Crash,
            () = after(began, events.handover.map(|handover| handover.after)) => break End::Handover,
            () = &mut reads, if still_reads => still_reads = false,
            () = sleep(LOOK_EVERY) => {}
        }
    };
    drop(reads);
    match (end, events.handover) {
        (End::Done, _) | (End::Handover, None) => drop(calls),
        (End::Crash, handover) => {
            drop(calls);
            leader.restart();
            // The whole pod is gone, and not only Headcount.
            if let Some(handover) = handover {
                sleep(handover.gap).await;
                replicas.swap(0, 1);
            }
            return Ok(());
        }
        (End::Handover, Some(handover)) => {
            world.retire();
            let calls = (!handover.abandons).then_some(calls);
            standby.has_led = true;
            let crash = events.other_crash;
            if take_over(world, calls, standby, handover, crash, oracle).await? {
                leader.restart();
            }
            replicas.swap(0, 1);
            return Ok(());
        }
    }
    if events.other_crash.is_some() {
        standby.restart();
    }
    Ok(())
}

/// One loop of the next leader, while calls of the former one still run, and its process may crash. Returns whether it
/// did.
async fn take_over(
    former: &World,
    mut calls: Option<Calls<'_>>,
    next: &mut Replica,
    handover: Handover,
    crash: Option<Duration>,
    oracle: &mut Oracle,
) -> Result<bool, Violation> {
    let (world, autoscaler) = (&next.world, &mut next.autoscaler);
    let mut leads = Box::pin(async {
        sleep(handover.gap).await;
        lead(world, autoscaler, false).await
    });
    let (began, mut has_crashed) = (Instant::now(), false);
    loop {
        oracle.look(&[world, former])?;
        tokio::select! {
            biased;
            outcome = &mut leads => return outcome.map(|()| has_crashed),
            () = after(began, crash), if !has_crashed => {
                former.crash();
                has_crashed = true;
            }
            // Only the time of the former leader's responses is checked, because another leader changes the groups by
            // now.
            outcome = rest_of(&mut calls) => {
                outcome.or_else(|violation| if violation.is_of("law 9") { Err(violation) } else { Ok(()) })?;
            }
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// What a leader calls in one loop.
async fn lead(world: &World, autoscaler: &mut Autoscaler, rests: bool) -> Result<(), Violation> {
    world.resume();
    world.fleet.note_call(Instant::now() + PATIENCE).await;
    if rests {
        read(world, REST).await;
    } else if world.fleet.wait_ready(Instant::now() + PATIENCE).await.is_ok() {
        return autoscaler.step(world).await;
    }
    Ok(())
}

/// Calls that read, for this long.
async fn read(world: &World, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        world.fleet.note_call(Instant::now() + PATIENCE).await;
        let _stale_is_fine = world.fleet.refresh(Instant::now() + PATIENCE).await;
        sleep(READ_EVERY).await;
    }
}

/// The outcome of the calls that still run, once. Never, if there are none.
async fn rest_of(calls: &mut Option<Calls<'_>>) -> Result<(), Violation> {
    let Some(running) = calls else { return pending().await };
    let outcome = running.await;
    *calls = None;
    outcome
}

async fn after(began: Instant, time: Option<Duration>) {
    match time {
        Some(time) => sleep_until(began + time).await,
        None => pending().await,
    }
}

impl Replica {
    /// Another process takes the place of one that crashed.
    fn restart(&mut self) {
        self.world.restart();
        self.has_led = false;
    }

    /// The laws that can be checked at any time. Law 11: a process that no leader has called has written nothing.
    fn check(&self) -> Result<(), Violation> {
        self.world.check()?;
        self.world.check_reads_before_writes()?;
        match self.world.written() {
            written if written > 0 && !self.has_led => {
                Err(Violation::of("law 11", format!("a standby wrote {written} times")))
            }
            _ => Ok(()),
        }
    }
}

impl Lease {
    fn new(mut rng: Rng, is_muted: bool) -> Self {
        let (standby_reads, rests_in) = (rng.u32(..4) == 0, rng.u32(..120));
        Self { rng, is_muted, standby_reads, rests_in }
    }

    fn draw(&mut self, crash: Option<Duration>, other_crash: Option<Duration>) -> Events {
        // As often as not within the time that a call takes.
        let after = if self.rng.bool() { self.rng.u64(..1_500) } else { self.rng.u64(..10_000) };
        let gap = if self.rng.bool() { 0 } else { self.rng.u64(..20_000) };
        let handover = Handover {
            after: Duration::from_millis(after),
            abandons: self.rng.bool(),
            gap: Duration::from_millis(gap),
        };
        let (changes, rests) = (self.rng.u32(..6) == 0, self.rests_in == 0);
        self.rests_in = self.rests_in.wrapping_sub(1);
        Events { handover: (changes && !self.is_muted).then_some(handover), crash, other_crash, rests }
    }
}
