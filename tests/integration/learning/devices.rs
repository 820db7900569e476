//! The devices that drivers publish as ResourceSlices for the nodes of a group.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::{Value, json};

use super::HIGH;
use crate::emulators::aws::Aws;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::emulators::setup::Setup;
use crate::learning::fixture::Fixture;
use crate::peers::headcount::run;

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

fn aws(plans: impl IntoIterator<Item = GroupPlan>) -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, plans)))
}

fn group(name: &str) -> GroupPlan {
    GroupPlan::aws(name).sized(0, 10, 0).instance_types(&["m5.large"])
}

const DEVICES: &str = "groups: [{match: gpu, resourceSlices: [{driver: gpu.example.com, devices: [{name: gpu-0}]}]}]\n";

#[tokio::test]
async fn devices_are_sent_only_if_the_configuration_says_so() {
    for (grpc, slices) in [("", 0), (", resourceSlices: suppress", 0), (", resourceSlices: send", 1)] {
        let setup = Setup::with(aws([group("gpu"), group("web")]), |options| {
            options.more = DEVICES.to_owned();
            options.grpc = Some(format!("{{listen: \"127.0.0.1:0\"{grpc}}}"));
        });
        let mut setup = setup.await;
        for (name, slices) in [("gpu", slices), ("web", 0)] {
            setup.client.until("it is built", async |client| client.template(name).await.is_ok()).await;
            let template = setup.client.template(name).await.expect("built");
            assert_eq!(template.resource_slice_bytes.len(), slices, "{name}{grpc}");
        }
    }
}

#[tokio::test]
async fn check_finds_nodes_that_their_gpu_label_keeps_unready() {
    let labelled = |name: &str| {
        let mut plan = group(name);
        let label = "k8s.io/cluster-autoscaler/node-template/label/k8s.amazonaws.com/accelerator";
        plan.tags.insert(label.to_owned(), "nvidia".to_owned());
        plan
    };
    let counted = labelled("counted").instance_types(&["g4dn.xlarge"]);
    let groups = [labelled("gpu"), labelled("unknown"), counted, group("web")];
    let setup = Setup::with(aws(groups), |options| options.more = DEVICES.to_owned()).await;
    let output = run(&["check", "-o", "short", "--config", &setup.config()]);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = found.lines().filter(|line| line.contains("HC411")).collect();
    assert_eq!(lines.len(), 2, "{found}");
    assert!(lines.iter().any(|line| line.contains("error") && line.contains("gpu")), "{found}");
    assert!(lines.iter().any(|line| line.contains("warning") && line.contains("unknown")), "{found}");
}
