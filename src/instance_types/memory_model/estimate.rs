//! The formula: from the memory that a cloud sells to the capacity that a kubelet reports, and back.

use super::class::{self, Class};
use super::{Figures, Host, Kernel};
use crate::cloud::{Architecture, Family, ImageFamily};

const KIB_PER_MIB: u64 = 1024;
/// Instances up to this size reach all memory without bounce buffers, and set none aside for crash dumps (RHEL's
/// `crashkernel=auto` starts at 2 GiB): a t3.small keeps 92 MiB, a t3.medium with the same image keeps 210 MiB.
const SMALL_KIB: u64 = 2048 * KIB_PER_MIB;
/// The kernel's bounce buffers (`swiotlb`).
const BOUNCE_KIB: u64 = 64 * KIB_PER_MIB;
/// The most that they take where the memory is encrypted.
const CONFIDENTIAL_BOUNCE_KIB: u64 = 1024 * KIB_PER_MIB;
/// Each page of 4 KiB is described in 64 bytes.
const PAGES_PER_DESCRIPTION: u64 = 64;
/// Subtracted from each estimate: two nodes of one type whose kernels are of one generation differ by up to 20 MiB.
const MARGIN_KIB: i64 = 16 * 1024;
/// What Bottlerocket keeps beyond other images with its kernel: a g4dn.xlarge 17 MiB.
const BOTTLEROCKET_KIB: i64 = 18 * 1024;
/// What Azure Linux sets aside for a crash dump (microsoft/azurelinux#5460).
const AZURE_LINUX_CRASH_KIB: i64 = 256 * 1024;
/// Where an image that is not known might set memory aside for a crash dump, the estimate may be too high by one part
/// in this many.
const CRASH_KERNEL_LESS: u64 = 200;

/// Where the figure for what is missing on a host comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFigure {
    /// Nodes of this type showed it to Headcount.
    Learned,
    /// Nodes of this type were observed before the release.
    Observed {
        /// How many.
        nodes: u32,
    },
    /// The worst case of this class of types.
    Class(&'static str),
    /// The worst case of all classes.
    Unknown,
}

/// The kernel whose figure counts for an image.
pub fn kernel_of(image: ImageFamily) -> Kernel {
    match image {
        ImageFamily::AmazonLinux2 | ImageFamily::Ubuntu18 | ImageFamily::Debian11 => Kernel::Linux5,
        ImageFamily::Ubuntu20 | ImageFamily::FlatcarEarly | ImageFamily::RedHatCoreOs => Kernel::Linux5Late,
        ImageFamily::AmazonLinux2023Late | ImageFamily::Ubuntu26 => Kernel::Linux6Late,
        ImageFamily::AmazonLinux2023
        | ImageFamily::Bottlerocket
        | ImageFamily::Ubuntu22
        | ImageFamily::Flatcar
        | ImageFamily::AzureLinux
        | ImageFamily::Debian12 => Kernel::Linux6,
        ImageFamily::RedHat7 => Kernel::RedHat7,
        ImageFamily::RedHat8 => Kernel::RedHat8,
    }
}

impl Figures {
    /// The capacity that a kubelet on Linux reports at least, in KiB.
    pub fn estimate_kib(&self, host: &Host<'_>, nominal_kib: u64) -> u64 {
        let (missing, figure) = self.missing_kib(host, nominal_kib);
        // What nodes of the type have shown includes it, unless the launch settings decide whether it is encrypted.
        let is_shown = matches!(figure, HostFigure::Learned | HostFigure::Observed { .. });
        let bounce = if (is_shown && !host.is_encrypted) || !class::is_confidential(host) {
            bounce_kib(nominal_kib)
        } else {
            confidential_bounce_kib(nominal_kib)
        };
        let kept = self.image_kib(host, nominal_kib) + MARGIN_KIB;
        less(described(less(nominal_kib, missing)).saturating_sub(bounce), kept)
    }

    /// The capacity without a margin, for a kernel and a host that are known, in KiB.
    pub fn unbiased_kib(&self, kernel: Kernel, missing_kib: i64, nominal_kib: u64) -> u64 {
        let rest = described(less(nominal_kib, missing_kib)).saturating_sub(bounce_kib(nominal_kib));
        less(rest, self.kernel_kib(kernel))
    }

    /// What is missing on a host before the kernel starts, in KiB, by what its node reported. An unknown kernel is
    /// taken for one of Linux 6, as a template without a known image does; it may keep less, so the rest is not taken
    /// to be below zero.
    pub fn missing_by_report_kib(&self, kernel: Option<Kernel>, nominal_kib: u64, reported_kib: u64) -> i64 {
        let of_kernel = self.kernel_kib(kernel.unwrap_or(Kernel::Linux6));
        let missing = kept_and_missing_kib(nominal_kib, reported_kib).saturating_sub(of_kernel + of_kernel / 63);
        if kernel.is_some() { missing } else { missing.max(0) }
    }

