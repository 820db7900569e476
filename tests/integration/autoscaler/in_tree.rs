//! What the autoscaler's own providers make of what Headcount can do.

use std::time::Instant;

use super::devices::{create_claiming_pod, published};
use super::fixture::Fixture;
use super::scenario::Scenario;
use super::scenarios::failures::{by_priority, capacities_asked_for, prefer, with_a_quota_for_three};
use super::scenarios::zones::{ZONES, create_pod_with_volume, over_zones};
use super::scenarios::{ONE_PER_NODE, aws, scaling_group};
use crate::emulators::certificate_authority::CertificateAuthority;

/// The in-tree provider has no devices in its templates, so a pod that claims one does not start from zero. It does
/// on a node that was added for another pod.
#[tokio::test(flavor = "multi_thread")]
async fn aws_in_tree_does_not_grow_from_zero_for_a_claim() {
    let name = "aws_in_tree_does_not_grow_from_zero_for_a_claim";
    let scenario = Scenario::new(name).published("gpu", published()).in_tree();
    let Some(fixture) = Fixture::start(scenario, aws([scaling_group("gpu", (0, 5, 0))])).await else { return };
    create_claiming_pod(&fixture, "first").await;
    let refusals = |fixture: &Fixture<_>| fixture.autoscaler.logged("Pod default/first can't be scheduled on gpu");
    fixture.until("the pod is refused in three loops", async |fixture| refusals(fixture) >= 3).await;
    assert_eq!((fixture.capacity("gpu"), fixture.scheduled().await), (0, 0));
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("both pods have a node", async |fixture| fixture.scheduled().await == 2).await;
    assert_eq!(fixture.capacity("gpu"), 1);
    fixture.finish(&["node is not present in aws"]);
}

/// The in-tree provider describes a node of a group of several zones as one in its first zone, so a pod whose volume
/// is in another zone does not start from zero.
#[tokio::test(flavor = "multi_thread")]
async fn aws_in_tree_does_not_grow_in_the_zone_of_a_volume() {
    let scenario = Scenario::new("aws_in_tree_does_not_grow_in_the_zone_of_a_volume").in_tree();
    let Some(fixture) = Fixture::start(scenario, over_zones()).await else { return };
    create_pod_with_volume(&fixture, "data-1", ZONES[1]).await;
    let refusals = |fixture: &Fixture<_>| fixture.autoscaler.logged("Pod default/data-1 can't be scheduled on web");
    fixture.until("the pod is refused in three loops", async |fixture| refusals(fixture) >= 3).await;
    assert_eq!((fixture.capacity("web"), fixture.scheduled().await), (0, 0));
    fixture.finish(&["node is not present in aws"]);
}

/// The in-tree provider reads no quotas. It asks for ten nodes where a quota leaves room for three, Azure refuses all of
/// them, and the other group gets all pods. Its cache lags, so nodes get the default time to show up.
#[tokio::test(flavor = "multi_thread")]
async fn azure_in_tree_leaves_a_quota_unused_after_a_launch_that_fails() {
    let name = "azure_in_tree_leaves_a_quota_unused_after_a_launch_that_fails";
    let emulator = with_a_quota_for_three().with_secure_port(&CertificateAuthority::new());
    let scenario = by_priority(name).flags(&["--max-node-provision-time=15m"]).in_tree();
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    prefer(&fixture, ["web", "other"]).await;
    let began = Instant::now();
    fixture.create_pods(10, ONE_PER_NODE).await;
    fixture.until("ten pods have nodes", async |fixture| fixture.scheduled().await == 10).await;
    println!("ten pods have nodes after {:?}; other: {}", began.elapsed(), fixture.capacity("other"));
    let asked = capacities_asked_for(&fixture.setup.emulator, "web");
    println!("capacities asked for: {asked:?}");
    assert!(!asked.is_empty() && asked.iter().all(|write| *write == (10, Some(409))), "{asked:?}");
    assert_eq!(fixture.capacity("web"), 0);
    fixture.finish(&["web"]);
}
