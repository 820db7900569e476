//! Derives the launch spec of a scale set.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arm::operations::GET_SCALE_SET;
use super::arm::{AgentPool, ReadPurpose, ScaleSet};
use super::{Azure, Settings, aks, tags};
use crate::cloud::{CloudError, GroupReading, LaunchSpec, OperatingSystem};

/// `sku.name` of an instance mix.
const MIX: &str = "Mix";
const GIB: u64 = 1 << 30;

impl Azure {
    /// The launch spec of a new VM of the scale set.
    pub(super) async fn read_launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        let name = reading.name.as_str();
        let set = match self.cache.set(&reading.name) {
            Some(set) => set,
            None => {
                let set = self.api.get_scale_set(name, ReadPurpose::Refresh).await?;
                Arc::new(set.ok_or_else(|| CloudError::not_found(GET_SCALE_SET, name, "the scale set does not exist"))?)
            }
        };
        let pool = self.node_pool(&reading.name, &set).await?;
        launch_spec(&set, pool.as_ref(), &self.settings)
            .ok_or_else(|| CloudError::refused(GET_SCALE_SET, name, "the scale set names no VM size"))
    }
}

fn launch_spec(set: &ScaleSet, pool: Option<&AgentPool>, settings: &Settings) -> Option<LaunchSpec> {
    let types = types(set);
    if types.is_empty() {
        return None;
    }
    let region = region(&set.location);
    let of_aks = tags::is_of_aks(&set.tags);
    let predicted = settings.label_predictions && of_aks;
    let mut labels = if predicted { aks::labels(set, &types, &settings.resource_group) } else { BTreeMap::new() };
    labels.extend(pool.map(aks::labels_of_pool).unwrap_or_default());
    Some(LaunchSpec {
        zones: zones(set, &region),
        region,
        operating_system: if set.windows { OperatingSystem::Windows } else { OperatingSystem::Linux },
        image: aks::node_image(set),
        labels,
        has_size_labels: predicted,
        taints: if of_aks { aks::taints(set, pool) } else { Vec::new() },
        cpus_max: set.cpus_available,
        has_one_thread_per_core: has_one_thread_per_core(set),
        max_pods: aks::max_pods(set, pool).filter(|_| of_aks),
        // If the scale set sets no disk size, the disk is as large as the image.
        ephemeral_storage_bytes: os_disk(set).filter(|_| !pool.is_some_and(|pool| pool.is_on_temporary_disk)),
        reserved: of_aks.then(|| aks::reserved(set)),
        is_spot: set.spot && !set.mixes_priorities,
        types,
        ..LaunchSpec::default()
    })
}

fn os_disk(set: &ScaleSet) -> Option<u64> {
    set.os_disk_gb.map(u64::from).filter(|size| *size > 0).map(|size| size * GIB)
}

/// Whether hyper-threading is switched off, by a setting or by the tag that has the same effect
/// (learn.microsoft.com, "Virtual machine customization"). A number of vCPUs says more.
fn has_one_thread_per_core(set: &ScaleSet) -> bool {
    let tagged = set.tags.iter().any(|(key, value)| {
        key.eq_ignore_ascii_case(tags::DISABLES_HYPERTHREADING) && value.eq_ignore_ascii_case("true")
    });
    set.cpus_available.is_none() && (set.has_one_thread_per_core || tagged)
}

// An instance mix has its sizes in another field (#8683).
pub(super) fn types(set: &ScaleSet) -> Vec<String> {
    let single = set.size.iter().filter(|size| !size.eq_ignore_ascii_case(MIX));
    let mut types: Vec<String> = Vec::new();
    let of_set: Vec<&String> =
        if set.mixed_sizes.is_empty() { single.collect() } else { set.mixed_sizes.iter().collect() };
    for size in of_set {
        if !size.is_empty() && !types.iter().any(|known| known.eq_ignore_ascii_case(size)) {
            types.push(size.clone());
        }
    }
    types
}

/// The region as in node labels: `West US 2` is `westus2`.
pub(super) fn region(location: &str) -> String {
    location.split_whitespace().collect::<String>().to_ascii_lowercase()
}

