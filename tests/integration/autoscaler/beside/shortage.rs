//! How soon the autoscaler grows another group when the one that it prefers has no capacity.

use std::time::{Duration, Instant};

use super::super::scenario::Scenario;
use super::super::scenarios::ONE_PER_NODE;
use super::autoscaler::{PATIENCE, priorities, scenario, start, web, without_capacity};
use super::upstream::Shared;
use super::{Measured, report};

/// With the clouds' usual writes.
pub(super) async fn measure<E: Shared>(name: &'static str, measured: Measured) {
    run::<E>(scenario(name, measured), measured, "other-group-grown").await;
}

/// With synchronous launches.
pub(super) async fn measure_synchronous<E: Shared>(name: &'static str) {
    let scenario = scenario(name, Measured::Headcount).headcount("groups: [{match: \"*\", launch: synchronous}]\n");
    run::<E>(scenario, Measured::Headcount, "other-group-grown-synchronous").await;
}

/// Measures from the call that grows the group without capacity to the one that grows the other group.
async fn run<E: Shared>(scenario: Scenario, measured: Measured, what: &str) {
    let cloud = E::open(vec![without_capacity::<E>(), web::<E>(4)]);
    let Some(fixture) = start(scenario.flags(&["--expander=priority"]), cloud).await else { return };
    let emulator = &fixture.setup.emulator;
    fixture.cluster.api.create(&priorities(["spot", "web"])).await;
    fixture.until("all nodes registered", async |fixture| fixture.nodes().await.len() == 4).await;
    fixture.create_pods(4, ONE_PER_NODE).await;
    fixture.until("they run", async |fixture| fixture.scheduled().await == 4).await;
    emulator.forget_requests();
    fixture.create_pods(2, ONE_PER_NODE).await;
    let grown = |group| emulator.requests().iter().find(|one| E::grows(one, group)).map(|one| one.at);
    fixture.until("the group without capacity was chosen", async |_| grown("spot").is_some()).await;
    let (asked, began) = (grown("spot").unwrap_or_default(), Instant::now());
    while grown("web").is_none() && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let waited = grown("web").map(|at| format!("{:.1}", at.saturating_sub(asked).as_secs_f64()));
    report(emulator.cloud(), measured, what, waited.unwrap_or_else(|| format!(">{}", PATIENCE.as_secs())));
}
