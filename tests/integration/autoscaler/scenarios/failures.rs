//! Launches and deletions that fail, and instances that never become nodes.

use std::time::{Duration, Instant};

use headcount::clouds::simulated::{DeleteOutcome, GroupPlan, LaunchOutcome, Pick, PlannedFailure};

use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::{ONE_PER_NODE, aws, azure, quick, scale_set, scaling_group};
use crate::emulators::arm::Arm;
use crate::emulators::{Emulator, Request};

/// Longer than any scenario: failed launches are not retried.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes the autoscaler's priority expander prefer the first group to the second.
pub(in super::super) async fn prefer(fixture: &Fixture<impl Emulator>, [first, second]: [&str; 2]) {
    let priorities = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cluster-autoscaler-priority-expander", "namespace": "default"},
        "data": {"priorities": format!("20:\n  - {first}\n10:\n  - {second}\n")},
    });
    fixture.cluster.api.ok("POST", "/api/v1/namespaces/default/configmaps", Some(&priorities)).await;
}

pub(in super::super) fn by_priority(name: &'static str) -> Scenario {
    Scenario::new(name).flags(&["--expander=priority"])
}

fn without_capacity(mut plan: GroupPlan, code: &str) -> GroupPlan {
    plan.retry_every = NEVER;
    let failure = PlannedFailure::out_of_resources(code, "There is no capacity available that matches your request.");
    plan.launches(Pick::Always, LaunchOutcome::fails(failure, quick()))
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_takes_the_other_group_when_launches_fail() {
    let spot = without_capacity(scaling_group("spot", (0, 10, 0)), "InsufficientInstanceCapacity");
    let emulator = aws([spot, scaling_group("web", (0, 10, 0))]);
    takes_the_other_group("aws_takes_the_other_group_when_launches_fail", emulator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_takes_the_other_group_when_launches_fail() {
    let spot = without_capacity(scale_set("spot", (0, 10, 0)), "AllocationFailed");
    let emulator = azure([spot, scale_set("web", (0, 10, 0))]);
    takes_the_other_group("azure_takes_the_other_group_when_launches_fail", emulator).await;
}

async fn takes_the_other_group(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(by_priority(name), emulator).await else { return };
    prefer(&fixture, ["spot", "web"]).await;
    fixture.create_pods(2, ONE_PER_NODE).await;
    fixture.until("two pods have nodes", async |fixture| fixture.scheduled().await == 2).await;
    assert_eq!(fixture.capacity("web"), 2);
    // The capacity of a scale set is not lowered: what failed leaves the target.
    fixture.until("the failed capacity is given back", async |fixture| fixture.target("spot").await == 0).await;
    assert!(fixture.autoscaler.has_logged("Disabling scale-up for node group spot"), "backed off");
    fixture.finish(&["InsufficientInstanceCapacity", "AllocationFailed", "spot"]);
}

/// With synchronous launches, the shortage is the error of the scale-up: the autoscaler writes to the other group in
/// its next loop, without a node that is listed as failed in between.
#[tokio::test(flavor = "multi_thread")]
async fn aws_takes_the_other_group_when_a_launch_is_refused() {
    let spot = without_capacity(scaling_group("spot", (0, 10, 0)), "InsufficientInstanceCapacity");
    let emulator = aws([spot, scaling_group("web", (0, 10, 0))]);
    let scenario = by_priority("aws_takes_the_other_group_when_a_launch_is_refused");
    let scenario = scenario.scan_interval("10s").headcount("groups: [{match: \"*\", launch: synchronous}]\n");
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    prefer(&fixture, ["spot", "web"]).await;
    fixture.create_pods(2, ONE_PER_NODE).await;
    fixture.until("two pods have nodes", async |fixture| fixture.scheduled().await == 2).await;
    assert_eq!((fixture.capacity("spot"), fixture.capacity("web")), (0, 2));
    let launches = fixture.setup.emulator.requests_with("POST", "Action=LaunchInstances");
    let groups: Vec<_> = launches.iter().filter_map(|call| call.field("AutoScalingGroupName")).collect();
    assert_eq!(groups, ["spot", "web"], "one call for each");
    println!("from the refused launch to the other group's: {:?}", launches[1].at.saturating_sub(launches[0].at));
    fixture.finish(&["InsufficientInstanceCapacity", "spot"]);
}

/// Two scale sets of two families. The quota of one family leaves room for three nodes of `web`, that of the other for
/// many of `other`.
pub(in super::super) fn with_a_quota_for_three() -> Arm {
    let other = scale_set("other", (0, 10, 0)).instance_types(&["Standard_E8-4ds_v5"]);
    let emulator = azure([scale_set("web", (0, 10, 0)), other]);
    emulator.behavior(|behavior| {
        let quotas = [("standardDSv5Family", 6), ("standardEDSv5Family", 400), ("cores", 400)];
        behavior.quotas = quotas.map(|(name, limit)| (name.to_owned(), limit)).into();
    });
    emulator
}

/// The capacities that writes asked for, oldest first, and the status of each response.
pub(in super::super) fn capacities_asked_for(arm: &Arm, group: &str) -> Vec<(u64, Option<u16>)> {
    let is_write = |request: &&Request| matches!(request.method.as_str(), "PATCH" | "PUT");
    let of_group = format!("/{group}");
    let requests = arm.requests();
    let writes = requests.iter().filter(is_write).filter(|request| request.path.ends_with(&of_group));
    writes.filter_map(|request| Some((request.json()["sku"]["capacity"].as_u64()?, request.status))).collect()
}

/// A quota leaves room for three nodes of the preferred group: it gets three, and the other family gets the rest,
/// without a launch that fails.
#[tokio::test(flavor = "multi_thread")]
async fn azure_stays_within_a_quota_and_takes_the_other_family() {
    let emulator = with_a_quota_for_three();
    let scenario = by_priority("azure_stays_within_a_quota_and_takes_the_other_family");
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    prefer(&fixture, ["web", "other"]).await;
    let max = |fixture: &Fixture<_>| fixture.metric("headcount_node_group_max_size{node_group=\"web\"");
    fixture.until("the quota is known", async |fixture| max(fixture).iter().all(|line| line.ends_with(" 3.0"))).await;
    let began = Instant::now();
    fixture.create_pods(10, ONE_PER_NODE).await;
    fixture.until("ten pods have nodes", async |fixture| fixture.scheduled().await == 10).await;
    println!("ten pods have nodes after {:?}; other: {}", began.elapsed(), fixture.capacity("other"));
    assert_eq!(fixture.capacity("web"), 3);
    let written = capacities_asked_for(&fixture.setup.emulator, "web");
    assert!(
        !written.is_empty() && written.iter().all(|(capacity, status)| *capacity <= 3 && *status == Some(200)),
        "{written:?}"
    );
    let failures = fixture.metric("headcount_node_group_launch_failures_total");
    assert!(failures.iter().all(|line| line.ends_with(" 0")), "{failures:?}");
    fixture.finish(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_backs_off_a_group_whose_instances_never_register() {
    let emulator = aws([scaling_group("silent", (0, 10, 0)), scaling_group("web", (0, 10, 0))]);
    backs_off_silent(by_priority("aws_backs_off_a_group_whose_instances_never_register"), emulator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_backs_off_a_group_whose_instances_never_register() {
    let emulator = azure([scale_set("silent", (0, 10, 0)), scale_set("web", (0, 10, 0))]);
    backs_off_silent(by_priority("azure_backs_off_a_group_whose_instances_never_register"), emulator).await;
}

/// Even at the autoscaler's default interval, 1.36 and later run another loop right after a scale-up.
#[tokio::test(flavor = "multi_thread")]
async fn aws_backs_off_a_silent_group_at_an_interval_of_10_s() {
    let emulator = aws([scaling_group("silent", (0, 10, 0)), scaling_group("web", (0, 10, 0))]);
    let scenario = by_priority("aws_backs_off_a_silent_group_at_an_interval_of_10_s").scan_interval("10s");
    backs_off_silent(scenario, emulator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_backs_off_a_silent_group_at_an_interval_of_10_s() {
    let emulator = azure([scale_set("silent", (0, 10, 0)), scale_set("web", (0, 10, 0))]);
    let scenario = by_priority("azure_backs_off_a_silent_group_at_an_interval_of_10_s").scan_interval("10s");
    backs_off_silent(scenario, emulator).await;
}

async fn backs_off_silent(scenario: Scenario, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(scenario.silent("silent"), emulator).await else { return };
    prefer(&fixture, ["silent", "web"]).await;
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("the silent group grew", async |fixture| fixture.capacity("silent") > 0).await;
    fixture.until("the pod has a node of the other group", async |fixture| fixture.scheduled().await == 1).await;
    assert_eq!(fixture.capacity("web"), 1);
    fixture.until("the silent instance is removed", async |fixture| fixture.capacity("silent") == 0).await;
    fixture.finish(&["silent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_scales_up_after_a_deletion_that_fails_later() {
    let failure = PlannedFailure::other("InternalExecutionError", "An internal execution error occurred.");
    let plan = scale_set("web", (0, 10, 3)).deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let name = "azure_scales_up_after_a_deletion_that_fails_later";
    let Some(fixture) = Fixture::start(Scenario::new(name), azure([plan])).await else { return };
    fixture.until("three nodes registered", async |fixture| fixture.nodes().await.len() == 3).await;
    fixture
        .until("a deletion was tried", async |fixture| {
            !fixture.setup.emulator.requests_with("POST", "/delete").is_empty()
        })
        .await;
    fixture.create_pods(5, ONE_PER_NODE).await;
    fixture.until("five pods have nodes", async |fixture| fixture.scheduled().await == 5).await;
    assert_eq!((fixture.capacity("web"), fixture.nodes().await.len()), (5, 5), "the count stayed right");
    fixture.finish(&["InternalExecutionError", "delete"]);
}
