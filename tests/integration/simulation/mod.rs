//! The laws under many schedules: the real fleet over the simulated cloud, on a paused clock, where one seed decides
//! everything that happens. A caller that behaves like the Cluster Autoscaler, a cloud that misbehaves in every way the
//! simulated one can, and after each step the laws.
//!
//! A failing seed is named; `HEADCOUNT_SEEDS=SEED..SEED+1 cargo test --test integration simulation` replays it, and a
//! wider range runs more of them.

mod autoscaler;
mod weather;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use headcount::cloud::SharedCloud;
use headcount::cloud::simulated::Simulated;
use headcount::fleet::{Fleet, Policies, Settings};
use headcount::instance_types::Catalog;
use tokio::time::{Duration, Instant, sleep};

use autoscaler::Autoscaler;

/// Seeds that are run when nothing else is said.
const SEEDS: Range<u64> = 0..400;
/// What the caller does in one run.
const STEPS: u32 = 40;
/// How long everything may take to calm down, in simulated time.
const CALM: Duration = Duration::from_secs(40 * 60);

/// A fleet over a simulated cloud.
pub(crate) struct World {
    pub(crate) cloud: Arc<Simulated>,
    pub(crate) fleet: Arc<Fleet>,
}

impl World {
    fn start(cloud: Arc<Simulated>) -> Self {
        let fleet = Fleet::start(Settings {
            sources: vec![(Arc::from("sim"), Arc::clone(&cloud) as SharedCloud)],
            refresh_interval: Duration::from_secs(10),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
        });
        Self { cloud, fleet: Arc::new(fleet) }
    }

    /// The process dies at this moment and another one starts.
    fn restart(&mut self) {
        *self = Self::start(Arc::clone(&self.cloud));
    }

    /// Law 1: no instance died of a capacity write of ours. Law 5 and 6 are part of what the autoscaler checks.
    fn check(&self) {
        if std::env::var_os("HEADCOUNT_LOG").is_some() && !self.cloud.killed_unnamed().is_empty() {
            self.cloud.world(|world, _| world.events().for_each(|event| println!("{:?} {event}", event.at)));
            self.cloud.calls().iter().for_each(|call| println!("{call:?}"));
        }
        assert_eq!(self.cloud.killed_unnamed(), [], "a write cost instances their life that nobody named");
    }

    /// After everything has calmed down, target, instances and cloud agree exactly.
    async fn check_agreement(&self) {
        self.cloud.faults(headcount::cloud::simulated::Faults::clear);
        let until = Instant::now() + CALM;
        loop {
            let disagreement = self.disagreement();
            if disagreement.is_none() {
                return;
            }
            assert!(Instant::now() < until, "never calm: {}", disagreement.unwrap_or_default());
            sleep(Duration::from_secs(10)).await;
        }
    }

    fn disagreement(&self) -> Option<String> {
        let snapshot = self.fleet.snapshot();
        self.cloud.world(|world, _| {
            world.groups().find_map(|group| {
                let Some((_, view)) = snapshot.group(group.name()) else {
                    return Some(format!("{} is not served", group.name()));
                };
                let (target, capacity, live) = (view.tally.target, group.capacity(), group.live());
                // What min forbids to lower is left out of the target until instances come.
                let agrees = target == live && (capacity == live || capacity <= group.plan().min);
                (!agrees).then(|| format!("{}: target {target}, capacity {capacity}, live {live}", group.name()))
            })
        })
    }
}

async fn run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let cloud = Arc::new(Simulated::with_groups(seed, weather::groups(&mut rng)));
    let mut world = World::start(cloud);
    let ready = world.fleet.wait_ready(Instant::now() + Duration::from_secs(120)).await;
    ready.expect("nothing is wrong yet");
    let mut autoscaler = Autoscaler::new(rng.fork());
    for _ in 0..STEPS {
        weather::change(&world, &mut rng);
        autoscaler.step(&world).await;
        world.check();
        if rng.u32(..12) == 0 {
            world.restart();
        }
    }
    weather::calm(&world);
    world.fleet.wait_ready(Instant::now() + Duration::from_secs(300)).await.expect("it is calm");
    autoscaler.tidy_up(&world).await;
    world.check_agreement().await;
    world.check();
}

fn seeds() -> Range<u64> {
    let asked = std::env::var("HEADCOUNT_SEEDS").ok();
    let range = asked.as_deref().and_then(|text| text.split_once(".."));
    range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)).unwrap_or(SEEDS)
}

#[test]
fn the_laws_hold_under_every_schedule() {
    if std::env::var_os("HEADCOUNT_LOG").is_some() {
        tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).without_time().init();
    }
    let violations: Vec<u64> = seeds()
        .filter(|seed| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            let runtime = runtime.expect("a runtime");
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(*seed)))).is_err()
        })
        .collect();
    let replay = violations
        .first()
        .map(|seed| format!("HEADCOUNT_SEEDS={seed}..{} cargo test --test integration simulation", seed + 1));
    assert!(violations.is_empty(), "seeds {violations:?} break a law; replay with\n    {}", replay.unwrap_or_default());
}
