//! The Kubernetes API: nodes are watched, and one ConfigMap keeps what was learned from them.
//!
//! The fleet sees [`KubernetesApi`] only. [`Client`] implements it on `kube::Client` and `kube`'s watcher, which run
//! on a transport of Headcount's own (`transport.rs`): that one reads address and credentials again for each request
//! and sets a time limit on everything, exec plugins included.
//!
//! The manifest `deploy/kubernetes-rbac.yaml` grants [`NODE_VERBS`], [`RESOURCE_SLICE_VERBS`], [`CONFIG_MAP_VERBS`],
//! [`CONFIG_MAP_CREATION_VERBS`], [`EVENT_VERBS`], [`AUTOSCALER_STATUS_VERBS`] and [`DEPLOYMENT_VERBS`]. One test
//! keeps the two equal, another compares them with what the client sends. `deploy/demo/rbac.yaml` grants what `serve
//! --demo --register-nodes` does with nodes ([`NodeWriter`]).

mod autoscaler_deployment;
mod autoscaler_flags;
mod autoscaler_status;
mod client;
mod cluster_config;
mod endpoint;
mod error;
mod events;
mod exec;
mod kubeconfig;
mod names;
mod node;
mod node_watch;
mod node_writer;
mod object_watch;
mod operation;
pub mod parsers;
mod resource_slice_watch;
#[cfg(test)]
mod tests;
mod transport;
mod watch_failure;
mod watch_lines;

use async_trait::async_trait;

pub use autoscaler_deployment::{AutoscalerContainer, DEPLOYMENT_VERBS};
pub use autoscaler_flags::{Flag, parse_flags};
pub use autoscaler_status::{
    AUTOSCALER_STATUS_DEFAULT, AUTOSCALER_STATUS_VERBS, AutoscalerGroup, AutoscalerStatus, BackoffInfo, GroupHealth,
    NodeCounts, Registered, ScaleUp,
};
pub use client::Client;
pub use cluster_config::{ClusterConfig, ClusterConfigError};
pub use error::KubernetesError;
pub use events::{EVENT_VERBS, EventWriter, OwnPod};
pub use exec::ExecError;
pub use node::Node;
pub use node_watch::{NODES_MAX, NodeWatch};
pub use node_writer::{DEMO_NODE_STATUS_VERBS, DEMO_NODE_VERBS, NodeWriter};
pub use operation::Operation;
pub use resource_slice_watch::{ResourceSlice, ResourceSliceWatch, SlicesByNode};
pub use transport::TransportError;

use crate::tasks::Tasks;

/// What Headcount must be allowed to do with nodes, in the whole cluster.
pub const NODE_VERBS: [&str; 2] = ["list", "watch"];

/// What Headcount must be allowed to do with ResourceSlices, in the whole cluster.
pub const RESOURCE_SLICE_VERBS: [&str; 2] = ["list", "watch"];

/// What Headcount must be allowed to do with its ConfigMap.
pub const CONFIG_MAP_VERBS: [&str; 2] = ["get", "patch"];

/// What Headcount must be allowed to do with ConfigMaps of any name in its namespace: RBAC cannot restrict creation
/// to a name.
pub const CONFIG_MAP_CREATION_VERBS: [&str; 1] = ["create"];

/// The name of the ConfigMap where the configuration gives none.
pub const CONFIG_MAP_DEFAULT: &str = "headcount-learned";

/// The namespace of the ConfigMap where neither the configuration nor the pod gives one.
pub const NAMESPACE_DEFAULT: &str = "kube-system";

/// The calls that Headcount makes, and no others. Each has a time limit.
#[async_trait]
pub trait KubernetesApi: Send + Sync {
    /// Watches all nodes until the value returned is dropped. Failures are retried, with a growing pause. The task
    /// that watches is supervised with the others.
    fn watch_nodes(&self, tasks: &Tasks) -> NodeWatch;

    /// Watches the ResourceSlices of all nodes until the value returned is dropped, as nodes are watched.
    fn watch_resource_slices(&self, tasks: &Tasks) -> ResourceSliceWatch;

    /// All nodes, as they are now.
    async fn list_nodes(&self) -> Result<Vec<Node>, KubernetesError>;

    /// Whether nodes can be listed and watched.
    async fn check_nodes(&self) -> Result<(), KubernetesError>;

    /// The ConfigMap; `None` where there is none.
    async fn get_config_map(&self) -> Result<Option<ConfigMap>, KubernetesError>;

    /// Creates the ConfigMap with this text.
    async fn create_config_map(&self, text: &str) -> Result<ConfigMap, KubernetesError>;

    /// Replaces the text in the ConfigMap if it still has this version, and nothing else in it.
    async fn patch_config_map(&self, version: &str, text: &str) -> Result<ConfigMap, KubernetesError>;
}

/// The part of the ConfigMap that is Headcount's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// Its version (`metadata.resourceVersion`).
    pub version: String,
    /// The text under Headcount's key; `None` where there is none.
    pub text: Option<String>,
}

/// Where the API server is, and what is kept where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A kubeconfig file; the pod's service account where it is absent.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// Whether Headcount may run the exec plugin that the kubeconfig names.
    pub allow_exec: bool,
    /// The namespace of the ConfigMap; the pod's own, or `kube-system`, where it is absent.
    pub namespace: Option<String>,
    /// The name of the ConfigMap.
    pub config_map: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kubeconfig: None, allow_exec: false, namespace: None, config_map: CONFIG_MAP_DEFAULT.to_owned() }
    }
}
