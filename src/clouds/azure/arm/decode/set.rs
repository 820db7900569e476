//! Decodes scale sets.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::api::{Orchestration, ScaleSet};
use super::own_changes::RawOwnChanges;

type Tags = Option<BTreeMap<String, Option<String>>>;

/// A scale set as returned.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(in crate::clouds::azure) struct RawSet {
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
    unique_id: Option<String>,
    provisioning_state: Option<String>,
    orchestration_mode: Option<String>,
    sku_profile: Option<RawSkuProfile>,
    single_placement_group: Option<bool>,
    host_group: Option<Value>,
    priority_mix_policy: Option<Value>,
    overprovision: Option<bool>,
    virtual_machine_profile: Option<RawProfile>,
    #[serde(flatten)]
    own_changes: RawOwnChanges,
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
    security_profile: Option<RawSecurity>,
    capacity_reservation: Option<RawReservation>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSecurity {
    security_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawReservation {
    capacity_reservation_group: Option<Value>,
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
    #[serde(rename = "vCPUsPerCore")]
    cpus_per_core: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawNetwork {
    network_interface_configurations: Option<Vec<RawPart<RawInterface>>>,
}

/// The wrapper that ARM puts around parts of a profile.
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawImage {
    id: Option<String>,
    publisher: Option<String>,
    offer: Option<String>,
    sku: Option<String>,
    community_gallery_image_id: Option<String>,
    shared_gallery_image_id: Option<String>,
}

impl RawImage {
    /// The words that tell what it runs.
    fn name(&self) -> Option<String> {
        let in_gallery = self.community_gallery_image_id.clone().or_else(|| self.shared_gallery_image_id.clone());
        let of_market = || {
            let words = [&self.publisher, &self.offer, &self.sku].into_iter().flatten().map(String::as_str);
            Some(words.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
        };
        in_gallery.or_else(of_market)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawOsDisk {
    #[serde(rename = "diskSizeGB")]
    disk_size_gb: Option<u32>,
    os_type: Option<String>,
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
        let id = raw.id.filter(|id| !id.is_empty()).ok_or("it has no ID")?;
        let name = raw.name.or_else(|| id.rsplit('/').next().map(str::to_owned)).ok_or("it has no name")?;
        let location = raw.location.ok_or("it has no location")?;
        let properties = raw.properties.unwrap_or_default();
        let profile = properties.virtual_machine_profile.unwrap_or_default();
        let storage = profile.storage_profile.unwrap_or_default();
        let disk = storage.os_disk.unwrap_or_default();
        let image = storage.image_reference.unwrap_or_default();
        let hardware = profile.hardware_profile.and_then(|hardware| hardware.vm_size_properties);
        let sku = raw.sku.unwrap_or_default();
        let sizes = properties.sku_profile.and_then(|profile| profile.vm_sizes).unwrap_or_default();
        let is =
            |text: &Option<String>, word| text.as_deref().is_some_and(|text| str::eq_ignore_ascii_case(text, word));
        let orchestration = match properties.orchestration_mode.as_deref() {
            Some(mode) if mode.eq_ignore_ascii_case("Flexible") => Orchestration::Flexible,
            // Scale sets that predate the mode are uniform.
            Some("") | None => Orchestration::Uniform,
            Some(mode) if mode.eq_ignore_ascii_case("Uniform") => Orchestration::Uniform,
            Some(mode) => return Err(format!("its orchestration mode {mode} is unknown")),
        };
        Ok(Self {
            id,
            name,
            unique_id: properties.unique_id.filter(|id| !id.is_empty()),
            location,
            zones: raw.zones.unwrap_or_default(),
            tags: raw.tags.into_iter().flatten().map(|(key, value)| (key, value.unwrap_or_default())).collect(),
            size: sku.name,
            capacity: sku.capacity,
            etag: raw.etag.filter(|etag| !etag.is_empty()),
            provisioning_state: properties.provisioning_state,
            orchestration,
            mixed_sizes: sizes.into_iter().filter_map(|size| size.name).collect(),
            has_single_placement_group: properties.single_placement_group.unwrap_or_default(),
            has_host_group: properties.host_group.is_some_and(|group| !group.is_null()),
            has_reservation: profile
                .capacity_reservation
                .and_then(|reservation| reservation.capacity_reservation_group)
                .is_some_and(|group| !group.is_null()),
            overprovision: properties.overprovision.unwrap_or_default(),
            own_changes: properties.own_changes.into(),
            spot: is(&profile.priority, "Spot") || is(&profile.priority, "Low"),
            mixes_priorities: properties.priority_mix_policy.is_some_and(|policy| !policy.is_null()),
            // A set of a specialized image has no OS profile.
            windows: is(&disk.os_type, "Windows")
                || profile.os_profile.and_then(|os| os.windows_configuration).is_some_and(|it| !it.is_null()),
            os_disk_gb: disk.disk_size_gb,
            ephemeral_os_disk: disk.diff_disk_settings.is_some_and(|settings| is(&settings.option, "Local")),
            storage_account_type: disk.managed_disk.and_then(|disk| disk.storage_account_type),
            image_name: image.name(),
            image: image.id,
            cpus_available: hardware.as_ref().and_then(|hardware| hardware.cpus_available).filter(|cpus| *cpus > 0),
            has_one_thread_per_core: hardware.is_some_and(|hardware| hardware.cpus_per_core == Some(1)),
            addresses: profile.network_profile.and_then(RawNetwork::addresses),
            security_type: profile.security_profile.and_then(|security| security.security_type),
        })
    }
}
