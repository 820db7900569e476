//! What a node group launches: the raw material of a node template.

use std::collections::BTreeMap;

use super::kubelet_reserves::KubeletReserves;
use super::node_image::NodeImage;
use super::taint::Taint;

/// What a new instance of a node group is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchSpec {
    /// Every instance type that the group may launch, without duplicates. If there are several, the template has the
    /// minimum of each resource.
    pub types: Vec<String>,
    /// The region, as the node's `topology.kubernetes.io/region` label has it.
    pub region: String,
    /// Every zone the group may launch in, as the node's `topology.kubernetes.io/zone` label has it, sorted.
    pub zones: Vec<String>,
    /// The operating system.
    pub operating_system: OperatingSystem,
    /// The family of the image, if it is known: it decides how much memory the kernel keeps.
    pub image: Option<NodeImage>,
    /// The images of its launch options, where these differ: a node has the least memory and disk of any of them.
    pub images: Vec<NodeImage>,
    /// Labels that the launch settings and the cloud service set (user data, AKS pools, the CSI driver's zone label).
    pub labels: BTreeMap<String, String>,
    /// Whether nodes have labels with the vCPUs and the memory of their size, as AKS gives them.
    pub has_size_labels: bool,
    /// Taints that the launch settings and the cloud service set.
    pub taints: Vec<Taint>,
    /// Labels that the cloud service gives to every node, whatever tags of the group say (EKS managed node groups).
    pub fixed_labels: BTreeMap<String, String>,
    /// Taints that it gives to every node.
    pub fixed_taints: Vec<Taint>,
    /// Resource quantities that the cloud service declares (tags of an EKS managed node group), as written.
    pub resources: BTreeMap<String, String>,
    /// The highest number of vCPUs that an instance can have, if the launch settings disable some.
    pub cpus_max: Option<u32>,
    /// Whether the launch settings encrypt the memory of any of its instances (AMD SEV-SNP on AWS).
    pub is_encrypted: bool,
    /// Whether the kubelet labels nodes with NVIDIA GPUs (images of EKS for Kubernetes 1.35 and later).
    pub labels_gpus: bool,
    /// Whether each core has one thread, although the type may have two: half of its vCPUs.
    pub has_one_thread_per_core: bool,
    /// The kubelet's pod limit, if the launch settings set one for all instance types.
    pub max_pods: Option<u32>,
    /// The lowest pod limit that any of the launch settings sets, although others may set none.
    pub pods_at_most: Option<u32>,
    /// Whether EKS caps the pod limit, as it does in managed node groups that use one of its images.
    pub caps_pods: bool,
    /// Devices that the launch attaches to an instance of any type, by extended resource.
    pub devices: BTreeMap<String, u32>,
    /// Whether any of its instances may have an Elastic Fabric Adapter, for which images set huge pages aside.
    pub has_efa: bool,
    /// Size of the volume that holds pods' ephemeral storage, in bytes, if it is known.
    pub ephemeral_storage_bytes: Option<u64>,
    /// What becomes of its local disks.
    pub local_disks: LocalDisks,
    /// The most pages of 2 MiB that the launch settings tell a kernel to set aside.
    pub huge_pages: u64,
    /// Whether it can change although the group does not, because the launch template's version is `$Default` or
    /// `$Latest`.
    pub is_floating: bool,
    /// Whether it lacks something that could not be read, but may be readable a little later.
    pub is_provisional: bool,
    /// Labels and taints that it lacks because they could not be read.
    pub unread: Option<Unread>,
    /// Whether the group launches spot capacity only.
    pub is_spot: bool,
    /// How the node reserves resources for itself, if the cloud shows it.
    pub reserved: Option<ReservedProfile>,
    /// What the launch settings tell the kubelet to reserve, in place of what the profile reserves.
    pub kubelet_reserves: KubeletReserves,
}

/// A part of a launch spec that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// What is missing: `managed node group workers`.
    pub what: String,
    /// Why it could not be read.
    pub reason: String,
    /// Whether it may be readable in a moment, so that a template had better wait for it.
    pub is_momentary: bool,
}

/// Whether a node combines its local disks into one volume for pods' ephemeral storage. What holds less comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalDisks {
    /// It does not.
    #[default]
    Apart,
    /// Half of them holds a copy of the other half (RAID 10).
    Mirrored,
    /// It does (RAID 0).
    Joined,
}

/// The rule for what a node reserves for the kubelet and the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservedProfile {
    /// EKS AMIs (nodeadm's formulas).
    Eks,
    /// AKS from 1.29 on.
    Aks,
    /// AKS before 1.29.
    AksLegacy,
    /// Eviction threshold only.
    Kubeadm,
    /// OpenShift's default KubeletConfig.
    OpenShift,
}

/// Operating systems of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OperatingSystem {
    /// `kubernetes.io/os=linux`
    #[default]
    Linux,
    /// `kubernetes.io/os=windows`
    Windows,
}

impl OperatingSystem {
    /// The operating system of a `kubernetes.io/os` label.
    pub fn of_label(label: &str) -> Option<Self> {
        [Self::Linux, Self::Windows].into_iter().find(|system| system.label() == label)
    }

    /// The value of the `kubernetes.io/os` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }
}
