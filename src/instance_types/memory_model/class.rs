//! Classes of instance types whose hypervisors and kernels keep the same share of the memory.

use super::Host;
use crate::cloud::{Architecture, Family};

const MIB: u64 = 1024;
/// Instances up to this size reach all memory without bounce buffers, and set none aside for crash dumps (RHEL's `crashkernel=auto`
/// starts at 2 GiB): a t3.small keeps 92 MiB, a t3.medium with the same image keeps 210 MiB.
const SMALL_KIB: u64 = 2048 * MIB;
/// The kernel's bounce buffers.
const BOUNCE_KIB: u64 = 64 * MIB;
/// Nodes on CentOS and RHEL 7 keep 155 to 165 MiB more than others of their type and time, their kernels 20 MiB less than
/// today's. Such a node cannot be recognised beforehand, so every type of the class is estimated lower.
const CRASH_KERNEL_KIB: u64 = 140 * MIB;
/// For those images, the estimate may be too high by one part in this many: 0.5 %.
const CRASH_KERNEL_LESS: u64 = 200;
/// Shares are in hundredths of a percent.
const WHOLE: u64 = 10_000;

/// Instance types that keep the same share of memory.
#[derive(Debug)]
pub(super) struct Class {
    /// The name in messages.
    pub(super) name: &'static str,
    /// In hundredths of a percent of nominal memory.
    share: u64,
    fixed_mib: u64,
    /// Whether images with a crash kernel are known to run on such instances.
    crash_kernel: bool,
    architecture: Architecture,
    /// Whether a type belongs to the class, by the parts of its family's name: letters, generation, suffix.
    has: fn(&str, u32, &str) -> bool,
}

use Architecture::{Amd64, Arm64};

/// Each comment has the number of known nodes of the class, their sizes, and the lowest, median and highest difference between the
/// estimate and the capacity that they report, in percent of that capacity. docs/templates.md lists each node.
///
/// A type in no class is estimated by the class that keeps the most. This is intended for generations from 8 on, of which no node is
/// known.
const AWS: [Class; 7] = [
    // 27 nodes, 2 to 64 GiB: -6.2/-0.7/+0.3. Above: CentOS and RHEL.
    // Lowest: c4.large, whose 3.75 GiB need no bounce buffers.
    Class {
        name: "Xen",
        share: 165,
        fixed_mib: 60,
        crash_kernel: true,
        architecture: Amd64,
        has: |letters, generation, rest| matches!((letters, generation, rest), ("t", 2, "") | ("m" | "c" | "r", 4, "")),
    },
    // 47 nodes, 2 to 16 GiB: -3.8/-1.5/+0.4. Above: a t3.xlarge on CentOS. No smaller one on CentOS was seen; to allow for
    // one would take another 1.3 % from every t3.medium, of which 26 were seen.
    Class {
        name: "burstable",
        share: 270,
        fixed_mib: 112,
        crash_kernel: false,
        architecture: Amd64,
        has: |letters, generation, rest| matches!((letters, generation, rest), ("t", 3, "" | "a")),
    },
    // 57 nodes, 4 to 256 GiB: -3.5/-1.1/+0.3. Above: an m5.2xlarge on CentOS. There are two kinds of hosts, which keep 3.67
    // and 2.7 % of the memory; a type lands on either.
    Class {
        name: "Nitro, generation 5",
        share: 367,
        fixed_mib: 205,
        crash_kernel: true,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r", 5) => true,
            ("d", 3) => rest.is_empty(),
            _ => false,
        },
    },
    // 13 nodes, 4 to 128 GiB: -0.8/0.0/0.0.
    Class {
        name: "Intel, generations 6 and 7",
        share: 320,
        fixed_mib: 125,
        crash_kernel: false,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r", 6 | 7) | ("i", 4) => rest.starts_with('i'),
            _ => false,
        },
    },
    // 6 nodes, 4 to 384 GiB: -0.5/0.0/0.0.
    Class {
        name: "AMD, generations 6 and 7",
        share: 365,
        fixed_mib: 115,
        crash_kernel: false,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r" | "hpc", 6 | 7) => rest.starts_with('a'),
            _ => false,
        },
    },
    // 4 nodes, 32 and 128 GiB: -0.3/-0.3/0.0.
    Class {
        name: "Graviton 2 and 3",
        share: 366,
        fixed_mib: 115,
        crash_kernel: false,
        architecture: Arm64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r" | "hpc", 6 | 7) | ("t" | "im", 4) => rest.starts_with('g'),
            _ => false,
        },
    },
    // 10 nodes, 16 to 1152 GiB: -2.2/-1.3/+0.4. Above: a g6.xlarge on Linux 6.18, which keeps 1017 MiB where others of 16 GiB
    // keep 605 to 773 on older kernels. It is the only node seen with that kernel.
    Class {
        name: "accelerated",
        share: 365,
        fixed_mib: 290,
        crash_kernel: false,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("g", 4..=6) | ("p", 4) | ("inf", 1 | 2) | ("trn", 1) => true,
            ("p", 3) => rest == "dn",
            _ => false,
        },
    },
];

