//! How much of the memory that a cloud sells a kubelet reports: hypervisor, firmware and kernel keep a share.
//!
//! They keep four parts, each for a reason:
//!
//! - a share of the memory: the kernel describes each page of 4 KiB in 64 bytes, 1.5625 % on every Linux node; Nitro hosts
//!   keep another 1 to 2 %, Xen and Azure hosts next to nothing;
//! - a fixed part: the kernel itself and the firmware's tables;
//! - above 2 GiB, 64 MiB through which devices reach the memory that lies beyond their addresses (the kernel's `swiotlb`);
//! - above 2 GiB, for classes of instance types that are known to run such images, the memory that the kernels of RHEL and CentOS set
//!   aside for a crash dump (`crashkernel=auto`, 160 MiB).
//!
//! How much depends on the class of instance type (`class.rs`). The classes are upper bounds, fitted to 222 nodes whose kubelets'
//! reports are public. An estimate may be too low but never too high: a template that promises more than the node has makes the
//! Cluster Autoscaler add nodes forever. `docs/templates.md` lists every node, its estimate and the error. Where something cannot be
//! known beforehand (which of two generations of hosts an m5 gets, which kernel an image has), the estimate assumes the worst; a
//! table's `memory:`, a tag or a group's `memoryOverhead:` gives the exact figure.

mod class;
mod overhead;
#[cfg(test)]
mod tests;

pub use overhead::{Overhead, OverheadError};

use super::quantity::Quantity;
use crate::cloud::{Architecture, Family, OperatingSystem};

/// Windows reports the memory as sold. Of two nodes on Azure, one reported 0.4 MiB less.
const WINDOWS_KIB: u64 = 1024;

/// The properties that decide how much of its memory a node's kubelet does not see.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Its cloud.
    pub family: Family,
    /// Its type, in any case.
    pub type_name: &'a str,
    /// `None` if it is not known; the type's name then decides.
    pub architecture: Option<Architecture>,
    /// Its operating system.
    pub operating_system: OperatingSystem,
    /// The configured share that is kept, which replaces the estimate.
    pub overhead: Option<Overhead>,
}

/// The name of the class by which the memory of a host is estimated; `None` if its type is in no class, so that the most careful
/// estimate applies.
pub fn class_name(host: &Host<'_>) -> Option<&'static str> {
    if reports_all(host) {
        return Some("Azure, Windows");
    }
    class::class_of(host).map(|class| class.name)
}

/// The least capacity that a kubelet will report, in whole KiB, if the cloud sells `nominal` bytes.
pub fn reported(host: &Host<'_>, nominal: Quantity) -> Quantity {
    if let Some(overhead) = host.overhead {
        // Karpenter has this deduction for AWS only.
        let graviton = host.family == Family::Aws && host.architecture == Some(Architecture::Arm64);
        return overhead.left_of(nominal, graviton);
    }
    let nominal_kib = nominal.whole() / 1024;
    let kept_kib = if reports_all(host) { WINDOWS_KIB } else { class::kept_kib(host, nominal_kib) };
    Quantity::bytes(nominal_kib.saturating_sub(kept_kib) * 1024)
}

/// Whether the kubelet reports all of the memory, as on Windows on Azure. No such node on AWS is known.
fn reports_all(host: &Host<'_>) -> bool {
    host.family == Family::Azure && host.operating_system == OperatingSystem::Windows
}
