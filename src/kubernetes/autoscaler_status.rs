//! The status that the Cluster Autoscaler writes into a ConfigMap after each loop. `headcount compare` reads it once.

mod text;

use k8s_openapi::api::core::v1::ConfigMap as ApiConfigMap;
use kube::Api;
use serde::Deserialize;

use super::client::Client;
use super::{KubernetesError, Operation};

/// What Headcount must be allowed to do with the ConfigMap that has the status.
pub const AUTOSCALER_STATUS_VERBS: [&str; 1] = ["get"];

/// The name of that ConfigMap, unless the Cluster Autoscaler's --status-config-map-name says otherwise.
pub const AUTOSCALER_STATUS_DEFAULT: &str = "cluster-autoscaler-status";

/// The key of the ConfigMap that has the status.
const KEY: &str = "status";

/// What the Cluster Autoscaler last wrote, as far as it is needed. Its keys are those of the YAML of release 1.30 and
/// later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerStatus {
    /// When it was written.
    pub time: String,
    /// `Initializing` or `Running`.
    pub autoscaler_status: String,
    /// Its node groups.
    pub node_groups: Vec<AutoscalerGroup>,
}

/// A node group, as the Cluster Autoscaler sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerGroup {
    /// Its ID.
    pub name: String,
    /// Its nodes.
    pub health: GroupHealth,
    /// Whether it may grow.
    pub scale_up: ScaleUp,
}

/// The nodes of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroupHealth {
    /// Healthy or Unhealthy.
    pub status: String,
    /// The target size that Headcount returned.
    pub cloud_provider_target: i64,
    /// The nodes.
    pub node_counts: NodeCounts,
}

/// The nodes of a group, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeCounts {
    /// The nodes that joined the cluster.
    pub registered: Registered,
    /// Instances that never became nodes, and are given up.
    pub long_unregistered: i64,
    /// Instances that are not nodes yet.
    pub unregistered: i64,
}

/// The nodes that joined the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Registered {
    /// All of them.
    pub total: i64,
    /// Those that are ready.
    pub ready: i64,
}

/// Whether a group may grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleUp {
    /// `NoActivity`, `InProgress`, `Backoff` and so on.
    pub status: String,
    /// Why it is not chosen for now.
    pub backoff_info: BackoffInfo,
    /// When the status last changed.
    pub last_transition_time: Option<String>,
}

/// Why a group is not chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackoffInfo {
    /// The code of the last failure.
    pub error_code: String,
    /// Its message.
    pub error_message: String,
}

impl AutoscalerStatus {
    /// Reads the text of the ConfigMap: YAML from release 1.30 on, text for people before.
    ///
    /// # Errors
    ///
    /// With the reason, if it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(status) = text::parse(text) {
            return Ok(status);
        }
        match serde_saphyr::from_str::<Self>(text) {
            Ok(status) if !status.autoscaler_status.is_empty() => Ok(status),
            Ok(_) => Err("the text has no autoscalerStatus, so the Cluster Autoscaler did not write it".to_owned()),
            Err(error) => Err(format!("the text is not what the Cluster Autoscaler writes: {error}")),
        }
    }
}

impl Client {
    /// The text of the Cluster Autoscaler's status; `None` if there is no such ConfigMap.
    ///
    /// # Errors
    ///
    /// If the API server cannot be reached or does not permit it.
    pub async fn autoscaler_status(&self, namespace: &str, name: &str) -> Result<Option<String>, KubernetesError> {
        let config_maps: Api<ApiConfigMap> = Api::namespaced(self.kube(), namespace);
        match config_maps.get_opt(name).await {
            Ok(found) => Ok(found.and_then(|found| found.data?.remove(KEY))),
            Err(error) => Err(KubernetesError::of_call(Operation::GetAutoscalerStatus, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_1_30_and_later_is_read() {
        let status = AutoscalerStatus::parse(
            "time: 2026-11-22 02:00:00 +0000 UTC
autoscalerStatus: Running
clusterWide: {health: {status: Healthy}}
nodeGroups:
- name: web
  health:
    status: Healthy
    nodeCounts: {registered: {total: 3, ready: 2, notStarted: 1}, longUnregistered: 0, unregistered: 1}
    cloudProviderTarget: 4
    minSize: 1
    maxSize: 10
  scaleUp:
    status: Backoff
    backoffInfo: {errorCode: InsufficientInstanceCapacity, errorMessage: no capacity}
    lastTransitionTime: '2026-11-22T01:59:00Z'
",
        );
        let group = &status.expect("a status").node_groups[0];
        assert_eq!((group.health.cloud_provider_target, group.health.node_counts.registered.total), (4, 3));
        assert_eq!(group.scale_up.backoff_info.error_code, "InsufficientInstanceCapacity");
        assert!(AutoscalerStatus::parse("mine: true").is_err_and(|reason| reason.contains("no autoscalerStatus")));
    }
}
