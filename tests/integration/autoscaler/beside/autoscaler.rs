//! Both servers under the real autoscaler at its default interval: cloud calls, loops, and how late they see changes.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use headcount::clouds::simulated::{GroupPlan, LaunchOutcome, Pick, PlannedFailure};
use serde_json::{Value, json};

use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::super::scenarios::ONE_PER_NODE;
use super::upstream::{Shared, servers};
use super::{Measured, report};
use crate::peers::headcount::Server;

const MINUTE: Duration = Duration::from_secs(60);

/// After this long without writes and changes, Headcount lists its sources less often.
const TO_REST: Duration = Duration::from_secs(130);

/// The longest wait for anything. Upstream never sees some failures.
pub(super) const PATIENCE: Duration = Duration::from_secs(280);

pub(super) async fn measure<E: Shared>(name: &'static str, measured: Measured) {
    let cloud = E::open(vec![without_capacity::<E>(), web::<E>(20)]);
    let scenario = scenario(name, measured).flags(&["--expander=priority"]);
    let Some(fixture) = start(scenario, cloud).await else { return };
    let emulator = &fixture.setup.emulator;
    let cloud = emulator.cloud();
    fixture.cluster.api.create(&priorities(["web", "spot"])).await;
    fixture.until("all nodes registered", async |fixture| fixture.nodes().await.len() == 20).await;

    tokio::time::sleep(TO_REST).await;
    emulator.forget_requests();
    tokio::time::sleep(MINUTE * 2).await;
    report(cloud, measured, "calls-per-idle-minute", emulator.requests().len() as f64 / 2.0);

    let mut client = Server::client_at(fixture.provider()).await;
    let before = client.target("web").await;
    emulator.simulated().set_desired_externally("web", 23).expect("within its bounds");
    let began = Instant::now();
    let mut seen = false;
    while !seen && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        seen = client.target("web").await > before;
    }
    report(cloud, measured, "outside-change-seen", waited(seen, began));
    fixture.until("the new nodes registered", async |fixture| fixture.nodes().await.len() == 23).await;

    // From here on, pods need nodes: 23 run on those that exist.
    fixture.create_pods(23, ONE_PER_NODE).await;
    fixture.until("they run", async |fixture| fixture.scheduled().await == 23).await;
    emulator.forget_requests();
    let began = Instant::now();
    while began.elapsed() < MINUTE {
        fixture.create_pods(1, ONE_PER_NODE).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    report(cloud, measured, "calls-per-busy-minute", emulator.requests().len());
    fixture.until("all pods have nodes", async |fixture| fixture.scheduled().await == 29).await;
    report(cloud, measured, "mean-loop-ms", fixture.autoscaler.mean_loop().as_millis());

    let path = "/api/v1/namespaces/default/configmaps/cluster-autoscaler-priority-expander";
    fixture.cluster.api.ok("PATCH", path, Some(&priorities(["spot", "web"]))).await;
    fixture.create_pods(2, ONE_PER_NODE).await;
    fixture.until("the group without capacity was chosen", async |fixture| fixture.capacity("spot") > 0).await;
    let began = Instant::now();
    let (mut listed, mut backed_off) = (None, false);
    while !backed_off && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if listed.is_none() {
            let mut states = client.nodes("spot").await.into_iter().filter_map(|node| node.status);
            // Upstream's server sends an empty error with every state.
            let has_failed = states.any(|state| state.error_info.is_some_and(|error| !error.error_code.is_empty()));
            listed = has_failed.then(|| waited(true, began));
        }
        backed_off = fixture.autoscaler.has_logged("Disabling scale-up for node group spot");
    }
    report(cloud, measured, "failed-launch-listed", listed.unwrap_or_else(|| waited(false, began)));
    report(cloud, measured, "backed-off", waited(backed_off, began));
}

/// The minute in which six pods need nodes at once, which is one scale-up.
pub(super) async fn measure_burst<E: Shared>(name: &'static str, measured: Measured) {
    let Some(fixture) = start(scenario(name, measured), E::open(vec![web::<E>(4)])).await else { return };
    fixture.until("all nodes registered", async |fixture| fixture.nodes().await.len() == 4).await;
    fixture.create_pods(4, ONE_PER_NODE).await;
    fixture.until("they run", async |fixture| fixture.scheduled().await == 4).await;
    let emulator = &fixture.setup.emulator;
    emulator.forget_requests();
    fixture.create_pods(6, ONE_PER_NODE).await;
    tokio::time::sleep(MINUTE).await;
    report(emulator.cloud(), measured, "calls-per-burst-minute", emulator.requests().len());
    fixture.until("all pods have nodes", async |fixture| fixture.scheduled().await == 10).await;
}

/// A group whose launches fail after 1 to 2 s.
pub(super) fn without_capacity<E: Shared>() -> GroupPlan {
    let failure = PlannedFailure::out_of_resources(E::shortage(), "There is no capacity.");
    E::group("spot").sized(0, 10, 0).launches(Pick::Always, LaunchOutcome::fails(failure, seconds(1, 2)))
}

fn seconds(from: u64, to: u64) -> RangeInclusive<Duration> {
    Duration::from_secs(from)..=Duration::from_secs(to)
}

/// The group that can grow.
pub(super) fn web<E: Shared>(nodes: u32) -> GroupPlan {
    E::group("web").sized(0, 100, nodes).launch_time(seconds(2, 4)).delete_time(seconds(2, 4))
}

/// The autoscaler at its default scan interval, with one of the servers.
pub(super) fn scenario(name: &'static str, measured: Measured) -> Scenario {
    // The autoscaler's own default for the provision timeout: upstream needs a minute to see its nodes.
    let scenario = Scenario::new(name).scan_interval("10s").refresh("15s");
    let mut scenario = scenario.flags(&["--scale-down-unneeded-time=1h", "--max-node-provision-time=15m"]);
    scenario.upstream = measured == Measured::Upstream;
    scenario
}

/// Starts it. `None` if upstream's servers are not built.
pub(super) async fn start<E: Shared>(scenario: Scenario, cloud: E) -> Option<Fixture<E>> {
    servers()?;
    Some(Fixture::start(scenario, cloud).await.expect("the programs are built"))
}

/// Makes the priority expander prefer the first group to the second.
pub(super) fn priorities([first, second]: [&str; 2]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cluster-autoscaler-priority-expander", "namespace": "default"},
        "data": {"priorities": format!("20:\n  - {first}\n10:\n  - {second}\n")},
    })
}

/// How long something took, or that it did not happen.
fn waited(happened: bool, began: Instant) -> String {
    if happened { format!("{:.1}", began.elapsed().as_secs_f64()) } else { format!(">{}", PATIENCE.as_secs()) }
}
