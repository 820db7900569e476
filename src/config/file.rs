//! The structure of headcount.yaml, before validation. Every value that can be invalid keeps its place.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::instance_types::resource_slices::DeviceSlice;

/// A value as written, and its place.
pub(super) type Text = Spanned<String>;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct File {
    pub(super) grpc: Grpc,
    pub(super) admin: Admin,
    pub(super) refresh_interval: Option<Text>,
    pub(super) idle_refresh_interval: Option<Text>,
    pub(super) read_only: bool,
    pub(super) drain_timeout: Option<Text>,
    pub(super) gpu_label: Option<Text>,
    pub(super) prices: Prices,
    pub(super) instance_types: Vec<Text>,
    pub(super) kubernetes: Kubernetes,
    pub(super) learn: Learn,
    pub(super) sources: Option<Spanned<Vec<Spanned<Source>>>>,
    pub(super) groups: Vec<Group>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Grpc {
    pub(super) listen: Option<Text>,
    pub(super) socket_mode: Option<Text>,
    pub(super) tls: Option<Tls>,
    #[serde(rename = "optionsSince135")]
    pub(super) options_since_135: Option<Text>,
    pub(super) zero_or_max_node_scaling: Option<Text>,
    pub(super) resource_slices: Option<Text>,
    pub(super) new_instances: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Tls {
    pub(super) cert: Text,
    pub(super) key: Text,
    pub(super) client_ca: Option<Text>,
    pub(super) allowed_clients: Option<Spanned<Vec<Text>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Admin {
    pub(super) listen: Option<Text>,
    pub(super) statusz: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Prices {
    pub(super) live: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Kubernetes {
    pub(super) kubeconfig: Option<Text>,
    pub(super) allow_exec: Option<Spanned<bool>>,
    pub(super) events: bool,
    pub(super) taints: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Learn {
    pub(super) kubernetes: bool,
    pub(super) kubeconfig: Option<Text>,
    pub(super) namespace: Option<Text>,
    pub(super) config_map: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Source {
    pub(super) name: Text,
    pub(super) aws: Option<Spanned<Aws>>,
    pub(super) azure: Option<Spanned<Azure>>,
    pub(super) simulated: Option<Spanned<Simulated>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Aws {
    pub(super) region: Option<Text>,
    pub(super) endpoint: Option<Text>,
    pub(super) profile: Option<Text>,
    pub(super) assume_role: Option<AssumeRole>,
    pub(super) node_groups: Vec<Text>,
    pub(super) auto_discovery: Vec<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct AssumeRole {
    pub(super) arn: Text,
    pub(super) external_id: Option<Text>,
    pub(super) session_name: Option<Text>,
}

/// The keys after the first four are those of the in-tree cloud-config file, and override it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Azure {
    pub(super) cloud_config: Option<Text>,
    pub(super) endpoint: Option<Text>,
    pub(super) node_groups: Vec<Text>,
    pub(super) auto_discovery: Vec<Text>,
    pub(super) cloud: Option<Text>,
    pub(super) location: Option<Text>,
    pub(super) subscription_id: Option<Text>,
    pub(super) resource_group: Option<Text>,
    pub(super) tenant_id: Option<Text>,
    pub(super) auth_method: Option<Text>,
    pub(super) aad_client_id: Option<Text>,
    pub(super) aad_client_secret: Option<Text>,
    pub(super) aad_client_cert_path: Option<Text>,
    pub(super) aad_client_cert_password: Option<Text>,
    pub(super) aad_federated_token_file: Option<Text>,
    pub(super) use_managed_identity_extension: Option<Spanned<bool>>,
    #[serde(rename = "userAssignedIdentityID")]
    pub(super) user_assigned_identity_id: Option<Text>,
    pub(super) use_federated_workload_identity_extension: Option<Spanned<bool>>,
    pub(super) enable_force_delete: Option<Spanned<bool>>,
    #[serde(rename = "enableDetailedCSEMessage")]
    pub(super) enable_detailed_cse_message: Option<Spanned<bool>>,
    pub(super) enable_label_predictions_on_template: Option<Spanned<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Simulated {
    pub(super) seed: u64,
    pub(super) groups: Option<Spanned<u32>>,
    pub(super) instances: Option<Spanned<u32>>,
    pub(super) error_rate: Option<Spanned<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Group {
    #[serde(rename = "match")]
    pub(super) matches: Text,
    #[serde(default)]
    pub(super) capacity: BTreeMap<String, Text>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, Text>,
    #[serde(default)]
    pub(super) taints: Vec<Text>,
    pub(super) reserved: Option<Reserved>,
    pub(super) memory_overhead: Option<Text>,
    pub(super) foreign: Option<Text>,
    pub(super) capacity_is: Option<Text>,
    pub(super) quota: Option<Text>,
    pub(super) launch: Option<Text>,
    pub(super) zones: Option<Text>,
    #[serde(default)]
    pub(super) resource_slices: Vec<Spanned<DeviceSlice>>,
    #[serde(default)]
    pub(super) options: Options,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Reserved {
    pub(super) profile: Option<Text>,
    pub(super) max_pods: Option<Spanned<u32>>,
    pub(super) kube_reserved: BTreeMap<String, Text>,
    pub(super) system_reserved: BTreeMap<String, Text>,
    pub(super) eviction_hard: BTreeMap<String, Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Options {
    pub(super) scale_down_utilization_threshold: Option<Spanned<f64>>,
    pub(super) scale_down_gpu_utilization_threshold: Option<Spanned<f64>>,
    pub(super) scale_down_unneeded_time: Option<Text>,
    pub(super) scale_down_unready_time: Option<Text>,
    pub(super) max_node_provision_time: Option<Text>,
    pub(super) zero_or_max_node_scaling: Option<bool>,
    pub(super) ignore_daemon_sets_utilization: Option<bool>,
}
