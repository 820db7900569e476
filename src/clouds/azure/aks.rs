//! AKS node pools: what AKS sets on the nodes of its scale sets, as far as a scale set and its pool show it.

use std::collections::BTreeMap;

use super::arm::{AgentPool, ScaleSet};
use super::{sizes, tags};
use crate::cloud::{
    ImageEvidence, ImageFamily, NodeImage, ReservedProfile, Taint, TaintEffect, is_label_key, is_label_value,
};
use crate::clouds::windows::{WINDOWS_BUILD_LABEL, windows_build};

/// The lowest pod limit that AKS allows. An interface with fewer addresses has none for pods.
const PODS_MIN: u32 = 10;
/// The AKS default with an overlay network.
const OVERLAY_PODS: u32 = 250;
/// Since Kubernetes 1.29, AKS computes reservations from the pod limit.
const BY_PODS_SINCE: u32 = 29;
/// What the label `security-type` says.
const SECURITY_TYPES: [&str; 2] = ["TrustedLaunch", "ConfidentialVM"];
const SPOT: &str = "kubernetes.azure.com/scalesetpriority";

/// The reservation profile of the pool.
pub(super) fn reserved(set: &ScaleSet) -> ReservedProfile {
    let is_legacy = tags::aks_minor_version(&set.tags).is_some_and(|minor| minor < BY_PODS_SINCE);
    if is_legacy { ReservedProfile::AksLegacy } else { ReservedProfile::Aks }
}

/// The kubelet's pod limit: the pool's, or what the scale set shows of it. With Azure CNI on the nodes' own subnet, an
/// interface has one address for the node and one for each pod. With an overlay, AKS's default is assumed. With kubenet
/// and with subnets for pods, only the pool shows the limit.
pub(super) fn max_pods(set: &ScaleSet, pool: Option<&AgentPool>) -> Option<u32> {
    if let Some(pods) = pool.and_then(|pool| pool.max_pods).filter(|pods| *pods >= PODS_MIN) {
        return Some(pods);
    }
    match set.addresses.map(|addresses| addresses.saturating_sub(1)) {
        Some(pods) if pods >= PODS_MIN => Some(pods),
        _ if tags::has_overlay(&set.tags) => Some(OVERLAY_PODS),
        _ => None,
    }
}

/// The labels of the pool's nodes, as far as its scale set shows them.
pub(super) fn labels(set: &ScaleSet, types: &[String], resource_group: &str) -> BTreeMap<String, String> {
    let cluster = cluster(resource_group);
    let mut labels: Vec<(&str, &str)> =
        vec![("role", "agent"), ("nodepool-type", "VirtualMachineScaleSets"), ("cluster", &cluster)];
    let system = set.image.as_deref().and_then(system);
    labels.extend(system.map(|system| ("os-sku", system)));
    labels.extend(set.image.as_deref().and_then(release).map(|release| ("os-sku-effective", release)));
    // Those of Windows have names of their own.
    let linux = set.image.as_deref().filter(|_| system.is_some() && !set.windows);
    let version = linux.and_then(image_version);
    labels.extend(version.as_deref().map(|version| ("node-image-version", version)));
    if tags::has_overlay(&set.tags) {
        labels.extend([("podnetwork-type", "overlay"), ("azure-cni-overlay", "true")]);
    }
    if set.spot {
        labels.extend([("scalesetpriority", "spot"), ("priority", "spot")]);
    }
    // learn.microsoft.com, "Trusted Launch for AKS" and "Use confidential virtual machines in AKS": pods select by it.
    let security = SECURITY_TYPES.into_iter().find(|known| set.security_type.as_deref() == Some(known));
    labels.extend(security.map(|security| ("security-type", security)));
    let both = in_both_forms(set, types);
    let build = system.and_then(windows_build).map(|build| (WINDOWS_BUILD_LABEL.to_owned(), build.to_owned()));
    let older = both.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let newer =
        labels.iter().chain(&both).map(|(name, value)| (format!("kubernetes.azure.com/{name}"), (*value).to_owned()));
    newer.chain(older).chain(build).collect()
}