fn zones(set: &ScaleSet, region: &str) -> Vec<String> {
    let named = set.zones.iter().filter(|zone| !zone.is_empty() && *zone != "0");
    let mut zones: Vec<String> = named.map(|zone| format!("{region}-{zone}")).collect();
    zones.sort();
    zones.dedup();
    zones
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::ReservedProfile;

    fn set(size: &str) -> ScaleSet {
        ScaleSet { size: Some(size.to_owned()), location: "West US".to_owned(), ..ScaleSet::default() }
    }

    fn spec_of(set: &ScaleSet, label_predictions: bool) -> Option<LaunchSpec> {
        let settings = Settings {
            label_predictions,
            resource_group: "MC_rg".to_owned(),
            ..crate::clouds::azure::tests::settings()
        };
        launch_spec(set, None, &settings)
    }

    fn tagged(size: &str, tags: &[(&str, &str)]) -> ScaleSet {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ScaleSet { tags, ..set(size) }
    }

    #[test]
    fn zones_are_named_by_the_region_and_a_regional_set_has_none() {
        let zonal = ScaleSet { zones: ["3", "1", "2", "1"].map(str::to_owned).to_vec(), ..set("Standard_DS2_v2") };
        let spec = spec_of(&zonal, true).expect("a size");
        assert_eq!(
            (spec.region.as_str(), spec.zones),
            ("westus", ["westus-1", "westus-2", "westus-3"].map(str::to_owned).to_vec())
        );
        let regional = ScaleSet { zones: vec!["0".to_owned()], ..set("Standard_DS2_v2") };
        assert!(spec_of(&regional, true).expect("a size").zones.is_empty());
    }

    #[test]
    fn the_sizes_of_a_mix_are_its_types() {
        let mixed = |sizes: &[&str]| ScaleSet {
            mixed_sizes: sizes.iter().map(|size| (*size).to_owned()).collect(),
            ..set("Mix")
        };
        let types = |set: &ScaleSet| spec_of(set, true).map(|spec| spec.types);
        assert_eq!(types(&mixed(&["A", "B", "a"])), Some(vec!["A".to_owned(), "B".to_owned()]));
        assert_eq!(types(&mixed(&[])), None);
        assert_eq!(types(&set("Standard_D2_v2")), Some(vec!["Standard_D2_v2".to_owned()]));
        assert_eq!(types(&ScaleSet::default()), None);
    }

    #[test]
    fn labels_of_aks_are_predicted_only_for_sets_of_aks() {
        let aks = ScaleSet {
            storage_account_type: Some("Premium_LRS".to_owned()),
            ..tagged("Standard_DS2_v2", &[("poolName", "pool")])
        };
        let read_launch_spec = |set: &ScaleSet, predict| spec_of(set, predict).expect("a size");
        let labels = read_launch_spec(&aks, true).labels;
        let expected = [
            ("agentpool", "pool"),
            ("kubernetes.azure.com/agentpool", "pool"),
            ("kubernetes.azure.com/cluster", "MC_rg"),
            ("kubernetes.azure.com/nodepool-type", "VirtualMachineScaleSets"),
            ("kubernetes.azure.com/role", "agent"),
            ("kubernetes.azure.com/storageprofile", "managed"),
            ("kubernetes.azure.com/storagetier", "Premium_LRS"),
            ("storageprofile", "managed"),
            ("storagetier", "Premium_LRS"),
        ];
        assert_eq!(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
        assert_eq!(read_launch_spec(&aks, true).reserved, Some(ReservedProfile::Aks));
        assert!(read_launch_spec(&aks, false).labels.is_empty());
        let own = tagged("Standard_NC6s_v3", &[("owner", "me")]);
        assert_eq!((read_launch_spec(&own, true).labels.len(), read_launch_spec(&own, true).reserved), (0, None));
    }

    #[test]
    fn nvidia_machines_of_aks_are_labelled_and_others_are_not() {
        let label = |size: &str| {
            let set = tagged(size, &[("aks-managed-poolName", "gpu"), ("poolName", "old")]);
            let labels = spec_of(&set, true).expect("a size").labels;
            assert_eq!(labels.get("agentpool").map(String::as_str), Some("gpu"));
            labels.get("kubernetes.azure.com/accelerator").cloned()
        };
        assert_eq!(label("Standard_NC40ads_H100_v5").as_deref(), Some("nvidia"));
        assert_eq!(label("Standard_NV4as_v4"), None);
        assert_eq!(label("Standard_D2_v2"), None);
    }

    #[test]
    fn the_os_disk_is_the_ephemeral_storage_where_its_size_is_known() {
        let disk = |size| {
            let set = ScaleSet { os_disk_gb: size, ephemeral_os_disk: true, windows: true, ..set("Standard_DS2_v2") };
            spec_of(&set, true).expect("a size")
        };
        assert_eq!(disk(Some(128)).ephemeral_storage_bytes, Some(128 * 1024 * 1024 * 1024));
        assert_eq!(disk(Some(128)).operating_system, OperatingSystem::Windows);
        assert_eq!((disk(None).ephemeral_storage_bytes, disk(Some(0)).ephemeral_storage_bytes), (None, None));
    }

    #[test]
    fn vcpus_that_the_set_disables_are_not_counted() {
        let constrained = ScaleSet { cpus_available: Some(8), ..set("Standard_E32s_v5") };
        assert_eq!(spec_of(&constrained, true).expect("a size").cpus_max, Some(8));
        assert_eq!(spec_of(&set("Standard_E32s_v5"), true).expect("a size").cpus_max, None);
        let one_thread = |set: &ScaleSet| spec_of(set, true).expect("a size").has_one_thread_per_core;
        let by_setting = ScaleSet { has_one_thread_per_core: true, ..set("Standard_D8s_v6") };
        let tag = (tags::DISABLES_HYPERTHREADING.to_owned(), "True".to_owned());
        let by_tag = ScaleSet { tags: BTreeMap::from([tag]), ..set("Standard_D8s_v6") };
        assert!(one_thread(&by_setting) && one_thread(&by_tag) && !one_thread(&set("Standard_D8s_v6")));
        let numbered = ScaleSet { has_one_thread_per_core: true, ..constrained };
        assert!(!one_thread(&numbered), "the number of vCPUs that are available says it");
    }

    #[test]
    fn nothing_of_aks_is_assumed_for_other_sets() {
        let own = ScaleSet { spot: true, addresses: Some(31), ..tagged("Standard_D4s_v5", &[("owner", "me")]) };
        let spec = spec_of(&own, true).expect("a size");
        assert_eq!((spec.reserved, spec.max_pods), (None, None));
        assert!(spec.labels.is_empty() && spec.taints.is_empty());
    }
}
