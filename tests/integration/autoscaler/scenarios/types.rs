//! Which group the autoscaler chooses by its instance type: the cheapest, or the one with GPUs.

use std::time::Duration;

use headcount::clouds::simulated::GroupPlan;
use serde_json::json;

use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::{ONE_PER_NODE, aws, azure, scale_set, scaling_group};
use crate::emulators::Emulator;

/// Groups whose nodes have the same CPUs, so that only their prices decide; the cheap one is neither first nor last by
/// name.
fn by_price(group: super::MakeGroup, types: [&str; 3]) -> [GroupPlan; 3] {
    let named = [("a-dear", types[1]), ("cheap", types[0]), ("dear", types[2])];
    named.map(|(name, instance_type)| group(name, (0, 10, 0)).instance_types(&[instance_type]))
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_takes_the_cheapest_group_with_the_price_expander() {
    let groups = by_price(scaling_group, ["m5a.large", "m5d.large", "m5dn.large"]);
    takes_the_cheapest("aws_takes_the_cheapest_group_with_the_price_expander", aws(groups)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_takes_the_cheapest_group_with_the_price_expander() {
    let groups = by_price(scale_set, ["Standard_D2s_v5", "Standard_E2s_v5", "Standard_D2ds_v5"]);
    takes_the_cheapest("azure_takes_the_cheapest_group_with_the_price_expander", azure(groups)).await;
}

async fn takes_the_cheapest(name: &'static str, emulator: impl Emulator) {
    // The emulator's price list has other prices than the shipped tables, and would replace them after some seconds.
    let scenario = Scenario::new(name).flags(&["--expander=price"]).headcount("prices: {live: false}\n");
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    for pods in [1, 2, 3] {
        fixture.create_pods(1, ONE_PER_NODE).await;
        fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == pods).await;
    }
    assert_eq!(["cheap", "a-dear", "dear"].map(|group| fixture.capacity(group)), [3, 0, 0]);
    fixture.finish(&[]);
}

/// The label by which the autoscaler knows nodes whose GPUs are still to come, as each cloud's tags have it.
fn gpu_pool(mut plan: GroupPlan, instance_type: &str, label: &str) -> GroupPlan {
    plan.tags.insert(label.to_owned(), "nvidia-tesla".to_owned());
    plan.instance_types(&[instance_type])
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_grows_a_gpu_pool_from_zero_with_a_late_device_plugin() {
    let label = "k8s.io/cluster-autoscaler/node-template/label/k8s.amazonaws.com/accelerator";
    let pool = gpu_pool(scaling_group("gpu", (0, 5, 0)), "g4dn.xlarge", label);
    let emulator = aws([pool, scaling_group("web", (0, 10, 0))]);
    grows_a_gpu_pool("aws_grows_a_gpu_pool_from_zero_with_a_late_device_plugin", emulator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_grows_a_gpu_pool_from_zero_with_a_late_device_plugin() {
    let label = "k8s.io_cluster-autoscaler_node-template_label_kubernetes.azure.com_accelerator";
    let pool = gpu_pool(scale_set("gpu", (0, 5, 0)), "Standard_NC24ads_A100_v4", label);
    let emulator = azure([pool, scale_set("web", (0, 10, 0))]);
    grows_a_gpu_pool("azure_grows_a_gpu_pool_from_zero_with_a_late_device_plugin", emulator).await;
}

/// The GPUs show only after the provision timeout of a node without the label would have made the autoscaler add more.
async fn grows_a_gpu_pool(name: &'static str, emulator: impl Emulator) {
    let scenario = Scenario::new(name).devices_after(Duration::from_secs(15));
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    fixture.create_pod(json!({}), json!({"nvidia.com/gpu": "1"}), json!({})).await;
    fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == 1).await;
    assert_eq!((fixture.capacity("gpu"), fixture.capacity("web")), (1, 0), "one node, although its GPU was late");
    fixture.finish(&[]);
}
