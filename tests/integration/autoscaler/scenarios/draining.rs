//! Nodes with pods are drained before they are deleted.

use serde_json::json;

use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::MakeGroup;
use crate::emulators::Emulator;

on_both_clouds!(
    aws_drains_nodes_before_it_deletes_them,
    azure_drains_nodes_before_it_deletes_them,
    drains_nodes,
    |group: MakeGroup| [group("web", (0, 10, 3))]
);

/// As a controller would, the scenario replaces each pod that is evicted.
async fn drains_nodes(name: &'static str, emulator: impl Emulator) {
    let Some(fixture) = Fixture::start(Scenario::new(name), emulator).await else { return };
    fixture.until("three nodes registered", async |fixture| fixture.nodes().await.len() == 3).await;
    replace_evicted(&fixture).await;
    fixture
        .until("all pods share one node", async |fixture| {
            replace_evicted(fixture).await;
            let settled = fixture.capacity("web") == 1 && fixture.nodes().await.len() == 1;
            settled && fixture.scheduled().await == 3
        })
        .await;
    fixture.finish(&[]);
}

/// Creates pods until there are three. They may be moved, although no controller owns them.
async fn replace_evicted(fixture: &Fixture<impl Emulator>) {
    let pods = fixture.cluster.api.items("/api/v1/namespaces/default/pods").await.len();
    for _ in pods..3 {
        let movable = json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"});
        fixture.create_pod(movable, json!({"cpu": "300m", "memory": "64Mi"}), json!({})).await;
    }
}
