//! Decodes the node pools of AKS clusters.

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
}

impl TryFrom<RawAgentPool> for AgentPool {
    type Error = String;

    fn try_from(raw: RawAgentPool) -> Result<Self, String> {
        let properties = raw.properties.unwrap_or_default();
        let is_autoscaled = properties.enable_auto_scaling.unwrap_or_default();
        Ok(Self { name: raw.name.ok_or("it has no name")?, is_autoscaled })
    }
}
