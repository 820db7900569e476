//! From what Resource Manager answers to what matters here, item by item: one item that cannot be understood costs
//! nobody else anything.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::api::{AutoscaleSetting, BadItem, Orchestration, ScaleSet, Size, Status, VirtualMachine};
use super::errors::{Subject, shorten};
use super::transport::Answer;
use crate::cloud::CloudError;

/// The items of all pages, undecoded.
pub(super) fn items(subject: Subject<'_>, pages: Vec<Answer>) -> Result<Vec<Value>, CloudError> {
    #[derive(Deserialize)]
    struct Page {
        value: Vec<Value>,
    }
    let mut items = Vec::new();
    for page in pages {
        let page: Page =
            serde_json::from_slice(&page.body).map_err(|error| subject.unintelligible(&error.to_string()))?;
        items.extend(page.value);
    }
    Ok(items)
}

/// Where the next page is; `None` on the last one.
pub(super) fn next_link(subject: Subject<'_>, page: &Answer) -> Result<Option<String>, CloudError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        next_link: Option<String>,
    }
    let page: Page = serde_json::from_slice(&page.body).map_err(|error| subject.unintelligible(&error.to_string()))?;
    Ok(page.next_link.filter(|link| !link.is_empty()))
}

/// One item.
pub(super) fn item<T: TryFrom<R, Error = String>, R: DeserializeOwned>(item: Value) -> Result<T, BadItem> {
    let name = item.get("name").or_else(|| item.get("id")).and_then(Value::as_str);
    let name = name.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned());
    let read = serde_json::from_value::<R>(item).map_err(|error| error.to_string()).and_then(T::try_from);
    read.map_err(|reason| BadItem { name, reason: shorten(&reason) })
}

type Tags = Option<BTreeMap<String, Option<String>>>;

