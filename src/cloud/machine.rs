//! What a new instance of a group would be: the raw material of a node template.

use std::collections::BTreeMap;

/// What a group launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Every machine type the group may launch, none twice. More than one makes the group heterogeneous: the template
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

/// The label that a kubelet on Windows gives its node.
#[cfg(any(feature = "aws", feature = "azure"))]
pub(super) const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";

/// The value of [`WINDOWS_BUILD_LABEL`] where a text, such as an image's name, has the year of a release of Windows Server
/// in it.
#[cfg(any(feature = "aws", feature = "azure"))]
pub(super) fn windows_build(text: &str) -> Option<&'static str> {
    [("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100")]
        .into_iter()
        .find_map(|(year, build)| text.contains(year).then_some(build))
}

/// Processor architectures of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Architecture {
    /// `kubernetes.io/arch=amd64`
    Amd64,
    /// `kubernetes.io/arch=arm64`
    Arm64,
}

impl Architecture {
    /// The value of the `kubernetes.io/arch` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// A node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
    /// The effect.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// `NoSchedule`
    NoSchedule,
    /// `PreferNoSchedule`
    PreferNoSchedule,
    /// `NoExecute`
    NoExecute,
}

impl TaintEffect {
    /// The name Kubernetes gives it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// The effect of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute].into_iter().find(|effect| effect.as_str() == name)
    }
}

impl Taint {
    /// Reads `value:Effect`, as the value of a `node-template/taint/…` tag has it. The value may be empty.
    pub fn from_tag(key: &str, value: &str) -> Option<Self> {
        let (value, effect) = value.rsplit_once(':')?;
        Some(Self { key: key.to_owned(), value: value.to_owned(), effect: TaintEffect::parse(effect)? })
    }
}

/// A machine type, as the cloud sells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Its name.
    pub name: String,
    /// Virtual processors.
    pub cpus: u32,
    /// Memory, in MiB, before hypervisor and kernel take their share.
    pub memory_mib: u64,
    /// The architecture.
    pub architecture: Architecture,
    /// Accelerators and whatever else a type has a number of, by kind.
    pub accelerators: Vec<Accelerator>,
    /// Pods the network can serve, where the type bounds them (AWS: addresses of the network interfaces).
    pub network_pods: Option<u32>,
    /// Size of the disks that a machine has of its own, together and in bytes; 0 where it has none.
    pub local_disk_bytes: Option<u64>,
}

/// Accelerators of one kind in a machine type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    /// The extended resource that its device plugin announces, for instance `nvidia.com/gpu`.
    pub resource: String,
    /// How many.
    pub count: u32,
}
