//! Real nodes, and the type and settings that the test assumes to be known of each before it exists.

use std::collections::BTreeMap;

use headcount::cloud::{Family, ImageEvidence, ImageFamily, NodeImage, OperatingSystem, ReservedProfile};
use headcount::instance_types::Quantity;
use headcount::instance_types::memory_model::{Host, Kernel};
use headcount::template::ReservedRule;
use serde::Deserialize;

const NODES: &str = include_str!("../../data/real-nodes.jsonl");

/// A node as its kubelet reported it; see tests/data/README.md.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Node {
    cloud: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
    pub(crate) nominal_memory_mib: u64,
    pub(crate) cpu: String,
    pub(crate) allocatable_cpu: Option<String>,
    pub(crate) memory_ki: u64,
    pub(crate) allocatable_memory_ki: Option<u64>,
    pub(crate) pods: Option<u32>,
    pub(crate) ephemeral_storage: Option<String>,
    pub(crate) allocatable_ephemeral_storage: Option<String>,
    #[serde(default)]
    pub(crate) hugepages: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) devices: BTreeMap<String, String>,
    pub(crate) image: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) kubelet: Option<String>,
    pub(crate) distribution: String,
    pub(crate) product: Option<String>,
    reserved: Option<String>,
    note: Option<String>,
    pub(crate) source: String,
}

/// How a node reserves resources for itself, in the terms of `reserved:`.
#[derive(Clone, Debug)]
pub(crate) struct Practice {
    pub(crate) profile: ReservedProfile,
    /// Settings besides the profile.
    pub(crate) rule: ReservedRule,
}

pub(crate) fn nodes() -> Vec<Node> {
    let nodes: Vec<Node> = NODES.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(nodes.len() > 200, "{} nodes", nodes.len());
    nodes
}

impl Node {
    pub(crate) fn family(&self) -> Family {
        match self.cloud.as_str() {
            "aws" => Family::Aws,
            "azure" => Family::Azure,
            other => panic!("{other} is not a cloud"),
        }
    }

    pub(crate) fn operating_system(&self) -> OperatingSystem {
        match &self.image {
            Some(image) if image.starts_with("Windows") => OperatingSystem::Windows,
            _ => OperatingSystem::Linux,
        }
    }

    pub(crate) fn nominal_kib(&self) -> u64 {
        self.nominal_memory_mib * 1024
    }

