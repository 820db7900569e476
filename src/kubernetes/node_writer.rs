//! Nodes of simulated instances, for the demo in a cluster. Nothing else writes nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node as ApiNode;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use super::client::Client;
use super::{KubernetesError, Operation};

/// What the demo must be allowed to do with nodes.
pub const DEMO_NODE_VERBS: [&str; 3] = ["create", "delete", "list"];

/// What the demo must be allowed to do with the status of nodes.
pub const DEMO_NODE_STATUS_VERBS: [&str; 1] = ["patch"];

/// The label of the demo's nodes. Nodes without it are not touched.
const OWNER: (&str, &str) = ("app.kubernetes.io/managed-by", "headcount-demo");

/// The most nodes of the demo, whose groups have 59 at most.
const DEMO_NODES_MAX: u32 = 100;

/// Creates and deletes the demo's nodes.
#[derive(Clone)]
pub struct NodeWriter(Api<ApiNode>);

impl NodeWriter {
    /// Writes to this cluster.
    pub fn new(client: &Client) -> Self {
        Self(Api::all(client.kube()))
    }

    /// The demo's nodes: their names, and the provider ID of each.
    ///
    /// # Errors
    ///
    /// As for the other calls: if the API server cannot be reached or does not permit it.
    pub async fn list(&self) -> Result<BTreeMap<String, String>, KubernetesError> {
        let (key, value) = OWNER;
        let parameters = ListParams::default().labels(&format!("{key}={value}")).limit(DEMO_NODES_MAX);
        let listed = self.0.list(&parameters).await;
        let listed = listed.map_err(|error| KubernetesError::of_call(Operation::ListDemoNodes, error))?;
        let named = |node: ApiNode| {
            Some((node.metadata.name?, node.spec.and_then(|spec| spec.provider_id).unwrap_or_default()))
        };
        Ok(listed.items.into_iter().filter_map(named).collect())
    }

    /// Creates a node of the demo, which is ready. A node of that name that exists is left as it is.
    pub async fn create(&self, mut node: Json) -> Result<(), KubernetesError> {
        let (key, value) = OWNER;
        node["metadata"]["labels"][key] = json!(value);
        node["status"]["conditions"] = json!([ready()]);
        let unexpected = |source: serde_json::Error| KubernetesError::Unexpected {
            operation: Operation::CreateDemoNode,
            source: source.into(),
        };
        let node: ApiNode = serde_json::from_value(node).map_err(unexpected)?;
        match self.0.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop).map_err(|error| KubernetesError::of_call(Operation::CreateDemoNode, error)),
        }
    }

    /// Says that a node is still ready, as its kubelet would. Without that, the cluster takes it for lost after 40 s.
    pub async fn keep_ready(&self, name: &str) -> Result<(), KubernetesError> {
        let patch = json!({"status": {"conditions": [ready()]}});
        let patched = self.0.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        gone_or(patched.map(drop), Operation::PatchDemoNode)
    }

    /// Deletes a node of the demo, unless it is gone.
    pub async fn delete(&self, name: &str) -> Result<(), KubernetesError> {
        let deleted = self.0.delete(name, &DeleteParams::default()).await;
        gone_or(deleted.map(drop), Operation::DeleteDemoNode)
    }
}

/// The outcome of a call for a node, which may be gone.
fn gone_or(outcome: Result<(), kube::Error>, operation: Operation) -> Result<(), KubernetesError> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        outcome => outcome.map_err(|error| KubernetesError::of_call(operation, error)),
    }
}

/// The condition of a node that is ready now.
fn ready() -> Json {
    json!({
        "type": "Ready",
        "status": "True",
        "reason": "HeadcountDemo",
        "message": "the simulated instance runs",
        "lastHeartbeatTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}
