//! Templates that are learned from real nodes, with the rights that deploy/kubernetes-rbac.yaml grants.

use serde_json::Value;

use super::super::fixture::{Fixture, template};
use super::super::scenario::Scenario;
use super::{MakeGroup, ONE_PER_NODE};
use crate::emulators::Emulator;

on_both_clouds!(
    aws_learns_the_template_from_a_node,
    azure_learns_the_template_from_a_node,
    learns,
    |group: MakeGroup| [group("web", (0, 10, 1))]
);

/// The nodes have 200 MiB less than the estimate. Headcount learns once a minute.
async fn learns(name: &'static str, emulator: impl Emulator) {
    let scenario =
        Scenario::new(name).missing_memory(200 * 1024).kubernetes("").headcount("learn: {kubernetes: true}\n");
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == 1).await;
    let node = fixture.cluster.api.items("/api/v1/nodes").await.remove(0);
    fixture
        .until("the template equals the node", async |fixture| {
            resources(&template(&fixture.setup.config(), "web")) == resources(&node)
        })
        .await;
    fixture.finish(&[]);
}

/// The memory of a node or a template, for all and for pods.
fn resources(node: &Value) -> [Option<String>; 2] {
    let memory = |list: &str| node["status"][list]["memory"].as_str().map(str::to_owned);
    [memory("capacity"), memory("allocatable")]
}
