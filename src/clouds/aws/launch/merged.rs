//! Merges all launch options of a group into one launch spec: what they have in common, and the minimum of what
//! differs.

use std::collections::BTreeMap;
use std::mem;

use super::nodegroups::NodegroupDetails;
use super::settings::LaunchSettings;
use crate::cloud::{KubeletReserves, LaunchSpec, LocalDisks, NodeImage, OperatingSystem, ReservedProfile, Taint};

const EFA: &str = "vpc.amazonaws.com/efa";

/// One launch option with everything it refers to looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct ResolvedLaunch {
    pub(super) types: Vec<String>,
    pub(super) windows: bool,
    /// The family of its image, if it is known.
    pub(super) image: Option<NodeImage>,
    /// Those of the options that were merged, where they differ.
    pub(super) images: Vec<NodeImage>,
    /// Whether the image or the user data makes it an EKS node.
    pub(super) eks: bool,
    pub(super) ephemeral: Option<u64>,
    pub(super) local_disks: LocalDisks,
    /// The most 2 MiB pages that any option sets aside.
    pub(super) huge_pages: u64,
    pub(super) cpus_max: Option<u32>,
    /// Whether the memory of any of its instances is encrypted.
    pub(super) is_encrypted: bool,
    /// Whether the kubelet labels nodes with NVIDIA GPUs.
    pub(super) labels_gpus: bool,
    pub(super) max_pods: Option<u32>,
    /// The lowest limit of pods that any option has.
    pub(super) pods_at_most: Option<u32>,
    pub(super) efa_interfaces: u32,
    /// Whether any of its instances may have an Elastic Fabric Adapter.
    pub(super) has_efa: bool,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) kubelet_reserves: KubeletReserves,
    /// Whether it launches spot instances.
    pub(super) is_spot: bool,
    /// Whether the launch template's version is `$Default` or `$Latest`.
    pub(super) is_floating: bool,
    /// Whether it lacks its image, which may be readable a little later.
    pub(super) is_provisional: bool,
}

/// All launch options of a group, merged.
#[derive(Debug, Default)]
pub(super) struct MergedLaunch {
    /// `types` holds the types of all options without duplicates. [`MergedLaunch::add`] says how the rest is merged.
    merged: Option<ResolvedLaunch>,
}

impl MergedLaunch {
    /// Merges another launch option. An estimate may be low but never high, so a value that one option leaves unknown
    /// becomes unknown.
    pub(super) fn add(&mut self, mut other: ResolvedLaunch) {
        let Some(one) = &mut self.merged else {
            dedup(&mut other.types);
            self.merged = Some(other);
            return;
        };
        one.types.append(&mut other.types);
        dedup(&mut one.types);
        one.windows |= other.windows;
        if one.image.map(|image| image.family) != other.image.map(|image| image.family) {
            one.images.extend(one.image.take());
            one.images.extend(other.image);
        }
        one.images.append(&mut other.images);
        one.images.sort_unstable();
        one.images.dedup();
        one.has_efa |= other.has_efa;
        // EKS nodes reserve more than other nodes.
        one.eks |= other.eks;
        one.is_spot &= other.is_spot;
        one.is_encrypted |= other.is_encrypted;
        one.labels_gpus &= other.labels_gpus;
        one.is_floating |= other.is_floating;
        one.is_provisional |= other.is_provisional;
        let ephemeral = one.ephemeral.zip(other.ephemeral).map(|(one, other)| one.min(other));
        // Whether the volume or the local disks are smaller depends on the instance type.
        one.ephemeral = ephemeral.filter(|_| one.local_disks == other.local_disks);
        one.local_disks = one.local_disks.min(other.local_disks);
        one.huge_pages = one.huge_pages.max(other.huge_pages);
        one.cpus_max = one.cpus_max.into_iter().chain(other.cpus_max).min();
        one.pods_at_most = one.pods_at_most.into_iter().chain(other.pods_at_most).min();
        one.max_pods = one.max_pods.zip(other.max_pods).map(|(one, other)| one.min(other));
        one.efa_interfaces = one.efa_interfaces.min(other.efa_interfaces);
        one.labels.retain(|key, value| other.labels.get(key) == Some(value));
        one.taints.append(&mut other.taints);
        one.kubelet_reserves = mem::take(&mut one.kubelet_reserves).either(other.kubelet_reserves);
    }

    /// The instance types of all options.
    pub(super) fn types(&self) -> &[String] {
        self.merged.as_ref().map(|merged| merged.types.as_slice()).unwrap_or_default()
    }