/// A scale set as it is answered.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSet {
    id: Option<String>,
    name: Option<String>,
    location: Option<String>,
    zones: Option<Vec<String>>,
    tags: Tags,
    sku: Option<RawSku>,
    etag: Option<String>,
    properties: Option<RawSetProperties>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSku {
    name: Option<String>,
    capacity: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSetProperties {
    provisioning_state: Option<String>,
    orchestration_mode: Option<String>,
    sku_profile: Option<RawSkuProfile>,
    host_group: Option<Value>,
    overprovision: Option<bool>,
    virtual_machine_profile: Option<RawProfile>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSkuProfile {
    vm_sizes: Option<Vec<RawSku>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawProfile {
    priority: Option<String>,
    os_profile: Option<RawOsProfile>,
    storage_profile: Option<RawStorage>,
    hardware_profile: Option<RawHardware>,
    network_profile: Option<RawNetwork>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawHardware {
    vm_size_properties: Option<RawSizeProperties>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSizeProperties {
    #[serde(rename = "vCPUsAvailable")]
    cpus_available: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawNetwork {
    network_interface_configurations: Option<Vec<RawPart<RawInterface>>>,
}

/// What ARM wraps the parts of a profile in.
#[derive(Deserialize)]
struct RawPart<T> {
    properties: Option<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawInterface {
    ip_configurations: Option<Vec<RawPart<RawIp>>>,
}

#[derive(Deserialize)]
struct RawIp {
    #[serde(rename = "privateIPAddressVersion")]
    version: Option<String>,
}

impl RawNetwork {
    fn addresses(self) -> Option<u32> {
        let is_ipv6 = |ip: &RawPart<RawIp>| {
            let version = ip.properties.as_ref().and_then(|ip| ip.version.as_deref());
            version.is_some_and(|version| version.eq_ignore_ascii_case("IPv6"))
        };
        let of = |interface: RawPart<RawInterface>| {
            let addresses = interface.properties?.ip_configurations?;
            u32::try_from(addresses.iter().filter(|ip| !is_ipv6(ip)).count()).ok()
        };
        self.network_interface_configurations?.into_iter().filter_map(of).max()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawOsProfile {
    windows_configuration: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStorage {
    os_disk: Option<RawOsDisk>,
    image_reference: Option<RawImage>,
}

#[derive(Deserialize)]
struct RawImage {
    id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawOsDisk {
    #[serde(rename = "diskSizeGB")]
    disk_size_gb: Option<u32>,
    diff_disk_settings: Option<RawDiffDisk>,
    managed_disk: Option<RawManagedDisk>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawDiffDisk {
    option: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawManagedDisk {
    storage_account_type: Option<String>,
}

impl TryFrom<RawSet> for ScaleSet {
    type Error = String;

    fn try_from(raw: RawSet) -> Result<Self, String> {
        let id = raw.id.filter(|id| !id.is_empty()).ok_or("it has no id")?;
        let name = raw.name.or_else(|| id.rsplit('/').next().map(str::to_owned)).ok_or("it has no name")?;
        let location = raw.location.ok_or("it has no location")?;
        let properties = raw.properties.unwrap_or_default();
        let profile = properties.virtual_machine_profile.unwrap_or_default();
        let storage = profile.storage_profile.unwrap_or_default();
        let disk = storage.os_disk.unwrap_or_default();
        let hardware = profile.hardware_profile.and_then(|hardware| hardware.vm_size_properties);
        let sku = raw.sku.unwrap_or_default();
        let sizes = properties.sku_profile.and_then(|profile| profile.vm_sizes).unwrap_or_default();
        let is =
            |text: &Option<String>, word| text.as_deref().is_some_and(|text| str::eq_ignore_ascii_case(text, word));
        let orchestration = match properties.orchestration_mode.as_deref() {
            Some(mode) if mode.eq_ignore_ascii_case("Flexible") => Orchestration::Flexible,
            // Sets from before the mode existed are uniform.
            Some("") | None => Orchestration::Uniform,
            Some(mode) if mode.eq_ignore_ascii_case("Uniform") => Orchestration::Uniform,
            Some(mode) => return Err(format!("its orchestration mode is {mode}")),
        };
        Ok(Self {
            id,
            name,
            location,
            zones: raw.zones.unwrap_or_default(),
            tags: raw.tags.into_iter().flatten().map(|(key, value)| (key, value.unwrap_or_default())).collect(),
            size: sku.name,
            capacity: sku.capacity,
            etag: raw.etag.filter(|etag| !etag.is_empty()),
            provisioning_state: properties.provisioning_state,
            orchestration,
            mixed_sizes: sizes.into_iter().filter_map(|size| size.name).collect(),
            has_host_group: properties.host_group.is_some_and(|group| !group.is_null()),
            overprovision: properties.overprovision.unwrap_or_default(),
            spot: is(&profile.priority, "Spot") || is(&profile.priority, "Low"),
            windows: profile.os_profile.and_then(|os| os.windows_configuration).is_some_and(|it| !it.is_null()),
            os_disk_gb: disk.disk_size_gb,
            ephemeral_os_disk: disk.diff_disk_settings.is_some_and(|settings| is(&settings.option, "Local")),
            storage_account_type: disk.managed_disk.and_then(|disk| disk.storage_account_type),
            image: storage.image_reference.and_then(|image| image.id),
            cpus_available: hardware.and_then(|hardware| hardware.cpus_available).filter(|cpus| *cpus > 0),
            addresses: profile.network_profile.and_then(RawNetwork::addresses),
        })
    }
}

/// A machine as it is answered, of either kind of set.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawMachine {
    id: Option<String>,
    name: Option<String>,
    instance_id: Option<String>,
    properties: Option<RawMachineProperties>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMachineProperties {
    provisioning_state: Option<String>,
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

impl RawExtension {
    fn failure(self) -> Option<Status> {
        let failed: Vec<_> = self.statuses.into_iter().flatten().filter(RawStatus::is_error).collect();
        let messages: Vec<_> = failed.iter().filter_map(|status| status.message.as_deref()).collect();
        let message = Some(shorten(&messages.join("; "))).filter(|message| !message.is_empty());
        (!failed.is_empty()).then(|| Status { code: self.name.unwrap_or_default(), message })
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
        let id = raw.id.filter(|id| !id.is_empty()).ok_or("it has no id")?;
        // A uniform set deletes by instance ID, a flexible one by name; both are the last segment of the ARM ID.
        let delete_by = raw.instance_id.or_else(|| raw.name.filter(|_| !id.contains("/virtualMachineScaleSets/")));
        let last = || id.rsplit('/').next().unwrap_or_default().to_owned();
        let delete_by = delete_by.filter(|name| !name.is_empty()).unwrap_or_else(last);
        let properties = raw.properties.unwrap_or_default();
        let (statuses, extensions) = match properties.instance_view {
            None => (None, None),
            Some(view) => (Some(view.statuses.unwrap_or_default()), view.extensions),
        };
        let status = |raw: RawStatus| Status { code: raw.code.unwrap_or_default(), message: raw.message };
        Ok(Self {
            id,
            delete_by,
            provisioning_state: properties.provisioning_state,
            statuses: statuses.map(|statuses| statuses.into_iter().map(status).collect()),
            failed_extensions: extensions.into_iter().flatten().filter_map(RawExtension::failure).collect(),
        })
    }
}

/// A SKU as it is answered.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawSize {
    resource_type: Option<String>,
    name: Option<String>,
    capabilities: Option<Vec<RawCapability>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCapability {
    name: Option<String>,
    value: Option<String>,
}

/// Whether a SKU is a machine size; disks, snapshots and whole scale sets are listed beside them.
pub(super) fn is_size(item: &Value) -> bool {
    let kind = item.get("resourceType").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("virtualMachines"))
}

impl TryFrom<RawSize> for Size {
    type Error = String;

    fn try_from(raw: RawSize) -> Result<Self, String> {
        let name = raw.name.filter(|name| !name.is_empty()).ok_or("it has no name")?;
        let capabilities = raw.capabilities.into_iter().flatten();
        let capabilities = capabilities.filter_map(|capability| Some((capability.name?, capability.value?)));
        Ok(Self { name, capabilities: capabilities.collect() })
    }
}

/// An autoscale setting as it is answered.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawAutoscaleSetting {
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
        // Azure Monitor's own default.
        Ok(Self { name: raw.name.unwrap_or_default(), target, enabled: properties.enabled.unwrap_or(true) })
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
