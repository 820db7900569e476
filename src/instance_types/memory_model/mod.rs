//! How much of the memory that a cloud sells a kubelet reports.
//!
//! `capacity = (nominal − R) × 63/64 − 64 MiB − K`, because memory goes missing in four places, each for a reason:
//!
//! - R is missing before the kernel starts: the firmware and the hypervisor reserve it at the top of the memory. It
//!   depends on the instance type and on the host. Nitro hosts reserve 1 to 2 %, Xen and Azure hosts next to nothing.
//! - The kernel describes each page of 4 KiB in 64 bytes: one part in 64.
//! - Above 2 GiB, 64 MiB serve devices that cannot reach all addresses (the kernel's `swiotlb`).
//! - K is what the kernel and its image keep. It depends on the generation of the kernel, which the image's family
//!   shows, and on whether the image sets memory aside for a crash dump.
//!
//! Both figures come from nodes whose kubelets' reports are public (`instance-types/memory.yaml`; docs/templates.md
//! has the rule by which they are fitted, and the errors). R of a type that was never observed is the worst of its
//! class (`class.rs`). An estimate may be too low but never too high: a template that promises more than the node has
//! makes the Cluster Autoscaler add nodes forever. So R is that of the worst host, K that of the newest kernel of the
//! image's family, and a margin is subtracted. What nodes of a type showed ([`Host::learned_missing_kib`]), a table's
//! `memory:`, a tag or a group's `memoryOverhead:` are more exact.

mod class;
mod estimate;
mod figures;
mod kernel;
mod overhead;
#[cfg(test)]
mod tests;

pub use estimate::{HostFigure, kept_and_missing_kib, kernel_of};
pub use figures::{Figure, Figures};
pub use kernel::Kernel;
pub use overhead::{Overhead, OverheadError};

use super::quantity::Quantity;
use crate::cloud::{Architecture, Family, ImageFamily, NodeImage, OperatingSystem};

/// Windows reports the memory as sold. Of two nodes on Azure, one reported 0.4 MiB less.
const WINDOWS_KIB: u64 = 1024;
/// By how much what is missing on a host may differ from what is known of its class, besides a quarter.
const MISSING_SLACK_KIB: i64 = 128 * 1024;

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
    /// Its image; `None` if it may be any.
    pub image: Option<NodeImage>,
    /// Whether the launch settings encrypt its memory (AMD SEV-SNP on AWS).
    pub is_encrypted: bool,
    /// What is missing on the worst host of this type that nodes have shown, in KiB.
    pub learned_missing_kib: Option<i64>,
    /// The configured share that is kept, which replaces the estimate.
    pub overhead: Option<Overhead>,
}

impl<'a> Host<'a> {
    /// A host of which only the type is known. Names of the two clouds do not overlap.
    fn named(type_name: &'a str) -> Self {
        let prefix = type_name.split('_').next().unwrap_or_default();
        let azure = ["standard", "basic"].iter().any(|word| prefix.eq_ignore_ascii_case(word));
        Self {
            family: if azure { Family::Azure } else { Family::Aws },
            type_name,
            architecture: None,
            operating_system: OperatingSystem::Linux,
            image: None,
            is_encrypted: false,
            learned_missing_kib: None,
            overhead: None,
        }
    }
}

/// The name of the class by which the memory of a host is estimated; `None` if its type is in no class, so that the
/// most careful estimate applies.
pub fn class_name(host: &Host<'_>) -> Option<&'static str> {
    if reports_all(host) {
        return Some("Azure, Windows");
    }
    class::class_of(host).map(|class| class.name)
}

/// Where the figure for what is missing on a host of this type comes from.
pub fn host_figure(host: &Host<'_>, nominal: Quantity) -> HostFigure {
    if reports_all(host) {
        return HostFigure::Class("Azure, Windows");
    }
    Figures::shipped().missing_kib(host, nominal.whole() / 1024).1
}

/// The worst case of the type's class, in MiB.
pub fn worst_of_class_mib(host: &Host<'_>, nominal_mib: u64) -> u64 {
    let (missing, _) = estimate::by_class(host, class::class_of(host), nominal_mib * 1024);
    u64::try_from(missing).unwrap_or_default() / 1024
}

/// Whether types of its class run on two kinds of hosts.
pub fn runs_on_two_hosts(host: &Host<'_>) -> bool {
    class::class_of(host).is_some_and(|class| class.two_hosts)
}

/// Whether the type runs on two kinds of hosts, by its name alone.
pub fn type_runs_on_two_hosts(type_name: &str) -> bool {
    runs_on_two_hosts(&Host::named(type_name))
}

/// The most that is missing on a host before its kernel starts, in KiB, by what a node with this kernel reported. A
/// kernel that may have set memory aside for a crash dump counts as one that did not.
pub fn missing_at_most_kib(kernel: Kernel, nominal: Quantity, reported: Quantity) -> i64 {
    let kernel = kernel.without_crash_dump();
    Figures::shipped().missing_by_report_kib(Some(kernel), nominal.whole() / 1024, reported.whole() / 1024)
}

/// Whether firmware can reserve that much on a host of this type: a quarter more than the worst of its class, and 128
/// MiB. Where more is missing, an image keeps it.
pub fn is_plausible_missing(type_name: &str, nominal: Quantity, missing_kib: i64) -> bool {
    let host = Host::named(type_name);
    let (worst, _) = estimate::by_class(&host, class::class_of(&host), nominal.whole() / 1024);
    (-MISSING_SLACK_KIB..=worst.saturating_add(worst / 4).saturating_add(MISSING_SLACK_KIB)).contains(&missing_kib)
}

/// What images of a family keep, in KiB: with this kernel, or with the newest that such images have.
pub fn keeps_kib(family: ImageFamily, kernel: Option<Kernel>) -> i64 {
    Figures::shipped().of_image_kib(family, kernel)
}

/// The least capacity that a kubelet will report, in whole KiB, if the cloud sells `nominal` bytes.
pub fn reported(host: &Host<'_>, nominal: Quantity) -> Quantity {
    if let Some(overhead) = host.overhead {
        // Karpenter has this deduction for AWS only.
        let graviton = host.family == Family::Aws && host.architecture == Some(Architecture::Arm64);
        return overhead.left_of(nominal, graviton);
    }
    let nominal_kib = nominal.whole() / 1024;
    let reported_kib = if reports_all(host) {
        nominal_kib.saturating_sub(WINDOWS_KIB)
    } else {
        Figures::shipped().estimate_kib(host, nominal_kib)
    };
    Quantity::bytes(reported_kib.saturating_mul(1024))
}

/// Whether the kubelet reports all of the memory, as on Windows on Azure. No such node on AWS is known.
fn reports_all(host: &Host<'_>) -> bool {
    host.family == Family::Azure && host.operating_system == OperatingSystem::Windows
}