    /// The launch spec, with the labels and taints from the group's tags and from EKS.
    pub(super) fn into_launch_spec(
        self,
        region: &str,
        settings: &LaunchSettings,
        nodegroup: Option<&NodegroupDetails>,
        tagged: Option<OperatingSystem>,
    ) -> LaunchSpec {
        let merged = self.merged.unwrap_or_default();
        let nodegroup_details = nodegroup.cloned().unwrap_or_default();
        let shown = [nodegroup_details.operating_system, tagged];
        let windows = merged.windows || shown.contains(&Some(OperatingSystem::Windows));
        let mut labels = settings.labels.clone();
        labels.extend(merged.labels);
        labels.extend(nodegroup_details.tagged_labels);
        if let [zone] = settings.zones.as_slice() {
            labels.insert("topology.ebs.csi.aws.com/zone".to_owned(), zone.clone());
        }
        let mut taints = nodegroup_details.tagged_taints;
        for taint in merged.taints {
            if !taints.iter().any(|known| known.key == taint.key && known.effect == taint.effect) {
                taints.push(taint);
            }
        }
        taints.sort();
        let disk = nodegroup_details.disk_gib.and_then(|gib| gib.checked_mul(1 << 30));
        LaunchSpec {
            types: merged.types,
            region: region.to_owned(),
            zones: settings.zones.clone(),
            operating_system: if windows { OperatingSystem::Windows } else { OperatingSystem::Linux },
            image: merged.image,
            images: merged.images,
            has_efa: merged.has_efa,
            labels,
            taints,
            fixed_labels: nodegroup_details.labels,
            fixed_taints: nodegroup_details.taints,
            resources: nodegroup_details.resources,
            cpus_max: merged.cpus_max,
            is_encrypted: merged.is_encrypted,
            labels_gpus: merged.labels_gpus,
            has_one_thread_per_core: false,
            has_size_labels: false,
            max_pods: merged.max_pods,
            pods_at_most: merged.pods_at_most,
            caps_pods: nodegroup.is_some_and(|details| !details.custom_image),
            devices: (merged.efa_interfaces > 0).then(|| (EFA.to_owned(), merged.efa_interfaces)).into_iter().collect(),
            ephemeral_storage_bytes: merged.ephemeral.or(disk),
            local_disks: merged.local_disks,
            huge_pages: merged.huge_pages,
            is_spot: merged.is_spot || settings.is_spot,
            is_floating: merged.is_floating,
            is_provisional: merged.is_provisional || nodegroup_details.unread.is_some(),
            unread: nodegroup_details.unread,
            kubelet_reserves: merged.kubelet_reserves,
            reserved: (merged.eks || settings.eks).then_some(ReservedProfile::Eks),
        }
    }
}

/// Removes duplicates and keeps the order.
fn dedup(types: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    types.retain(|name| seen.insert(name.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{ImageEvidence, ImageFamily, TaintEffect};

    fn launch_of(name: &str) -> ResolvedLaunch {
        ResolvedLaunch { types: vec![name.to_owned()], ..ResolvedLaunch::default() }
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn merged(options: impl IntoIterator<Item = ResolvedLaunch>) -> ResolvedLaunch {
        let mut merged = MergedLaunch::default();
        options.into_iter().for_each(|option| merged.add(option));
        merged.merged.expect("an option")
    }

    #[test]
    fn values_that_differ_merge_to_the_minimum_and_unknown_values_stay_unknown() {
        let taint = Taint { key: "gpu".into(), value: String::new(), effect: TaintEffect::NoSchedule };
        let one = ResolvedLaunch {
            ephemeral: Some(50),
            cpus_max: Some(8),
            max_pods: Some(58),
            pods_at_most: Some(58),
            efa_interfaces: 4,
            labels: labels(&[("team", "a"), ("only", "here")]),
            taints: vec![taint.clone()],
            ..launch_of("a")
        };
        let other = ResolvedLaunch {
            ephemeral: Some(20),
            max_pods: Some(29),
            efa_interfaces: 1,
            eks: true,
            labels: labels(&[("team", "a"), ("only", "there")]),
            ..launch_of("b")
        };
        let both = merged([one.clone(), other, one.clone()]);
        assert_eq!(both.types, ["a", "b"]);
        assert_eq!(
            (both.ephemeral, both.max_pods, both.cpus_max, both.efa_interfaces),
            (Some(20), Some(29), Some(8), 1)
        );
        assert_eq!((both.labels, both.taints.first(), both.eks), (labels(&[("team", "a")]), Some(&taint), true));
        let unknown = merged([one, launch_of("c")]);
        assert_eq!((unknown.ephemeral, unknown.max_pods, unknown.efa_interfaces), (None, None, 0));
        assert_eq!(unknown.pods_at_most, Some(58), "the nodes of one option have no more");
    }

    #[test]
    fn an_image_is_known_only_if_every_launch_option_has_one_of_its_family() {
        let option =
            |family, evidence| ResolvedLaunch { image: Some(NodeImage { family, evidence }), ..launch_of("a") };
        let one = option(ImageFamily::AmazonLinux2, ImageEvidence::Name);
        let same = option(ImageFamily::AmazonLinux2, ImageEvidence::Alias);
        assert_eq!(merged([one.clone(), same]).image, one.image);
        let other = option(ImageFamily::Bottlerocket, ImageEvidence::Name);
        let images = |of: [&ResolvedLaunch; 2]| [of[0].image, of[1].image].into_iter().flatten().collect::<Vec<_>>();
        for differing in [[&one, &other], [&one, &launch_of("b")], [&launch_of("b"), &one]] {
            let several = merged(differing.map(Clone::clone));
            assert_eq!((several.image, several.images), (None, images(differing)), "the least of any counts");
        }
        let again = merged([one.clone(), other.clone(), one.clone()]);
        assert_eq!((again.image, again.images), (None, images([&one, &other])));
    }

    #[test]
    fn one_launch_option_with_adapters_is_enough_for_huge_pages() {
        let with = ResolvedLaunch { has_efa: true, efa_interfaces: 1, ..launch_of("a") };
        let both = merged([with, launch_of("b")]);
        assert_eq!((both.efa_interfaces, both.has_efa), (0, true));
    }

    #[test]
    fn the_size_of_volumes_is_not_compared_with_that_of_local_disks() {
        let volume = ResolvedLaunch { ephemeral: Some(500), ..launch_of("a") };
        let disks = ResolvedLaunch { local_disks: LocalDisks::Joined, ..volume.clone() };
        let mixed = merged([volume, disks.clone()]);
        assert_eq!((mixed.ephemeral, mixed.local_disks), (None, LocalDisks::Apart));
        let both = merged([disks.clone(), disks]);
        assert_eq!((both.ephemeral, both.local_disks), (Some(500), LocalDisks::Joined));
    }
}
