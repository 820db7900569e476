//! Groups grow for pods and shrink without them, within their bounds.

use super::super::fixture::Fixture;
use super::{ONE_PER_NODE, aws, azure, scale_set, scaling_group};
use crate::emulators::Emulator;

#[tokio::test(flavor = "multi_thread")]
async fn aws_grows_from_zero() {
    grows_from_zero("aws_grows_from_zero", aws([scaling_group("web", (0, 10, 0))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_grows_from_zero() {
    grows_from_zero("azure_grows_from_zero", azure([scale_set("web", (0, 10, 0))])).await;
}

async fn grows_from_zero(name: &str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(name, emulator, &[], &[]).await else { return };
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

async fn grows_and_shrinks(name: &str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(name, emulator, &[], &[]).await else { return };
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

#[tokio::test(flavor = "multi_thread")]
async fn aws_survives_kill_9_during_a_scale_up() {
    survives_kill_9("aws_survives_kill_9_during_a_scale_up", aws([scaling_group("web", (0, 20, 2))])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_survives_kill_9_during_a_scale_up() {
    survives_kill_9("azure_survives_kill_9_during_a_scale_up", azure([scale_set("web", (0, 20, 2))])).await;
}

async fn survives_kill_9(name: &str, emulator: impl Emulator) {
    let Some(mut fixture) = Fixture::start(name, emulator, &[], &[]).await else { return };
    fixture.until("two nodes registered", async |fixture| fixture.nodes().await.len() == 2).await;
    fixture.create_pods(9, ONE_PER_NODE).await;
    fixture.until("the capacity was written", async |fixture| fixture.capacity("web") > 2).await;
    // It comes back at another port, so the autoscaler starts again too, without any memory of the scale-up.
    fixture.setup.restart().await;
    fixture.restart_autoscaler(&[]);
    fixture.until("nine pods have nodes", async |fixture| fixture.scheduled().await == 9).await;
    assert_eq!(fixture.capacity("web"), 9, "grown once");
    fixture.finish(&["connection refused", "error reading from server", "transport"]);
}