const AZURE: [Class; 2] = [
    // 57 nodes, 3.5 to 672 GiB: -1.4/-0.5/0.0. HB120rs_v3 reports more than it is sold with.
    Class {
        name: "Azure, x86",
        share: 167,
        fixed_mib: 86,
        crash_kernel: false,
        architecture: Amd64,
        has: |letters, generation, _| {
            generation < 6 && matches!(letters, "b" | "d" | "ds" | "dc" | "e" | "f" | "nc" | "nd" | "hb")
        },
    },
    // No node: Arm, L, M, NV, generations from 6 on, and what is unknown. Somewhat more than the others keep.
    Class {
        name: "Azure, other",
        share: 200,
        fixed_mib: 130,
        crash_kernel: false,
        architecture: Arm64,
        has: |_, _, _| false,
    },
];

impl Class {
    fn kept_kib(&self, nominal_kib: u64) -> u64 {
        let mut large = BOUNCE_KIB;
        if self.crash_kernel {
            large += CRASH_KERNEL_KIB.saturating_sub(nominal_kib / CRASH_KERNEL_LESS);
        }
        // It grows with half of the memory beyond 2 GiB, so that more memory never means a lower estimate.
        let large = large.min(nominal_kib.saturating_sub(SMALL_KIB) / 2);
        nominal_kib.saturating_mul(self.share).div_ceil(WHOLE) + self.fixed_mib * MIB + large
    }
}

/// The most that an instance of that size keeps, on Linux.
pub(super) fn kept_kib(host: &Host<'_>, nominal_kib: u64) -> u64 {
    match class_of(host) {
        Some(class) => class.kept_kib(nominal_kib),
        // Which class keeps the most depends on the size.
        None => classes(host.family).iter().map(|class| class.kept_kib(nominal_kib)).max().unwrap_or(nominal_kib),
    }
}

/// The class of a type; `None` if the type is in no class.
pub(super) fn class_of(host: &Host<'_>) -> Option<&'static Class> {
    let name = host.type_name.to_ascii_lowercase();
    let (letters, generation, rest) = match host.family {
        Family::Aws => aws_family(&name)?,
        Family::Azure => azure_series(&name)?,
    };
    let found = classes(host.family).iter().find(|class| (class.has)(letters, generation, rest))?;
    host.architecture.is_none_or(|architecture| architecture == found.architecture).then_some(found)
}

pub(super) fn classes(family: Family) -> &'static [Class] {
    match family {
        Family::Aws => &AWS,
        Family::Azure => &AZURE,
    }
}

/// `m5dn.large`: `m`, 5, `dn`.
fn aws_family(name: &str) -> Option<(&str, u32, &str)> {
    let family = name.split('.').next()?;
    let (letters, rest) = family.split_at(family.find(|c: char| c.is_ascii_digit())?);
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (generation, rest) = rest.split_at(digits);
    Some((letters, generation.parse().ok()?, rest))
}

/// `standard_nc24ads_a100_v4`: `nc`, 4, nothing. A size without a version is of the first.
fn azure_series(name: &str) -> Option<(&str, u32, &str)> {
    let name = name.strip_prefix("standard_")?;
    let name = name.strip_suffix("_promo").unwrap_or(name);
    let letters = &name[..name.find(|c: char| !c.is_ascii_lowercase())?];
    let version = name.rsplit_once("_v").map_or(Some(1), |(_, version)| version.parse().ok())?;
    Some((letters, version, ""))
}
