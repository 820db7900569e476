//! How long a write takes from the RPC's arrival to its request to the cloud, where listing machines is slow.
//!
//! The real binary serves a scale set of 1,000 machines behind an emulator of Azure Resource Manager. A page of 100
//! machines takes 0.5 s, any other call 50 ms, so that a list of all machines takes 5 s. The times are those at which
//! the client sends the RPC and at which the emulator receives the PATCH or POST. Exits with 1 if any of them is a
//! second or more.
//!
//!     cargo bench --no-default-features --features azure --bench writes

#![allow(dead_code, unused_imports, unreachable_pub)] // it uses a part of what the tests share

#[path = "../tests/integration/emulators/mod.rs"]
mod emulators;
#[path = "../tests/integration/peers/mod.rs"]
mod peers;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use emulators::Emulator;
use emulators::arm::Arm;
use emulators::setup::Setup;
use headcount::clouds::simulated::{GroupPlan, Simulated};

const MACHINES: u32 = 960;
const SAMPLES: usize = 20;
/// Of a page of machines; other calls take 50 ms, half of it on each way.
const PAGE: Duration = Duration::from_millis(450);
const ONE_WAY: Duration = Duration::from_millis(25);
const LIMIT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (mut growth, mut deletion) = runtime.block_on(measure());
    println!("{:<14} {:>8} {:>8}", "RPC", "median", "longest");
    let longest = [("IncreaseSize", &mut growth), ("DeleteNodes", &mut deletion)].map(|(name, times)| {
        times.sort();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{name:<14} {:>5} ms {:>5} ms", median.as_millis(), longest.as_millis());
        longest
    });
    if longest.iter().all(|longest| *longest < LIMIT) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure() -> (Vec<Duration>, Vec<Duration>) {
    let quick = Duration::from_millis(100)..=Duration::from_millis(200);
    let plan = GroupPlan::azure("pool").sized(0, 1_000, MACHINES).launch_time(quick.clone()).delete_time(quick);
    let arm = Arm::start(Arc::new(Simulated::with_groups(1, [plan])));
    let mut setup = Setup::open(arm).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.emulator.behavior(|behavior| behavior.page_time = PAGE);
    setup.emulator.simulated().faults(|faults| faults.rates.latency = ONE_WAY..=ONE_WAY);
    let (mut growth, mut deletion) = (Vec::new(), Vec::new());
    for node in &nodes[..SAMPLES] {
        let sent = setup.emulator.core().uptime();
        setup.client.increase("pool", 2).await.expect("accepted");
        growth.push(first(&setup.emulator, "PATCH", sent));
        let sent = setup.emulator.core().uptime();
        setup.client.delete("pool", &[node]).await.expect("accepted");
        deletion.push(first(&setup.emulator, "POST", sent));
    }
    (growth, deletion)
}

/// How long after `sent` the first such request arrived.
fn first(arm: &Arm, method: &str, sent: Duration) -> Duration {
    let requests = arm.requests_with(method, "virtualMachineScaleSets/pool");
    requests.iter().map(|request| request.at).find(|at| *at >= sent).expect("it was sent") - sent
}
