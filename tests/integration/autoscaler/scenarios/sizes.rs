//! Groups grow for pods and shrink without them, within their bounds.

use serde_json::json;

use super::super::client::knows;
use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::{MakeGroup, ONE_PER_NODE, aws, azure, follows_nine_pods, scale_set, scaling_group};
use crate::emulators::Emulator;

#[tokio::test(flavor = "multi_thread")]
async fn aws_grows_from_zero() {
    grows_from_zero("aws_grows_from_zero", aws([scaling_group("web", (0, 10, 0))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_grows_from_zero() {
    grows_from_zero("azure_grows_from_zero", azure([scale_set("web", (0, 10, 0))])).await;
}

async fn grows_from_zero(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == 1).await;
    assert_eq!((fixture.capacity("web"), fixture.nodes().await.len()), (1, 1));
    fixture.delete_pods().await;
    fixture.until("the group is empty again", async |fixture| fixture.capacity("web") == 0).await;
    fixture.finish(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_grows_to_17_and_shrinks_to_min() {
    grows_and_shrinks("aws_grows_to_17_and_shrinks_to_min", aws([scaling_group("web", (3, 20, 3))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_grows_to_17_and_shrinks_to_min() {
    grows_and_shrinks("azure_grows_to_17_and_shrinks_to_min", azure([scale_set("web", (3, 20, 3))])).await;
}

async fn grows_and_shrinks(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.until("three nodes registered", async |fixture| fixture.nodes().await.len() == 3).await;
    fixture.create_pods(17, ONE_PER_NODE).await;
    fixture.until("17 pods have nodes", async |fixture| fixture.scheduled().await == 17).await;
    assert_eq!((fixture.capacity("web"), fixture.nodes().await.len()), (17, 17));
    fixture.delete_pods().await;
    fixture
        .until("min is left", async |fixture| fixture.capacity("web") == 3 && fixture.nodes().await.len() == 3)
        .await;
    let lows = fixture.setup.emulator.simulated().world(|world, _| world.take_lows());
    assert!(lows.values().all(|low| *low >= 3), "never below min: {lows:?}");
    fixture.finish(&[]);
}

on_both_clouds!(
    aws_grows_two_groups_in_one_loop,
    azure_grows_two_groups_in_one_loop,
    grows_two_groups,
    |group: MakeGroup| [group("one", (0, 10, 0)), group("two", (0, 10, 0))]
);

/// A release without --salvo-scale-up needs a loop for each group.
async fn grows_two_groups(name: &'static str, emulator: impl Emulator) {
    const SALVO: &str = "--salvo-scale-up";
    let has_salvo = knows(SALVO);
    let labels = "groups: [{match: one, labels: {team: one}}, {match: two, labels: {team: two}}]\n";
    let scenario = Scenario::new(name).headcount(labels).flags(if has_salvo { &[SALVO] } else { &[] });
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    for team in ["one", "two", "two", "one", "two"] {
        let requests = json!({"cpu": ONE_PER_NODE, "memory": "64Mi"});
        fixture.create_pod(json!({}), requests, json!({"team": team})).await;
    }
    fixture.until("five pods have nodes", async |fixture| fixture.scheduled().await == 5).await;
    assert_eq!((fixture.capacity("one"), fixture.capacity("two")), (2, 3), "each grown once");
    if has_salvo {
        let salvos = fixture.autoscaler.logged("All unschedulable pods have been helped, finishing the scale up salvo");
        assert!(salvos >= 1, "the autoscaler ran no salvo");
    }
    fixture.finish(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_survives_kill_9_during_a_scale_up() {
    survives_kill_9("aws_survives_kill_9_during_a_scale_up", aws([scaling_group("web", (0, 20, 2))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_survives_kill_9_during_a_scale_up() {
    survives_kill_9("azure_survives_kill_9_during_a_scale_up", azure([scale_set("web", (0, 20, 2))])).await;
}

async fn survives_kill_9(name: &'static str, emulator: impl Emulator) {
    let Some(mut fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.until("two nodes registered", async |fixture| fixture.nodes().await.len() == 2).await;
    fixture.create_pods(9, ONE_PER_NODE).await;
    fixture.until("the capacity was written", async |fixture| fixture.capacity("web") > 2).await;
    fixture.restart_headcount().await;
    fixture.until("nine pods have nodes", async |fixture| fixture.scheduled().await == 9).await;
    assert_eq!(fixture.capacity("web"), 9, "grown once");
    fixture.finish(&["connection error", "connection reset", "broken pipe", "error reading from server", "EOF"]);
}

on_both_clouds!(
    aws_survives_kill_9_during_a_scale_down,
    azure_survives_kill_9_during_a_scale_down,
    survives_kill_9_shrinking,
    |group: MakeGroup| [group("web", (2, 20, 9))]
);

async fn survives_kill_9_shrinking(name: &'static str, emulator: impl Emulator) {
    let Some(mut fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.until("nine nodes registered", async |fixture| fixture.nodes().await.len() == 9).await;
    fixture.until("deletions have begun", async |fixture| fixture.nodes().await.len() < 9).await;
    fixture.restart_headcount().await;
    fixture
        .until("min is left", async |fixture| fixture.capacity("web") == 2 && fixture.nodes().await.len() == 2)
        .await;
    let lows = fixture.setup.emulator.simulated().world(|world, _| world.take_lows());
    assert!(lows.values().all(|low| *low >= 2), "never below min: {lows:?}");
    fixture.finish(&["connection error", "connection reset", "broken pipe", "error reading from server", "EOF"]);
}

on_both_clouds!(
    aws_survives_a_restart_of_the_autoscaler,
    azure_survives_a_restart_of_the_autoscaler,
    survives_a_restart,
    |group: MakeGroup| [group("web", (0, 20, 2))]
);

/// From 1.36 on, the restarted autoscaler forgets the nodes that are starting and adds others; it then removes the
/// surplus.
async fn survives_a_restart(name: &'static str, emulator: impl Emulator) {
    let Some(mut fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.until("two nodes registered", async |fixture| fixture.nodes().await.len() == 2).await;
    fixture.create_pods(9, ONE_PER_NODE).await;
    fixture.until("the capacity was written", async |fixture| fixture.capacity("web") > 2).await;
    fixture.autoscaler.restart();
    follows_nine_pods(&mut fixture).await;
    fixture.finish(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_keeps_max_under_a_burst_of_100_pods() {
    let emulator = aws([scaling_group("small", (0, 4, 0)), scaling_group("large", (0, 40, 0))]);
    keeps_max("aws_keeps_max_under_a_burst_of_100_pods", emulator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_keeps_max_under_a_burst_of_100_pods() {
    let emulator = azure([scale_set("small", (0, 4, 0)), scale_set("large", (0, 40, 0))]);
    keeps_max("azure_keeps_max_under_a_burst_of_100_pods", emulator).await;
}

async fn keeps_max(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.create_pods(100, ONE_PER_NODE).await;
    fixture.until("44 pods have nodes", async |fixture| fixture.scheduled().await == 44).await;
    assert_eq!((fixture.capacity("small"), fixture.capacity("large"), fixture.nodes().await.len()), (4, 40, 44));
    fixture.finish(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_replaces_evicted_instances() {
    replaces_evicted("aws_replaces_evicted_instances", aws([scaling_group("spot", (0, 10, 0))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_replaces_evicted_instances() {
    replaces_evicted("azure_replaces_evicted_instances", azure([scale_set("spot", (0, 10, 0))])).await;
}

/// The pods of evicted nodes go with them; new pods take their place, as a controller would create them.
async fn replaces_evicted(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.create_pods(4, ONE_PER_NODE).await;
    fixture.until("four pods have nodes", async |fixture| fixture.scheduled().await == 4).await;
    let evicted = fixture.setup.emulator.simulated().evict("spot", 2).expect("two are evicted");
    assert_eq!(evicted.len(), 2);
    fixture.until("two pods are left", async |fixture| fixture.scheduled().await == 2).await;
    fixture.create_pods(2, ONE_PER_NODE).await;
    fixture.until("four pods have nodes again", async |fixture| fixture.scheduled().await == 4).await;
    fixture
        .until("four nodes remain", async |fixture| fixture.capacity("spot") == 4 && fixture.nodes().await.len() == 4)
        .await;
    fixture.finish(&[]);
}

/// The labels that make groups of one kind similar, whatever else their nodes have; every release uses these.
pub(super) const BALANCING: [&str; 3] = [
    "--balance-similar-node-groups",
    "--balancing-label=node.kubernetes.io/instance-type",
    "--balancing-label=kubernetes.io/arch",
];

#[tokio::test(flavor = "multi_thread")]
async fn aws_balances_three_zones() {
    let zoned = |name: &str, zone: &str| {
        let mut plan = scaling_group(name, (0, 10, 0));
        plan.zones = vec![zone.to_owned()];
        plan
    };
    let emulator = aws([zoned("a", "us-east-1a"), zoned("b", "us-east-1b"), zoned("c", "us-east-1c")]);
    balances_three_zones("aws_balances_three_zones", emulator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_balances_three_zones() {
    let zoned = |name: &str, zone: &str| {
        let mut plan = scale_set(name, (0, 10, 0));
        plan.zones = vec![zone.to_owned()];
        plan
    };
    let emulator = azure([zoned("a", "eastus-1"), zoned("b", "eastus-2"), zoned("c", "eastus-3")]);
    balances_three_zones("azure_balances_three_zones", emulator).await;
}

async fn balances_three_zones(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name).flags(&BALANCING), emulator).await else { return };
    fixture.create_pods(9, ONE_PER_NODE).await;
    fixture.until("nine pods have nodes", async |fixture| fixture.scheduled().await == 9).await;
    assert_eq!(["a", "b", "c"].map(|group| fixture.capacity(group)), [3, 3, 3]);
    fixture.finish(&[]);
}
