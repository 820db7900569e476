//! An instance type, as the cloud sells it.

/// An instance type, as the cloud sells it.
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
    /// Accelerators and other countable devices, by kind.
    pub accelerators: Vec<Accelerator>,
    /// The number of pods that the network can serve, if the type limits it (AWS: addresses of the network interfaces).
    pub network_pods: Option<u32>,
    /// Total size of an instance's local disks, in bytes; 0 if it has none.
    pub local_disk_bytes: Option<u64>,
}

/// Accelerators of one kind in an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    /// The extended resource that its device plugin announces, for instance `nvidia.com/gpu`.
    pub resource: String,
    /// How many.
    pub count: u32,
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
