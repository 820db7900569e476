//! The Kubernetes API, as far as learning from real nodes needs it: nodes are listed, and one ConfigMap is kept.
//!
//! Three calls on hyper and rustls, which are in the binary anyway, and not the `kube` crate: that one and k8s-openapi
//! bring 34 further packages (a JSONPath and a PEG parser among them) for what a page of code does here, and this page
//! reads token, CA and certificates anew for every call, so that nothing has to notice when they are rotated.
//!
//! [`NODE_VERBS`], [`CONFIG_MAP_VERBS`] and [`CONFIG_MAP_CREATION_VERBS`] are the manifest `deploy/kubernetes-rbac.yaml`;
//! a test holds them equal, another one what the client really sends.

mod access;
mod client;
mod error;
mod kubeconfig;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;

use async_trait::async_trait;

pub use access::{Access, AccessError};
pub use client::Client;
pub use error::KubernetesError;

/// What Headcount must be allowed to do with nodes, in the whole cluster.
pub const NODE_VERBS: [&str; 1] = ["list"];

/// What Headcount must be allowed to do with its ConfigMap.
pub const CONFIG_MAP_VERBS: [&str; 2] = ["get", "patch"];

/// What Headcount must be allowed to do with ConfigMaps of any name in its namespace: RBAC cannot tell the name of what
/// does not exist yet.
pub const CONFIG_MAP_CREATION_VERBS: [&str; 1] = ["create"];

/// The name of the ConfigMap where the configuration gives none.
pub const CONFIG_MAP_DEFAULT: &str = "headcount-learned";

/// The namespace of the ConfigMap where neither the configuration nor the pod gives one.
pub const NAMESPACE_DEFAULT: &str = "kube-system";

/// The calls that Headcount makes, and no others.
#[async_trait]
pub trait KubernetesApi: Send + Sync {
    /// One page of nodes, from the beginning or from where the page before ended.
    async fn list_nodes(&self, from: Option<&str>) -> Result<NodePage, KubernetesError>;

    /// The ConfigMap; `None` where there is none.
    async fn get_config_map(&self) -> Result<Option<ConfigMap>, KubernetesError>;

    /// Creates the ConfigMap with this text.
    async fn create_config_map(&self, text: &str) -> Result<ConfigMap, KubernetesError>;

    /// Replaces the text in the ConfigMap, provided that it still is of this version, and nothing else in it.
    async fn patch_config_map(&self, version: &str, text: &str) -> Result<ConfigMap, KubernetesError>;
}

/// A page of nodes.
#[derive(Clone, Debug, Default)]
pub struct NodePage {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

/// What matters of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `spec.providerID`; empty where it has none (yet).
    pub provider_id: String,
    /// Its instance type, as the label says; empty without one.
    pub instance_type: String,
    /// Operating system and kernel, as its kubelet reports them: what decides on one machine how much of its memory is
    /// left.
    pub image: String,
    /// When it was created, in RFC 3339, UTC.
    pub created: String,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// `status.capacity`, quantities as written.
    pub capacity: BTreeMap<String, String>,
    /// `status.allocatable`, quantities as written.
    pub allocatable: BTreeMap<String, String>,
}

/// The ConfigMap, as far as it is Headcount's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// Its version (`metadata.resourceVersion`).
    pub version: String,
    /// The text under Headcount's key; `None` where there is none.
    pub text: Option<String>,
}

/// Where the API server is and what is kept where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A kubeconfig file; the pod's service account where it is absent.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// The namespace of the ConfigMap; the pod's own, or `kube-system`, where it is absent.
    pub namespace: Option<String>,
    /// The name of the ConfigMap.
    pub config_map: String,
}
