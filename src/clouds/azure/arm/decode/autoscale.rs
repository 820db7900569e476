//! Decodes the autoscale settings of Azure Monitor.

use serde::Deserialize;

use super::super::api::AutoscaleSetting;

/// An autoscale setting as returned.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(in crate::clouds::azure) struct RawAutoscaleSetting {
    name: Option<String>,
    properties: Option<RawAutoscaleProperties>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAutoscaleProperties {
    enabled: Option<bool>,
    target_resource_uri: Option<String>,
}

impl TryFrom<RawAutoscaleSetting> for AutoscaleSetting {
    type Error = String;

    fn try_from(raw: RawAutoscaleSetting) -> Result<Self, String> {
        let properties = raw.properties.unwrap_or_default();
        let target = properties.target_resource_uri.ok_or("it has no target")?;
        // The default of Azure Monitor.
        Ok(Self { name: raw.name.unwrap_or_default(), target, enabled: properties.enabled.unwrap_or(true) })
    }
}