/// The labels that the pool itself sets, and its mode.
pub(super) fn labels_of_pool(pool: &AgentPool) -> BTreeMap<String, String> {
    let own = pool.labels.iter().filter(|(key, value)| is_label_key(key) && is_label_value(value));
    let mode = pool.mode.as_ref().map(|mode| ("kubernetes.azure.com/mode".to_owned(), mode.to_ascii_lowercase()));
    let system = pool.os_sku.as_ref().filter(|system| is_label_value(system));
    let system = system.map(|system| ("kubernetes.azure.com/os-sku-requested".to_owned(), system.clone()));
    let fips = pool.has_fips.then(|| ("kubernetes.azure.com/fips_enabled".to_owned(), "true".to_owned()));
    mode.into_iter().chain(system).chain(fips).chain(own.map(|(key, value)| (key.clone(), value.clone()))).collect()
}

/// The label `cluster`: the resource group of the nodes, as far as a label can have its name. DaemonSets of AKS select
/// their nodes by it.
fn cluster(resource_group: &str) -> String {
    const LABEL_MAX: usize = 63;
    let mut name: String = resource_group.replace(['(', ')'], "-").chars().take(LABEL_MAX).collect();
    if name.ends_with(['-', '_', '.']) {
        if name.len() == LABEL_MAX {
            name.pop();
        }
        name.push('z');
    }
    name
}

/// The image as the label `node-image-version` names it: `AKSUbuntu-2204gen2containerd-202509.23.0`.
fn image_version(image: &str) -> Option<String> {
    let parts: Vec<&str> = image.rsplit_once("/galleries/")?.1.split('/').collect();
    let [gallery, _, name, _, version] = parts.as_slice() else { return None };
    Some(format!("{gallery}-{name}-{version}")).filter(|label| is_label_value(label))
}

/// Labels that AKS sets in an older and a newer form.
fn in_both_forms<'a>(set: &'a ScaleSet, types: &[String]) -> Vec<(&'a str, &'a str)> {
    let mut labels = Vec::new();
    labels.extend(tags::aks_pool(&set.tags).map(|pool| ("agentpool", pool)));
    // Windows nodes have no disk labels.
    if !set.windows {
        labels.push(("storageprofile", if set.ephemeral_os_disk { "ephemeral" } else { "managed" }));
        let tier = set.storage_account_type.as_deref().filter(|tier| !tier.is_empty());
        labels.extend(tier.map(|tier| ("storagetier", tier)));
    }
    labels.extend(types.iter().all(|size| sizes::is_nvidia(size)).then_some(("accelerator", "nvidia")));
    labels
}

/// The operating system as the label `os-sku` names it, if the image's ID
/// (`…/galleries/AKSUbuntu/images/2204gen2containerd/…`) leaves no doubt.
fn system(image: &str) -> Option<&'static str> {
    let image = image.to_ascii_lowercase();
    let (gallery, name) = image.split_once("/galleries/")?.1.split_once("/images/")?;
    match gallery {
        "aksubuntu" => Some("Ubuntu"),
        // Azure Container Linux and OS Guard have images in the same gallery, and labels that no known node has shown.
        "aksazurelinux" if name.starts_with("acl") || name.starts_with("osguard") => None,
        "aksazurelinux" => Some("AzureLinux"),
        "akswindows" if name.contains("2019") => Some("Windows2019"),
        "akswindows" if name.contains("2022") => Some("Windows2022"),
        "akswindows" if name.contains("2025") => Some("Windows2025"),
        _ => None,
    }
}

/// The operating system with its release, as the label `os-sku-effective` names it, where nodes have shown it.
fn release(image: &str) -> Option<&'static str> {
    let image = image.to_ascii_lowercase();
    let (gallery, name) = image.split_once("/galleries/")?.1.split_once("/images/")?;
    match (gallery, name.get(..2)?, name.get(..4)?) {
        ("aksubuntu", _, "2204") => Some("Ubuntu2204"),
        ("aksubuntu", _, "2404") => Some("Ubuntu2404"),
        ("aksazurelinux", "v3", _) => Some("AzureLinux3"),
        _ => None,
    }
}

