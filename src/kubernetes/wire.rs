//! The JSON of the API server, as far as it is read. What is not named here is passed over.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ConfigMap, Node, NodePage};

/// The one key of the ConfigMap that is Headcount's.
const KEY: &str = "learned.json";
/// The label of a node that names its instance type, and its name before Kubernetes 1.17.
const TYPE_LABELS: [&str; 2] = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    labels: BTreeMap<String, String>,
    creation_timestamp: Option<String>,
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawNodes {
    metadata: Metadata,
    items: Option<Vec<RawNode>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    conditions: Vec<Condition>,
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeInfo {
    os_image: String,
    kernel_version: String,
}

impl From<RawNodes> for NodePage {
    fn from(raw: RawNodes) -> Self {
        let next = raw.metadata.next.filter(|next| !next.is_empty());
        Self { nodes: raw.items.into_iter().flatten().map(Node::from).collect(), next }
    }
}

impl From<RawNode> for Node {
    fn from(raw: RawNode) -> Self {
        let RawNode { metadata, spec, status } = raw;
        let NodeInfo { os_image, kernel_version } = status.node_info;
        Self {
            provider_id: spec.provider_id,
            instance_type: TYPE_LABELS
                .iter()
                .find_map(|label| metadata.labels.get(*label))
                .cloned()
                .unwrap_or_default(),
            image: format!("{os_image}, kernel {kernel_version}"),
            created: metadata.creation_timestamp.unwrap_or_default(),
            ready: status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True"),
            capacity: status.capacity,
            allocatable: status.allocatable,
            name: metadata.name,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawConfigMap {
    metadata: Metadata,
    data: BTreeMap<String, String>,
}

impl From<RawConfigMap> for ConfigMap {
    fn from(mut raw: RawConfigMap) -> Self {
        Self { version: raw.metadata.resource_version, text: raw.data.remove(KEY) }
    }
}

/// A ConfigMap to create.
pub(super) fn new_config_map(namespace: &str, name: &str, text: &str) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "headcount"});
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": {KEY: text},
    })
}

/// A merge patch of it. What else is in it stays, and the version makes the API server refuse it where somebody else was
/// quicker.
pub(super) fn patch(version: &str, text: &str) -> Value {
    json!({"metadata": {"resourceVersion": version}, "data": {KEY: text}})
}

/// What the API server says of a refusal.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) message: String,
}
