//! Devices that pods claim (Dynamic Resource Allocation): with an autoscaler whose client reads the ResourceSlices of
//! a template, and with its own provider for AWS, which has none. `tests/autoscaler/run --devices` builds both and
//! runs this.

use serde_json::{Value, json};

use super::fixture::Fixture;
use super::scenario::Scenario;
use super::scenarios::{ONE_PER_NODE, aws, azure, scale_set, scaling_group};
use crate::emulators::Emulator;

const DRIVER: &str = "gpu.example.com";
const SEND: &str = "{listen: \"127.0.0.1:0\", resourceSlices: send}";

/// What the driver publishes for a node, without the node.
pub(super) fn published() -> Value {
    let device = |name: &str| {
        let attributes = json!({"model": {"string": "A100"}, "uuid": {"string": "GPU-1"}});
        json!({"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}})
    };
    json!({"driver": DRIVER, "devices": [device("gpu-0"), device("gpu-1")]})
}

/// The same in headcount.yaml.
fn stated() -> String {
    let published = published();
    let slice = json!({"driver": DRIVER, "devices": published["devices"]});
    format!("groups:\n  - {}\n", json!({"match": "gpu", "resourceSlices": [slice]}))
}

/// Creates a pod that claims a GPU with 80 GiB.
pub(super) async fn create_claiming_pod(fixture: &Fixture<impl Emulator>, name: &str) {
    let expression = format!(
        "device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == 'A100' && \
         device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
    );
    let version = "resource.k8s.io/v1";
    let selectors = json!([{"cel": {"expression": expression}}]);
    let class = json!({
        "apiVersion": version, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors},
    });
    let requests = json!([{"name": "gpu", "exactly": {"deviceClassName": name}}]);
    let claim = json!({
        "apiVersion": version, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
    });
    let resources = json!({"requests": {"cpu": "100m"}, "claims": [{"name": "gpu"}]});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    });
    for object in [class, claim, pod] {
        fixture.cluster.api.create(&object).await;
    }
}

/// The device that a claim has.
async fn allocated(fixture: &Fixture<impl Emulator>, claim: &str) -> Option<String> {
    let path = format!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{claim}");
    let claim = fixture.cluster.api.ok("GET", &path, None).await;
    claim["status"]["allocation"]["devices"]["results"][0]["device"].as_str().map(str::to_owned)
}

/// A pod that claims a device starts on a node from zero; a second one starts on the same node, and the group does
/// not grow again.
async fn grows_for_a_claim(name: &'static str, emulator: impl Emulator) {
    let scenario = Scenario::new(name).published("gpu", published()).grpc(SEND).headcount(&stated());
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    create_claiming_pod(&fixture, "first").await;
    fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == 1).await;
    assert!(allocated(&fixture, "first").await.is_some_and(|device| device.starts_with("gpu-")));
    create_claiming_pod(&fixture, "second").await;
    fixture.until("the second pod has a node", async |fixture| fixture.scheduled().await == 2).await;
    assert_eq!((fixture.capacity("gpu"), fixture.capacity("web")), (1, 0), "both devices are on one node");
    fixture.finish(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_grows_from_zero_for_a_claim() {
    let emulator = aws([scaling_group("gpu", (0, 5, 0)), scaling_group("web", (0, 10, 0))]);
    grows_for_a_claim("aws_grows_from_zero_for_a_claim", emulator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_grows_from_zero_for_a_claim() {
    let emulator = azure([scale_set("gpu", (0, 5, 0)), scale_set("web", (0, 10, 0))]);
    grows_for_a_claim("azure_grows_from_zero_for_a_claim", emulator).await;
}

/// Nobody states the devices: Headcount learns them from a node, which is gone when a restarted autoscaler needs them.
#[tokio::test(flavor = "multi_thread")]
async fn aws_grows_from_zero_with_learned_devices() {
    let name = "aws_grows_from_zero_with_learned_devices";
    let emulator = aws([scaling_group("gpu", (0, 5, 1)), scaling_group("web", (0, 10, 0))]);
    let scenario = Scenario::new(name)
        .flags(&["--unremovable-node-recheck-timeout=5s"])
        .published("gpu", published())
        .grpc(SEND)
        .kubernetes("")
        .headcount("learn: {kubernetes: true}\n");
    let Some(mut fixture) = Fixture::start(scenario, emulator).await else { return };
    // It keeps the node until Headcount has looked at it, once a minute.
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("the devices are saved", async |fixture| has_learned(fixture).await).await;
    fixture.delete_pods().await;
    fixture
        .until("the group is empty", async |fixture| fixture.capacity("gpu") == 0 && fixture.nodes().await.is_empty())
        .await;
    fixture.autoscaler.restart();
    fixture.restart_headcount().await;
    create_claiming_pod(&fixture, "first").await;
    fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == 1).await;
    assert_eq!((fixture.capacity("gpu"), fixture.capacity("web")), (1, 0));
    fixture.finish(&["externalgrpc", "rpc error"]);
}

async fn has_learned(fixture: &Fixture<impl Emulator>) -> bool {
    let path = "/api/v1/namespaces/kube-system/configmaps/headcount-learned";
    let found = fixture.cluster.api.send("GET", path, None).await;
    found.is_some_and(|(_, map)| map["data"]["learned.json"].as_str().is_some_and(|text| text.contains(DRIVER)))
}
