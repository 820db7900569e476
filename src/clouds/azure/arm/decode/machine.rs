//! Decodes VMs and their instance views.

use std::time::SystemTime;

use azure_core_legacy::date::parse_rfc3339;
use serde::Deserialize;
use serde_json::Value;

use super::super::api::{InstanceViewStatus, VirtualMachine};
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};

/// A VM as returned, of a uniform or flexible scale set.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::clouds::azure) struct RawMachine {
    id: Option<String>,
    properties: Option<RawMachineProperties>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMachineProperties {
    vm_id: Option<String>,
    provisioning_state: Option<String>,
    time_created: Option<String>,
    instance_view: Option<RawView>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawView {
    statuses: Option<Vec<RawStatus>>,
    extensions: Option<Vec<RawExtension>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    code: Option<String>,
    level: Option<String>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawExtension {
    name: Option<String>,
    statuses: Option<Vec<RawStatus>>,
}

/// Whether an item of a list is a VM without an ID. It can occur while the VM is being deleted.
pub(in crate::clouds::azure) fn lacks_id(item: &Value) -> bool {
    item.is_object() && item.get("id").is_none_or(|id| id.is_null() || id.as_str().is_some_and(str::is_empty))
}

/// Whether an item of a list of a resource group's VMs is in this scale set; `None` if it names no scale set.
pub(in crate::clouds::azure) fn is_in_scale_set(item: &Value, scale_set_id: &str) -> Option<bool> {
    let named = item.pointer("/properties/virtualMachineScaleSet/id").and_then(Value::as_str)?;
    Some(named.eq_ignore_ascii_case(scale_set_id))
}

impl RawExtension {
    fn failure(self) -> Option<InstanceViewStatus> {
        let failed: Vec<_> = self.statuses.into_iter().flatten().filter(RawStatus::is_error).collect();
        let messages: Vec<_> = failed.iter().filter_map(|status| status.message.as_deref()).collect();
        let message = Some(shorten(&messages.join("; "), MESSAGE_CHARS_MAX)).filter(|message| !message.is_empty());
        (!failed.is_empty()).then(|| InstanceViewStatus { code: self.name.unwrap_or_default(), message })
    }
}

impl RawStatus {
    fn is_error(&self) -> bool {
        self.level.as_deref().is_some_and(|level| level.eq_ignore_ascii_case("Error"))
    }
}

impl TryFrom<RawMachine> for VirtualMachine {
    type Error = String;

    fn try_from(raw: RawMachine) -> Result<Self, String> {
        let id = raw.id.filter(|id| !id.is_empty()).ok_or("it has no ID")?;
        // Uniform scale sets delete by instance ID, flexible ones by name. Both are the last segment of the ARM ID, which is
        // what the autoscaler names: a field that said something else would name another VM (law 1).
        let delete_by = id.rsplit('/').next().unwrap_or_default().to_owned();
        let properties = raw.properties.unwrap_or_default();
        let (statuses, extensions) = match properties.instance_view {
            None => (None, None),
            Some(view) => (Some(view.statuses.unwrap_or_default()), view.extensions),
        };
        let status = |raw: RawStatus| InstanceViewStatus { code: raw.code.unwrap_or_default(), message: raw.message };
        Ok(Self {
            id,
            delete_by,
            vm_id: properties.vm_id.filter(|id| !id.is_empty()),
            provisioning_state: properties.provisioning_state,
            created: properties.time_created.and_then(|text| parse_rfc3339(&text).ok()).map(SystemTime::from),
            statuses: statuses.map(|statuses| statuses.into_iter().map(status).collect()),
            failed_extensions: extensions.into_iter().flatten().filter_map(RawExtension::failure).collect(),
        })
    }
}
