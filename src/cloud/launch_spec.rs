//! What a node group launches: the raw material of a node template.

use std::collections::BTreeMap;

use super::taint::Taint;

/// What a new instance of a node group is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchSpec {
    /// Every instance type the group may launch, none twice. More than one makes the group heterogeneous: the template
    /// then is the per-resource minimum.
    pub types: Vec<String>,
    /// The region, as the node's `topology.kubernetes.io/region` label has it.
    pub region: String,
    /// Every zone the group may launch in, as the node's `topology.kubernetes.io/zone` label has it, sorted.
    pub zones: Vec<String>,
    /// The operating system.
    pub operating_system: OperatingSystem,
    /// Labels the cloud's own node machinery sets (EKS managed node groups, AKS pools, the CSI driver's zone label).
    pub labels: BTreeMap<String, String>,
    /// Taints the cloud's own node machinery sets.
    pub taints: Vec<Taint>,
    /// Resource quantities the cloud's node machinery declares (tags of an EKS managed node group), as written.
    pub resources: BTreeMap<String, String>,
    /// Processors that the launch leaves a machine at most, where it switches some of its type's off.
    pub cpus_max: Option<u32>,
    /// The kubelet's limit of pods, where the launch says it, whatever the type.
    pub max_pods: Option<u32>,
    /// EKS caps the limit of pods, as it does in managed node groups with an image of its own.
    pub caps_pods: bool,
    /// Devices that the launch attaches whatever the type, by the resource that announces them.
    pub devices: BTreeMap<String, u32>,
    /// Size of the volume that holds pods' ephemeral storage, in bytes, where it is known.
    pub ephemeral_storage_bytes: Option<u64>,
    /// The node joins the disks that its type has of its own into one, for pods' ephemeral storage.
    pub joins_local_disks: bool,
    /// It can change without the group changing, because the launch template's version is `$Default` or `$Latest`.
    pub is_floating: bool,
    /// The group launches spot capacity only.
    pub is_spot: bool,
    /// How the node reserves resources for itself, where the cloud can tell.
    pub reserved: Option<ReservedProfile>,
}

/// Which rule says what a node keeps for kubelet and system.
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
    /// The value of the `kubernetes.io/os` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }
}
