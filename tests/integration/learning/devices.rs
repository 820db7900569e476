//! The devices that drivers publish as ResourceSlices for the nodes of a group.

use serde_json::{Value, json};

use super::HIGH;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::learning::fixture::Fixture;

const GPU: &str = "resourceSlices.gpu.example.com.gpu-0";

fn spec(node: &str, uuid: &str) -> Value {
    let attributes = json!({"model": {"string": "A100"}, "uuid": {"string": uuid}, "bus": {"string": uuid}});
    let devices = json!([{"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}]);
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    json!({"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices})
}

#[tokio::test]
async fn the_devices_of_a_groups_nodes_are_in_its_template_after_the_nodes_are_gone() {
    let mut fixture = Fixture::new(ApiServer::plain()).await;
    let nodes = [mk_node("one", &fixture.node("web", 0), HIGH), mk_node("two", &fixture.node("web", 1), HIGH)];
    fixture.api.set_nodes(nodes);
    fixture.api.set_resource_slices(Some(vec![("one-gpu", spec("one", "x")), ("two-gpu", spec("two", "y"))]));
    let shown = fixture.value_of("web", GPU).await;
    assert_eq!(shown.0, "model=A100 memory=80Gi", "what differs between the nodes is not promised");
    assert!(shown.1.starts_with("learned from node two, "), "{}", shown.1);
    assert!(!fixture.has("other", GPU).await, "another group");
    fixture.kept_text("gpu.example.com").await;
    fixture.api.set_nodes([]);
    fixture.api.set_resource_slices(None);
    fixture.restart().await;
    assert_eq!(fixture.value_of("web", GPU).await, shown);
}

#[tokio::test]
async fn a_driver_that_is_still_starting_or_says_what_is_not_understood_is_not_learned_from() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    let mut starting = spec("one", "x");
    starting["pool"]["resourceSliceCount"] = json!(2);
    let mut odd = spec("one", "x");
    odd["driver"] = json!("odd.example.com");
    odd["devices"][0]["bindsToNode"] = json!(true);
    let mut good = spec("one", "x");
    good["driver"] = json!("good.example.com");
    fixture.api.set_resource_slices(Some(vec![("starting", starting), ("odd", odd), ("good", good)]));
    fixture.value_of("web", "resourceSlices.good.example.com.gpu-0").await;
    assert!(!fixture.has("web", GPU).await && !fixture.has("web", "resourceSlices.odd.example.com.gpu-0").await);
}
