//! Decodes VM sizes.

use serde::Deserialize;
use serde_json::Value;

use super::super::api::Size;

/// A SKU as returned.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::clouds::azure) struct RawSize {
    resource_type: Option<String>,
    name: Option<String>,
    family: Option<String>,
    capabilities: Option<Vec<RawCapability>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCapability {
    name: Option<String>,
    value: Option<String>,
}

/// Whether a SKU is a VM size. Azure lists disks, snapshots and other resources too.
pub(in crate::clouds::azure) fn is_size(item: &Value) -> bool {
    let kind = item.get("resourceType").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("virtualMachines"))
}

impl TryFrom<RawSize> for Size {
    type Error = String;

    fn try_from(raw: RawSize) -> Result<Self, String> {
        let name = raw.name.filter(|name| !name.is_empty()).ok_or("it has no name")?;
        let capabilities = raw.capabilities.into_iter().flatten();
        let capabilities = capabilities.filter_map(|capability| Some((capability.name?, capability.value?)));
        let family = raw.family.filter(|family| !family.is_empty());
        Ok(Self { name, family, capabilities: capabilities.collect() })
    }
}
