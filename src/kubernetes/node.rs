//! What Headcount keeps of a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node as ApiNode;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The label of a node that names its instance type, and its name before Kubernetes 1.17.
const TYPE_LABELS: [&str; 2] = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];

/// The taint that CA puts on a node before it deletes it.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// What Headcount keeps of a node: about a KiB of the 10 to 40 that the API server sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `spec.providerID`; empty where it has none (yet).
    pub provider_id: String,
    /// Its instance type, as the label says; empty without one.
    pub instance_type: String,
    /// Operating system and kernel, as its kubelet reports them. They decide how much memory is left on an instance
    /// type.
    pub image: String,
    /// When it was created, in RFC 3339, UTC.
    pub created: String,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// Whether CA has tainted it for deletion.
    pub is_to_be_deleted: bool,
    /// `status.capacity`, quantities as written.
    pub capacity: BTreeMap<String, String>,
    /// `status.allocatable`, quantities as written.
    pub allocatable: BTreeMap<String, String>,
}

impl From<ApiNode> for Node {
    fn from(node: ApiNode) -> Self {
        let (metadata, status) = (node.metadata, node.status.unwrap_or_default());
        let mut labels = metadata.labels.unwrap_or_default();
        let system = status.node_info.unwrap_or_default();
        let is_ready = |kind: &str, status: &str| kind == "Ready" && status == "True";
        let spec = node.spec.unwrap_or_default();
        Self {
            name: metadata.name.unwrap_or_default(),
            is_to_be_deleted: spec.taints.iter().flatten().any(|taint| taint.key == TO_BE_DELETED),
            provider_id: spec.provider_id.unwrap_or_default(),
            instance_type: TYPE_LABELS.iter().find_map(|label| labels.remove(*label)).unwrap_or_default(),
            image: format!("{}, kernel {}", system.os_image, system.kernel_version),
            created: metadata.creation_timestamp.map(|created| created.0.to_string()).unwrap_or_default(),
            ready: status.conditions.iter().flatten().any(|condition| is_ready(&condition.type_, &condition.status)),
            capacity: quantities(status.capacity),
            allocatable: quantities(status.allocatable),
        }
    }
}

fn quantities(resources: Option<BTreeMap<String, Quantity>>) -> BTreeMap<String, String> {
    resources.into_iter().flatten().map(|(resource, Quantity(text))| (resource, text)).collect()
}
