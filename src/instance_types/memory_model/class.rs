//! Classes of instance types on whose hosts the same share of the memory is missing before a kernel starts.

use super::Host;
use crate::cloud::{Architecture, Family};

/// Shares are in hundredths of a percent.
const WHOLE: u64 = 10_000;

/// Instance types that lack the same share of memory: the worst case for types of which no node was observed.
#[derive(Debug)]
pub(super) struct Class {
    /// The name in messages.
    pub(super) name: &'static str,
    /// In hundredths of a percent of nominal memory.
    share: u64,
    fixed_mib: u64,
    /// Whether images with a crash kernel are known to run on such instances.
    pub(super) crash_kernel: bool,
    /// Whether its types run on two kinds of hosts, on which different amounts are missing.
    pub(super) two_hosts: bool,
    architecture: Architecture,
    /// Whether a type belongs to the class, by the parts of its family's name: letters, generation, suffix.
    has: fn(&str, u32, &str) -> bool,
}

use Architecture::{Amd64, Arm64};

/// Each comment has the number of known nodes of the class and their sizes. A test checks that no known type lacks more
/// than its class.
///
/// A type in no class is estimated by the class that lacks the most. This is intended for generations from 8 on, of
/// which no node is known, and for inf1: the only known node, an inf1.xlarge with 7847964Ki, lacks more
/// than the other accelerated types (terraform-aws-eks #2060).
const AWS: [Class; 7] = [
    // 27 nodes, 2 to 64 GiB. Xen's firmware takes next to nothing.
    Class {
        name: "Xen",
        share: 15,
        fixed_mib: 10,
        crash_kernel: true,
        two_hosts: false,
        architecture: Amd64,
        has: |letters, generation, rest| matches!((letters, generation, rest), ("t", 2, "") | ("m" | "c" | "r", 4, "")),
    },
    // 47 nodes, 2 to 16 GiB. A kernel's log of a t3a.medium shows 48 MiB.
    Class {
        name: "burstable",
        share: 118,
        fixed_mib: 10,
        crash_kernel: false,
        two_hosts: false,
        architecture: Amd64,
        has: |letters, generation, rest| matches!((letters, generation, rest), ("t", 3, "" | "a")),
    },
    // 57 nodes, 4 to 256 GiB. There are two kinds of hosts, and a type lands on either: about 1.1 % is missing on one
    // and 2.1 % on the other. A kernel's log of an r5d.xlarge shows 470 MiB.
    Class {
        name: "Nitro, generation 5",
        share: 212,
        fixed_mib: 187,
        crash_kernel: true,
        two_hosts: true,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r", 5) => true,
            ("d", 3) => rest.is_empty(),
            _ => false,
        },
    },
    // 13 nodes, 4 to 128 GiB.
    Class {
        name: "Intel, generations 6 and 7",
        share: 178,
        fixed_mib: 16,
        crash_kernel: false,
        two_hosts: false,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r", 6 | 7) | ("i", 4) => rest.starts_with('i'),
            _ => false,
        },
    },
    // 6 nodes, 4 to 384 GiB.
    Class {
        name: "AMD, generations 6 and 7",
        share: 216,
        fixed_mib: 20,
        crash_kernel: false,
        two_hosts: false,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r" | "hpc", 6 | 7) => rest.starts_with('a'),
            _ => false,
        },
    },
    // 4 nodes, 32 and 128 GiB. A kernel's log of a c6g.xlarge shows 160 MiB.
    Class {
        name: "Graviton 2 and 3",
        share: 235,
        fixed_mib: 16,
        crash_kernel: false,
        two_hosts: false,
        architecture: Arm64,
        has: |letters, generation, rest| match (letters, generation) {
            ("m" | "c" | "r" | "hpc", 6 | 7) | ("t" | "im", 4) => rest.starts_with('g'),
            _ => false,
        },
    },
    // 10 nodes, 16 to 1152 GiB.
    Class {
        name: "accelerated",
        share: 225,
        fixed_mib: 30,
        crash_kernel: false,
        two_hosts: false,
        architecture: Amd64,
        has: |letters, generation, rest| match (letters, generation) {
            ("g", 4..=6) | ("p", 4) | ("inf", 2) | ("trn", 1) => true,
            ("p", 3) => rest == "dn",
            _ => false,
        },
    },
];

const AZURE: [Class; 2] = [
    // 57 nodes, 3.5 to 672 GiB. Nothing is missing; what the kernel sizes by the machine grows a little.
    Class {
        name: "Azure, x86",
        share: 15,
        fixed_mib: 25,
        crash_kernel: false,
        two_hosts: false,
        architecture: Amd64,
        has: |letters, generation, _| {
            generation < 6 && matches!(letters, "b" | "d" | "ds" | "dc" | "e" | "f" | "nc" | "nd" | "hb")
        },
    },
    // No node: Arm, L, M, NV, generations from 6 on, and what is unknown. Somewhat more than of the others.
    Class {
        name: "Azure, other",
        share: 45,
        fixed_mib: 45,
        crash_kernel: false,
        two_hosts: false,
        architecture: Arm64,
        has: |_, _, _| false,
    },
];

impl Class {
    /// The most that is missing on an instance of that size, in KiB.
    pub(super) fn missing_kib(&self, nominal_kib: u64) -> u64 {
        nominal_kib.saturating_mul(self.share).div_ceil(WHOLE) + self.fixed_mib * 1024
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

/// Whether its memory is encrypted: by the launch settings, or because it is a confidential VM of Azure: series DC, EC
/// and NCC with an AMD (`a`) or a TDX (`e`) processor. Those of DC with enclaves of SGX have neither letter.
pub(super) fn is_confidential(host: &Host<'_>) -> bool {
    if host.is_encrypted {
        return true;
    }
    let name = host.type_name.to_ascii_lowercase();
    let Some(name) = name.strip_prefix("standard_").filter(|_| host.family == Family::Azure) else { return false };
    let series = ["ncc", "dc", "ec"].into_iter().find_map(|series| name.strip_prefix(series));
    let features = series.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-'));
    let features = features.and_then(|rest| rest.split('_').next()).unwrap_or_default();
    features.contains(['a', 'e'])
}

/// Splits `standard_nc24ads_a100_v4` into its series `nc`, its version 4, and no suffix. A size without a version has
/// version 1.
fn azure_series(name: &str) -> Option<(&str, u32, &str)> {
    let name = name.strip_prefix("standard_")?;
    let name = name.strip_suffix("_promo").unwrap_or(name);
    let letters = &name[..name.find(|c: char| !c.is_ascii_lowercase())?];
    let version = name.rsplit_once("_v").map_or(Some(1), |(_, version)| version.parse().ok())?;
    Some((letters, version, ""))
}
