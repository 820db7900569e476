//! What recording costs: the time of a write to a group that was idle, with and without, and the memory.
//!
//! Two fleets of 1,000 groups of 100 instances, of which one records, take turns. Each write begins a recording with a
//! checkpoint, which is the most that it can cost. Exits with 1 if a write takes 5 % longer where a call of the cloud
//! takes 50 ms, or if the recordings take more than 15 MiB once every group has had 20 writes.
//!
//!     cargo bench --no-default-features --bench recording

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::Simulated;
use headcount::fleet::{Cadence, Deadline, Fleet, Mutation, Policies, Settings};
use headcount::instance_types::Catalog;

const GROUPS: u32 = 1_000;
const INSTANCES: u32 = 100;
const SAMPLES: usize = 100;
/// Half of what a call of the cloud takes.
const ONE_WAY: Duration = Duration::from_millis(25);
/// To each group.
const WRITES: usize = 20;
const BYTES_MAX: usize = 15 << 20;

/// A fleet, and its cloud.
struct Measured {
    cloud: Arc<Simulated>,
    fleet: Fleet,
    groups: Vec<String>,
}

impl Measured {
    async fn start() -> Self {
        let cloud = Arc::new(Simulated::large(GROUPS, INSTANCES));
        let fleet = Fleet::start(Settings {
            sources: vec![(Arc::from("bench"), Arc::clone(&cloud) as SharedCloud)],
            cadence: Cadence::new(Duration::from_secs(15), None),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
            read_only: false,
        });
        let until = tokio::time::Instant::now() + Duration::from_secs(600);
        fleet.wait_ready(until).await.expect("ready");
        let groups: Vec<_> = fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect();
        Self { cloud, fleet, groups }
    }

    /// How long a scale-up takes.
    async fn write(&self, group: usize) -> Duration {
        let deadline = Deadline::within(Duration::from_secs(60));
        let began = Instant::now();
        self.fleet.mutate(&self.groups[group], Mutation::Increase(1), deadline).await.expect("accepted");
        began.elapsed()
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure())
}

async fn measure() -> ExitCode {
    let (with, without) = (Measured::start().await, Measured::start().await);
    without.fleet.stop_recording();
    println!("idle groups: {} KiB", with.fleet.recorded_bytes() >> 10);
    let mut is_fine = true;
    for (round, latency) in [Duration::ZERO, ONE_WAY].into_iter().enumerate() {
        for measured in [&with, &without] {
            measured.cloud.faults(|faults| faults.rates.latency = latency..=latency);
        }
        let (mut recorded, mut bare) = (Vec::new(), Vec::new());
        for sample in 0..SAMPLES {
            let group = round * SAMPLES + sample;
            recorded.push(with.write(group).await);
            bare.push(without.write(group).await);
        }
        let (recorded, bare) = (median(recorded), median(bare));
        println!("a call of {:?}: {recorded:?} with recording, {bare:?} without", latency * 2);
        is_fine &= latency.is_zero() || recorded < bare.mul_f64(1.05);
    }
    with.cloud.faults(|faults| faults.rates.latency = Duration::ZERO..=Duration::ZERO);
    for _ in 0..WRITES {
        for group in 0..with.groups.len() {
            with.write(group).await;
        }
    }
    let bytes = with.fleet.recorded_bytes();
    let events = with.groups.iter().map(|group| with.fleet.recordings(Some(group)).unwrap_or_default());
    let mut events: Vec<_> = events.map(|text| text.matches("{\"event\":").count()).collect();
    events.sort_unstable();
    let (fewest, median) = (events[0], events[events.len() / 2]);
    println!(
        "every group active: {:.1} MiB, {fewest} events of a group at least, {median} of half of them",
        bytes as f64 / f64::from(1 << 20)
    );
    is_fine &= bytes <= BYTES_MAX;
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
