//! Decodes the node pools of AKS clusters.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::api::AgentPool;

/// A node pool as returned.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(in crate::clouds::azure) struct RawAgentPool {
    name: Option<String>,
    properties: Option<RawAgentPoolProperties>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAgentPoolProperties {
    enable_auto_scaling: Option<bool>,
    mode: Option<String>,
    #[serde(rename = "osSKU")]
    os_sku: Option<String>,
    #[serde(rename = "enableFIPS")]
    enable_fips: Option<bool>,
    node_labels: Option<BTreeMap<String, Option<String>>>,
    node_taints: Option<Vec<String>>,
    max_pods: Option<u32>,
    kubelet_disk_type: Option<String>,
}

impl TryFrom<RawAgentPool> for AgentPool {
    type Error = String;

    fn try_from(raw: RawAgentPool) -> Result<Self, String> {
        let properties = raw.properties.unwrap_or_default();
        let labels = properties.node_labels.unwrap_or_default().into_iter();
        Ok(Self {
            name: raw.name.ok_or("it has no name")?,
            is_autoscaled: properties.enable_auto_scaling.unwrap_or_default(),
            mode: properties.mode,
            os_sku: properties.os_sku,
            has_fips: properties.enable_fips.unwrap_or_default(),
            labels: labels.map(|(key, value)| (key, value.unwrap_or_default())).collect(),
            taints: properties.node_taints.unwrap_or_default(),
            max_pods: properties.max_pods,
            is_on_temporary_disk: properties
                .kubelet_disk_type
                .is_some_and(|disk| disk.eq_ignore_ascii_case("Temporary")),
        })
    }
}