    /// What is missing on the worst host, in KiB, and where the figure comes from. Of a type that runs on two kinds
    /// of hosts, a figure counts only if nodes on both were seen.
    pub(super) fn missing_kib(&self, host: &Host<'_>, nominal_kib: u64) -> (i64, HostFigure) {
        let class = class::class_of(host);
        let by_class = by_class(host, class, nominal_kib);
        let name = host.type_name.to_ascii_lowercase();
        let observed = match host.family {
            Family::Aws => self.aws.get(&name),
            Family::Azure => self.azure.get(name.strip_suffix("_promo").unwrap_or(&name)),
        };
        let observed = observed.map(|figure| (figure.mib * 1024, HostFigure::Observed { nodes: figure.nodes }, figure));
        let two_hosts = class.is_some_and(|class| class.two_hosts);
        let shipped = match observed {
            Some((missing, shown, figure)) if !two_hosts || figure.both_hosts => Some((missing, shown)),
            Some((missing, shown, _)) if missing > by_class.0 => Some((missing, shown)),
            Some(_) => Some(by_class),
            None => two_hosts.then_some(by_class),
        };
        let learned = host.learned_missing_kib.map(|missing| (missing, HostFigure::Learned));
        match (shipped, learned) {
            (Some(shipped), Some(learned)) if shipped.0 >= learned.0 => shipped,
            (_, Some(learned)) => learned,
            (Some(shipped), None) => shipped,
            (None, None) => by_class,
        }
    }

    /// What a kernel and its image keep, in KiB.
    fn image_kib(&self, host: &Host<'_>, nominal_kib: u64) -> i64 {
        let Some(image) = host.image else {
            let recent = self.kernel_kib(Kernel::Linux6);
            // What is in no class may be of any.
            let may_crash = class::class_of(host).map_or(host.family == Family::Aws, |class| class.crash_kernel);
            let most = self.kernel_kib(Kernel::RedHat7);
            let tolerated = i64::try_from(nominal_kib / CRASH_KERNEL_LESS).unwrap_or(i64::MAX);
            let more = if may_crash { (most - tolerated - recent).max(0) } else { 0 };
            // It grows with a quarter of the memory beyond 2 GiB, so that more memory never means a lower estimate.
            let limit = i64::try_from(nominal_kib.saturating_sub(SMALL_KIB) / 4).unwrap_or(i64::MAX);
            return recent + more.min(limit);
        };
        let more = if image.family == ImageFamily::RedHat8 { more_for_crashes_kib(host, nominal_kib) } else { 0 };
        self.of_image_kib(image.family, None) + more
    }

    /// What images of a family keep, in KiB: with this kernel, or with the newest that such images have.
    pub(super) fn of_image_kib(&self, family: ImageFamily, kernel: Option<Kernel>) -> i64 {
        self.kernel_kib(kernel.unwrap_or_else(|| kernel_of(family)))
            + match family {
                ImageFamily::Bottlerocket => BOTTLEROCKET_KIB,
                ImageFamily::AzureLinux => AZURE_LINUX_CRASH_KIB,
                _ => 0,
            }
    }
}

/// What the crash kernel of RHEL from 8 on takes beyond the 256 MiB that the figure of these images has, in KiB: on x86,
/// 256 MiB more beyond 64 GB; on Arm, 480 MiB (RHEL 8) or 576 MiB beyond 64 GB (RHEL 9) in all. From Red Hat's tables of
/// crashkernel; no such node is known. It grows with a quarter of the memory beyond 64 GiB, so that more memory never
/// means a lower estimate.
fn more_for_crashes_kib(host: &Host<'_>, nominal_kib: u64) -> i64 {
    const LARGE_KIB: u64 = 64 << 20;
    let (small, large) = match host.architecture {
        Some(Architecture::Arm64) => (224 << 10, 320 << 10),
        Some(Architecture::Amd64) | None => (0, 256 << 10),
    };
    let beyond = i64::try_from(nominal_kib.saturating_sub(LARGE_KIB) / 4).unwrap_or(i64::MAX);
    small + beyond.min(large - small)
}

/// What a node lacks of its nominal memory besides the description of its pages and the bounce buffers, in KiB.
pub fn kept_and_missing_kib(nominal_kib: u64, reported_kib: u64) -> i64 {
    let usable = reported_kib.saturating_add(bounce_kib(nominal_kib));
    let before = usable.saturating_add(usable / (PAGES_PER_DESCRIPTION - 1));
    i64::try_from(nominal_kib).unwrap_or(i64::MAX).saturating_sub(i64::try_from(before).unwrap_or(i64::MAX))
}

/// The worst case of a class, or of all classes, in KiB.
pub(super) fn by_class(host: &Host<'_>, class: Option<&'static Class>, nominal_kib: u64) -> (i64, HostFigure) {
    let (missing, figure) = match class {
        Some(class) => (class.missing_kib(nominal_kib), HostFigure::Class(class.name)),
        // Which class lacks the most depends on the size.
        None => {
            let most = class::classes(host.family).iter().map(|class| class.missing_kib(nominal_kib)).max();
            (most.unwrap_or(nominal_kib), HostFigure::Unknown)
        }
    };
    (i64::try_from(missing).unwrap_or(i64::MAX), figure)
}

fn described(usable_kib: u64) -> u64 {
    usable_kib - usable_kib.div_ceil(PAGES_PER_DESCRIPTION)
}

/// It grows with half of the memory beyond 2 GiB, so that more memory never means a lower estimate.
fn bounce_kib(nominal_kib: u64) -> u64 {
    BOUNCE_KIB.min(nominal_kib.saturating_sub(SMALL_KIB) / 2)
}

/// A guest whose memory is encrypted bounces all of its input and output: 6 % of its memory, 1 GiB at most
/// (`mem_encrypt_setup_arch` of Linux).
fn confidential_bounce_kib(nominal_kib: u64) -> u64 {
    (nominal_kib.saturating_mul(6) / 100).clamp(bounce_kib(nominal_kib), CONFIDENTIAL_BOUNCE_KIB)
}

fn less(kib: u64, other: i64) -> u64 {
    kib.saturating_add_signed(other.saturating_neg())
}