    /// The machine as the memory model sees it.
    pub(crate) fn host(&self, image: Option<NodeImage>) -> Host<'_> {
        Host {
            family: self.family(),
            type_name: &self.type_name,
            architecture: None,
            operating_system: self.operating_system(),
            image,
            is_encrypted: false,
            learned_missing_kib: None,
            overhead: None,
        }
    }

    /// The generation of its kernel, if the node reports one of Linux.
    pub(crate) fn kernel_generation(&self) -> Option<Kernel> {
        let core_os = self.image.as_deref().is_some_and(|image| image.contains("CoreOS"));
        self.kernel.as_deref().and_then(|kernel| Kernel::of_release(kernel, core_os))
    }

    /// What the name of its machine image would show: the family, its release, and for EKS and AKS the version of
    /// Kubernetes.
    pub(crate) fn node_image(&self) -> Option<NodeImage> {
        let (image, kernel) = (self.image.as_deref()?, self.kernel.as_deref().unwrap_or_default());
        let mut family = ImageFamily::of_name(image)?;
        if kernel.contains(".el7") && family != ImageFamily::RedHat7 {
            // The kubelet runs in a container of another system, whose name it reports.
            return None;
        }
        // The name of the image in AKS's gallery has the release: 2204gen2containerd.
        if self.distribution == "aks" && family == ImageFamily::Ubuntu22 && image.starts_with("Ubuntu 22") {
            family = ImageFamily::Ubuntu20;
        }
        // The name of EKS's image has the version of Kubernetes.
        if family == ImageFamily::AmazonLinux2023 {
            let version = self.kubelet.as_deref().and_then(|kubelet| kubelet.strip_prefix('v'));
            let minor = version.and_then(|version| version.rsplit_once('.').map(|(minor, _)| minor));
            family = ImageFamily::of_ami_type("AL2023_x86_64_STANDARD", minor).unwrap_or(family);
        }
        Some(NodeImage { family, evidence: ImageEvidence::Name })
    }

    /// How exact the difference between capacity and allocatable is, in KiB.
    pub(crate) fn slack_ki(&self) -> u64 {
        match &self.note {
            Some(note) if note.starts_with("rounded") => 1024,
            // The lowest figures of several nodes, each by itself; nodes of one image differ by some KiB.
            _ if self.source.starts_with("2i2c-org/") => 64,
            _ => 0,
        }
    }

    /// What the node's distribution reserves. `None` where the user chose a reserve of their own.
    pub(crate) fn practice(&self) -> Option<Practice> {
        let plain = |profile| Some(Practice { profile, rule: ReservedRule::default() });
        match (self.distribution.as_str(), self.reserved.as_deref()?) {
            ("eks", rule) if rule.starts_with("EKS 255+11*") => plain(ReservedProfile::Eks),
            ("aks", rule) if rule.starts_with("AKS>=1.29") => plain(ReservedProfile::Aks),
            ("aks", rule) if rule.starts_with("AKS<1.29") || rule.starts_with("AKS-win") => {
                plain(ReservedProfile::AksLegacy)
            }
            ("openshift", rule) if rule.starts_with("OpenShift auto") => plain(ReservedProfile::OpenShift),
            ("openshift", "OpenShift 1Gi+100") => given(ReservedProfile::OpenShift, &[("memory", "1Gi")], None),
            ("openshift", "OpenShift<=4.4 500+100") => given(ReservedProfile::OpenShift, &[("memory", "500Mi")], None),
            // kops, kubeadm and derivatives; an EKS node of 1.14 and an AKS node of 1.9 reserve no more than that.
            (_, "default eviction 100Mi") => plain(ReservedProfile::Kubeadm),
            (_, "aks-engine eviction 750Mi only") => given(ReservedProfile::Kubeadm, &[], Some("750Mi")),
            _ => None,
        }
    }

    /// The pod limit that its kubelet was given, if it is neither the kubelet's default nor EKS's own figure. AKS
    /// always sets one.
    pub(crate) fn max_pods(&self) -> Option<u32> {
        let by_network = self.reserved.as_deref() == Some("EKS 255+11*pods+100");
        if self.distribution == "aks" {
            return self.pods.or(Some(110));
        }
        self.pods.filter(|pods| !by_network && *pods != 110 || self.is_limited())
    }

    /// An EKS node whose kubelet has another limit than its network interfaces.
    pub(crate) fn is_limited(&self) -> bool {
        self.reserved.as_deref().is_some_and(|rule| rule.starts_with("EKS 255+11*N"))
    }

    pub(crate) fn memory(&self) -> Quantity {
        quantity(&format!("{}Ki", self.memory_ki))
    }

    pub(crate) fn allocatable_memory(&self) -> Option<Quantity> {
        self.allocatable_memory_ki.map(|ki| quantity(&format!("{ki}Ki")))
    }
}

fn given(profile: ReservedProfile, system: &[(&str, &str)], eviction: Option<&str>) -> Option<Practice> {
    let system_reserved = system.iter().map(|(name, amount)| ((*name).to_owned(), quantity(amount))).collect();
    let threshold = |text: &str| ("memory.available".to_owned(), text.parse().expect("a threshold"));
    let eviction_hard = eviction.map(threshold).into_iter().collect();
    Some(Practice { profile, rule: ReservedRule { system_reserved, eviction_hard, ..ReservedRule::default() } })
}

pub(crate) fn quantity(text: &str) -> Quantity {
    text.parse().expect(text)
}