/// The family of the image: by the gallery that the scale set names, if AKS makes the images in it, else by the image's
/// name, in a gallery or on the marketplace.
pub(super) fn node_image(set: &ScaleSet) -> Option<NodeImage> {
    let in_gallery = set.image.as_deref().and_then(in_gallery);
    if let Some(family) = in_gallery.and_then(|(gallery, name)| ImageFamily::of_aks_gallery(gallery, name)) {
        return Some(NodeImage { family, evidence: ImageEvidence::Gallery });
    }
    let name = set.image_name.as_deref().or_else(|| in_gallery.map(|(_, name)| name))?;
    Some(NodeImage { family: ImageFamily::of_name(name)?, evidence: ImageEvidence::Name })
}

/// The names of a gallery and of an image in it.
fn in_gallery(id: &str) -> Option<(&str, &str)> {
    let (gallery, rest) = id.rsplit_once("/galleries/")?.1.split_once('/')?;
    let name = rest.strip_prefix("images/").or_else(|| rest.strip_prefix("Images/"))?.split('/').next()?;
    Some((gallery, name))
}

/// The taints that AKS sets on the nodes of the pool, and the pool's own.
pub(super) fn taints(set: &ScaleSet, pool: Option<&AgentPool>) -> Vec<Taint> {
    let spot = || Taint { key: SPOT.to_owned(), value: "spot".to_owned(), effect: TaintEffect::NoSchedule };
    let is_valid = |taint: &Taint| is_label_key(&taint.key) && is_label_value(&taint.value);
    let own = pool.into_iter().flat_map(|pool| &pool.taints).filter_map(|text| Taint::parse(text));
    let mut taints: Vec<Taint> = set.spot.then(spot).into_iter().chain(own.filter(is_valid)).collect();
    taints.sort();
    taints.dedup();
    taints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(tags: &[(&str, &str)]) -> ScaleSet {
        let tags = [("aks-managed-poolName", "pool")].iter().chain(tags);
        let tags = tags.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ScaleSet { tags: tags.collect(), ..ScaleSet::default() }
    }

    fn label(set: &ScaleSet, name: &str) -> Option<String> {
        labels(set, &["Standard_D2s_v5".to_owned()], "MC_rg_c_eastus").remove(name)
    }

    #[test]
    fn pools_before_1_29_use_the_legacy_reservation() {
        for (version, profile) in [
            ("Kubernetes:1.28.12", ReservedProfile::AksLegacy),
            ("Kubernetes:1.29.0", ReservedProfile::Aks),
            ("Kubernetes:1.33.3", ReservedProfile::Aks),
            ("unreadable", ReservedProfile::Aks),
        ] {
            assert_eq!(reserved(&pool(&[("aks-managed-orchestrator", version)])), profile, "{version}");
        }
        assert_eq!(reserved(&pool(&[])), ReservedProfile::Aks);
    }

    #[test]
    fn the_pod_limit_comes_from_addresses_or_from_an_overlay() {
        let overlay = [("aks-managed-azure-cni-overlay", "true")];
        for (addresses, tags, limit) in [
            (Some(31), &[][..], Some(30)),
            (Some(111), &[], Some(110)),
            (Some(11), &overlay, Some(10)),
            (Some(1), &overlay, Some(250)),
            (None, &overlay, Some(250)),
            (Some(1), &[], None),
            (Some(2), &[], None),
            (None, &[("aks-managed-azure-cni-overlay", "false")], None),
        ] {
            assert_eq!(max_pods(&ScaleSet { addresses, ..pool(tags) }, None), limit, "{addresses:?} {tags:?}");
        }
        let of_pool = |max_pods| AgentPool { max_pods, ..AgentPool::default() };
        assert_eq!(max_pods(&pool(&overlay), Some(&of_pool(Some(110)))), Some(110), "the pool says it");
        assert_eq!(max_pods(&pool(&overlay), Some(&of_pool(None))), Some(250));
    }

    #[test]
    fn the_pool_adds_its_mode_labels_and_taints() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let own = AgentPool {
            mode: Some("System".to_owned()),
            labels: [("team", "a"), ("odd key", "b"), ("odd", "a b")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            os_sku: Some("Ubuntu2404".to_owned()),
            has_fips: true,
            taints: texts(&[
                "sku=gpu:NoSchedule",
                "CriticalAddonsOnly=true:NoSchedule",
                "bare:NoExecute",
                "odd:Never",
                "odd key=a:NoExecute",
            ]),
            ..AgentPool::default()
        };
        let labels: Vec<_> = labels_of_pool(&own).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let of_aks = ["fips_enabled=true", "mode=system", "os-sku-requested=Ubuntu2404"];
        assert_eq!(labels[..3], of_aks.map(|label| format!("kubernetes.azure.com/{label}")));
        assert_eq!(labels[3..], ["team=a"]);
        let shown = |set: &ScaleSet| -> Vec<String> {
            let taints = taints(set, Some(&own));
            taints.iter().map(|one| format!("{}={}:{}", one.key, one.value, one.effect.as_str())).collect()
        };
        let plain = shown(&pool(&[]));
        assert_eq!(plain, ["CriticalAddonsOnly=true:NoSchedule", "bare=:NoExecute", "sku=gpu:NoSchedule"]);
        let spot = ScaleSet { spot: true, ..pool(&[]) };
        assert_eq!(shown(&spot).len(), 4, "{:?}", shown(&spot));
        let twice = AgentPool { taints: texts(&["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]), ..own };
        assert_eq!(taints(&spot, Some(&twice)).len(), 1, "AKS lists that of spot pools as the pool's own");
    }

    #[test]
    fn nodes_are_labelled_with_the_security_type_of_their_vms() {
        for (security_type, shown) in
            [(Some("TrustedLaunch"), true), (Some("ConfidentialVM"), true), (Some("Standard"), false), (None, false)]
        {
            let set = ScaleSet { security_type: security_type.map(str::to_owned), ..pool(&[]) };
            let expected = security_type.filter(|_| shown).map(str::to_owned);
            assert_eq!(label(&set, "kubernetes.azure.com/security-type"), expected, "{security_type:?}");
        }
    }

    #[test]
    fn the_label_of_the_cluster_is_the_nodes_resource_group() {
        for (group, shown) in [
            ("MC_AlgonquinPetStoreRG_AlgonquinPetStoreCluster_canadacentral", None),
            ("rg(1)", Some("rg-1-z")),
            (&"a".repeat(70), Some(&*"a".repeat(63))),
            (&format!("{}-b", "a".repeat(62)), Some(&*format!("{}z", "a".repeat(62)))),
        ] {
            assert_eq!(cluster(group), shown.unwrap_or(group));
        }
    }

    #[test]
    fn the_version_of_the_image_is_a_label() {
        let id = |rest: &str| format!("/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/{rest}");
        let of = |rest: &str| {
            label(&ScaleSet { image: Some(id(rest)), ..pool(&[]) }, "kubernetes.azure.com/node-image-version")
        };
        let version = of("AKSUbuntu/images/2204gen2containerd/versions/202510.03.1");
        assert_eq!(version.as_deref(), Some("AKSUbuntu-2204gen2containerd-202510.03.1"));
        assert_eq!((of("AKSUbuntu/images/2204gen2containerd"), of("ours/images/a/versions/1")), (None, None));
    }

    #[test]
    fn nodes_of_a_spot_pool_have_the_spot_label_and_taint() {
        let spot = ScaleSet { spot: true, ..pool(&[]) };
        for key in [SPOT, "kubernetes.azure.com/priority"] {
            assert_eq!(label(&spot, key).as_deref(), Some("spot"));
        }
        let taint = Taint { key: SPOT.into(), value: "spot".into(), effect: TaintEffect::NoSchedule };
        assert_eq!(taints(&spot, None), [taint]);
        assert_eq!((label(&pool(&[]), SPOT), taints(&pool(&[]), None)), (None, vec![]));
    }

    #[test]
    fn the_operating_system_comes_from_the_image() {
        for (gallery, system) in [
            ("AKSUbuntu/images/2204gen2containerd/versions/202509.23.0", Some("Ubuntu")),
            ("AKSAzureLinux/images/V3gen2/versions/202509.23.0", Some("AzureLinux")),
            ("AKSWindows/images/windows-2022-containerd-gen2/versions/20348.2655.240814", Some("Windows2022")),
            ("AKSCBLMariner/images/V2gen2/versions/1", None),
            ("ours/images/node/versions/1", None),
        ] {
            let id = format!("/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/{gallery}");
            let set = ScaleSet { image: Some(id), ..pool(&[]) };
            assert_eq!(label(&set, "kubernetes.azure.com/os-sku").as_deref(), system, "{gallery}");
            let family = match gallery.split('/').next() {
                Some("AKSUbuntu") => Some(ImageFamily::Ubuntu20),
                Some("AKSAzureLinux" | "AKSCBLMariner") => Some(ImageFamily::AzureLinux),
                _ => None,
            };
            let shown = node_image(&set).map(|image| (image.family, image.evidence));
            assert_eq!(shown, family.map(|family| (family, ImageEvidence::Gallery)), "{gallery}");
            let release = match gallery.split('/').nth(2) {
                Some("2204gen2containerd") => Some("Ubuntu2204"),
                Some("V3gen2") => Some("AzureLinux3"),
                _ => None,
            };
            assert_eq!(label(&set, "kubernetes.azure.com/os-sku-effective").as_deref(), release, "{gallery}");
            let build = (system == Some("Windows2022")).then_some("10.0.20348");
            assert_eq!(label(&set, "node.kubernetes.io/windows-build").as_deref(), build, "{gallery}");
        }
        assert_eq!(label(&pool(&[]), "kubernetes.azure.com/os-sku"), None);
    }

    #[test]
    fn the_family_of_an_image_that_is_not_of_aks_comes_from_its_name() {
        let named = |name: &str| ScaleSet { image_name: Some(name.to_owned()), ..ScaleSet::default() };
        let own = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/ours/images/flatcar-stable";
        let in_gallery = ScaleSet { image: Some(own.to_owned()), ..ScaleSet::default() };
        for (set, family) in [
            (named("kinvolk flatcar-container-linux-corevm-amd64 stable-gen2"), Some(ImageFamily::Flatcar)),
            (named("Canonical 0001-com-ubuntu-server-focal 20_04-lts-gen2"), Some(ImageFamily::Ubuntu20)),
            (named("Canonical 0001-com-ubuntu-server-jammy 22_04-lts-gen2"), Some(ImageFamily::Ubuntu22)),
            (named("RedHat RHEL 9-lvm-gen2"), Some(ImageFamily::RedHat8)),
            (named("MicrosoftWindowsServer WindowsServer 2022-datacenter-core"), None),
            (in_gallery, Some(ImageFamily::Flatcar)),
        ] {
            let shown = node_image(&set).map(|image| (image.family, image.evidence));
            assert_eq!(shown, family.map(|family| (family, ImageEvidence::Name)), "{set:?}");
        }
    }

    #[test]
    fn windows_nodes_have_no_disk_labels() {
        let windows = ScaleSet { windows: true, storage_account_type: Some("Premium_LRS".into()), ..pool(&[]) };
        let keys: Vec<_> = labels(&windows, &["Standard_D2s_v5".to_owned()], "rg").into_keys().collect();
        let of_aks =
            ["agentpool", "cluster", "nodepool-type", "role"].map(|name| format!("kubernetes.azure.com/{name}"));
        assert_eq!((keys[0].as_str(), &keys[1..]), ("agentpool", &of_aks[..]));
    }
}
