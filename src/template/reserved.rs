//! What a node reserves for the kubelet and the system, by profile: the difference between capacity and allocatable.

use std::collections::BTreeMap;

use super::launch_reserves::{Figures, LaunchReserves};
use super::overrides::{ReservedRule, Threshold};
use crate::cloud::{OperatingSystem, ReservedProfile};
use crate::instance_types::{Provenance, Quantity, WithProvenance};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL: &str = "ephemeral-storage";
const MEMORY_AVAILABLE: &str = "memory.available";
const NODEFS_AVAILABLE: &str = "nodefs.available";
const PROFILES: [ReservedProfile; 5] = [
    ReservedProfile::Eks,
    ReservedProfile::Aks,
    ReservedProfile::AksLegacy,
    ReservedProfile::Kubeadm,
    ReservedProfile::OpenShift,
];

/// A profile's name in the configuration.
pub fn profile_name(profile: ReservedProfile) -> &'static str {
    match profile {
        ReservedProfile::Eks => "eks",
        ReservedProfile::Aks => "aks",
        ReservedProfile::AksLegacy => "aks-legacy",
        ReservedProfile::Kubeadm => "kubeadm",
        ReservedProfile::OpenShift => "openshift",
    }
}

/// The profile of that name.
pub fn parse_profile(name: &str) -> Option<ReservedProfile> {
    PROFILES.into_iter().find(|profile| profile_name(*profile) == name)
}

/// The properties of a node that the rules depend on.
pub(super) struct NodeSize {
    pub(super) operating_system: OperatingSystem,
    pub(super) cpu: Quantity,
    /// That of the whole machine, where the type or the launch settings leave some of it out.
    pub(super) machine_cpu: Quantity,
    /// As the kubelet reports it, in bytes.
    pub(super) memory: Quantity,
    /// As the cloud sells it, in bytes.
    pub(super) nominal_memory: Quantity,
    /// Whether `memory` is an estimate, so that a kubelet may report more.
    pub(super) memory_is_estimated: bool,
    /// Size of the file system for pods' ephemeral storage, in bytes, where it is known.
    pub(super) ephemeral_storage: Option<Quantity>,
    /// The kubelet's limit, as the reserve follows from it; the highest that it may be, where it is not known.
    pub(super) pods: u32,
    /// What the network interfaces can serve; the limit, where that is not known.
    pub(super) network_pods: u32,
}

/// A kubelet's three settings.
#[derive(Clone, Default)]
struct Settings {
    kube: BTreeMap<String, Quantity>,
    system: BTreeMap<String, Quantity>,
    eviction: BTreeMap<String, Threshold>,
}

/// How much of each resource a node reserves: by the configuration, else by the launch settings, else by the profile.
pub(super) fn reserved(
    rule: &ReservedRule,
    of_launch: &LaunchReserves,
    profile: ReservedProfile,
    size: &NodeSize,
) -> BTreeMap<String, WithProvenance<Quantity>> {
    let by_profile = settings(profile, size);
    let by_launch = of_launch.highest(&by_profile, size);
    let mut launched = by_profile.clone();
    launched.extend(&by_launch);
    let by_rule = Settings {
        kube: rule.kube_reserved.clone(),
        system: rule.system_reserved.clone(),
        eviction: rule.eviction_hard.clone(),
    };
    let mut overridden = launched.clone();
    overridden.extend(&by_rule);

    let (by_profile, launched) = (by_profile.total(size), launched.total(size));
    let mut kept = BTreeMap::new();
    for (resource, quantity) in overridden.total(size) {
        let by_rule = by_rule.sets(&resource).then_some((quantity, Provenance::GroupOverride));
        let by_launch = launched.get(&resource).filter(|_| by_launch.sets(&resource));
        let by_launch = by_launch.map(|quantity| (*quantity, Provenance::UserData));
        let of_profile = Provenance::Profile { name: profile_name(profile) };
        let by_profile = by_profile.get(&resource).map(|quantity| (*quantity, of_profile));
        let sourced = WithProvenance::first(by_rule.into_iter().chain(by_launch).chain(by_profile));
        kept.extend(sourced.map(|sourced| (resource, sourced)));
    }
    kept
}

impl LaunchReserves {
    /// The settings that replace those of the profile.
    fn highest(&self, by_profile: &Settings, size: &NodeSize) -> Settings {
        let amounts = |figures: &BTreeMap<String, Figures<Quantity>>, by_profile: &BTreeMap<String, Quantity>| {
            let highest = figures.iter().filter_map(|(name, figures)| {
                Some((name.clone(), figures.highest(by_profile.get(name).copied(), |amount| amount)?))
            });
            highest.collect()
        };
        let eviction = self.eviction.iter().filter_map(|(signal, figures)| {
            let capacity = if signal == MEMORY_AVAILABLE { size.memory } else { size.ephemeral_storage? };
            let of_profile = by_profile.eviction.get(signal).copied();
            Some((signal.clone(), figures.highest(of_profile, |threshold| threshold.of(capacity))?))
        });
        Settings {
            kube: amounts(&self.kube, &by_profile.kube),
            system: amounts(&self.system, &by_profile.system),
            eviction: eviction.collect(),
        }
    }
}

impl Settings {
    /// Replaces each setting that `other` has.
    fn extend(&mut self, other: &Self) {
        self.kube.extend(other.kube.clone());
        self.system.extend(other.system.clone());
        self.eviction.extend(other.eviction.clone());
    }

    /// Whether any of the settings is about this resource.
    fn sets(&self, resource: &str) -> bool {
        let signal = match resource {
            MEMORY => Some(MEMORY_AVAILABLE),
            EPHEMERAL => Some(NODEFS_AVAILABLE),
            _ => None,
        };
        self.kube.contains_key(resource)
            || self.system.contains_key(resource)
            || signal.is_some_and(|signal| self.eviction.contains_key(signal))
    }

    fn total(&self, size: &NodeSize) -> BTreeMap<String, Quantity> {
        let mut total: BTreeMap<String, Quantity> = BTreeMap::new();
        let mut add = |resource: &str, quantity: Quantity| {
            let sum = total.entry(resource.to_owned()).or_insert(Quantity::ZERO);
            *sum = sum.plus(quantity);
        };
        for (resource, quantity) in self.kube.iter().chain(&self.system) {
            add(resource, *quantity);
        }
        if let Some(threshold) = self.eviction.get(MEMORY_AVAILABLE) {
            add(MEMORY, threshold.of(size.memory));
        }
        if let (Some(threshold), Some(capacity)) = (self.eviction.get(NODEFS_AVAILABLE), size.ephemeral_storage) {
            add(EPHEMERAL, threshold.of(capacity));
        }
        total
    }
}

/// The kubelet's own default on Windows (pkg/kubelet/eviction/defaults_windows.go).
const EVICTION_WINDOWS_MIB: u64 = 500;

fn settings(profile: ReservedProfile, size: &NodeSize) -> Settings {
    let mut settings = Settings::default();
    let mut eviction_mib = 100;
    match profile {
        ReservedProfile::Eks => {
            settings.kube.insert(CPU.into(), eks_cpu(size.cpu));
            // nodeadm counts the pods that the network interfaces serve, regardless of the kubelet's limit. On Windows,
            // Karpenter counts the limit. What the nodes themselves count is not known, so the higher number is used.
            let of_limit = if size.operating_system == OperatingSystem::Windows { size.pods } else { 0 };
            let pods = size.network_pods.max(of_limit);
            settings.kube.insert(MEMORY.into(), mebibytes(255 + 11 * u64::from(pods)));
            settings.kube.insert(EPHEMERAL.into(), mebibytes(1024));
            if size.operating_system == OperatingSystem::Windows {
                // As kubeadm: nodes keep 400 MiB more than on Linux (aws/karpenter-provider-aws #8473).
                eviction_mib = EVICTION_WINDOWS_MIB;
            }
        }
        ReservedProfile::Aks => {
            settings.kube.insert(CPU.into(), aks_cpu(size.machine_cpu));
            let by_pods = 20 * u64::from(size.pods) + 50;
            let quarter = size.nominal_memory.whole() / MIB / 4;
            settings.kube.insert(MEMORY.into(), mebibytes(by_pods.min(quarter)));
        }
        ReservedProfile::AksLegacy => {
            settings.kube.insert(CPU.into(), aks_cpu(size.machine_cpu));
            settings.kube.insert(MEMORY.into(), aks_legacy_memory(size.nominal_memory));
            eviction_mib = 750;
        }
        ReservedProfile::Kubeadm if size.operating_system == OperatingSystem::Windows => {
            eviction_mib = EVICTION_WINDOWS_MIB;
        }
        ReservedProfile::Kubeadm => {}
        ReservedProfile::OpenShift => {
            settings.system.insert(CPU.into(), eks_cpu(size.cpu).max(Quantity::millis(500)));
            settings.system.insert(MEMORY.into(), openshift_memory(reported_most(size)));
            settings.system.insert(EPHEMERAL.into(), mebibytes(1024));
        }
    }
    let aks = matches!(profile, ReservedProfile::Aks | ReservedProfile::AksLegacy);
    if aks && size.operating_system == OperatingSystem::Windows {
        settings.system.insert(MEMORY.into(), mebibytes(2048));
        if profile == ReservedProfile::AksLegacy {
            // Before 1.29, this replaces all thresholds: two real nodes show it. There is no data from later releases.
            return settings;
        }
    }
    settings.eviction.insert(MEMORY_AVAILABLE.into(), Threshold::Amount(mebibytes(eviction_mib)));
    settings.eviction.insert(NODEFS_AVAILABLE.into(), Threshold::Share(0.1));
    settings
}

const MIB: u64 = 1 << 20;

fn mebibytes(count: u64) -> Quantity {
    Quantity::bytes(count.saturating_mul(MIB))
}

/// The sum of the shares of all brackets, each given as its upper bound and its share in hundredths of a percent.
/// Each term is rounded down, as in the scripts that nodes run.
fn graduated(total: u64, brackets: &[(u64, u64)]) -> u64 {
    let mut kept = 0;
    let mut lower = 0;
    for (upper, share) in brackets {
        kept += total.min(*upper).saturating_sub(lower) * share / 10_000;
        lower = *upper;
    }
    kept
}

fn millis(count: u64) -> Quantity {
    Quantity::millis(u32::try_from(count).unwrap_or(u32::MAX))
}

/// More thousandths of a core than any instance has. It keeps the arithmetic below from overflowing.
const CPU_MILLIS_MAX: u64 = 1 << 40;

/// 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest (nodeadm, Karpenter, GKE).
fn eks_cpu(cpu: Quantity) -> Quantity {
    let cores = [(1000, 600), (2000, 100), (4000, 50), (CPU_MILLIS_MAX, 25)];
    millis(graduated(cpu.whole_millis().min(CPU_MILLIS_MAX), &cores))
}

/// 6 % of the first core, 4 % of the second, 2 % of the next two, 1 % of the rest (AKS documentation). Nodes of the
/// constrained size HB120-96rs_v3 show that AKS reserves for all 120 vCPUs of the machine.
fn aks_cpu(cpu: Quantity) -> Quantity {
    let cores = [(1000, 600), (2000, 400), (4000, 200), (CPU_MILLIS_MAX, 100)];
    millis(graduated(cpu.whole_millis().min(CPU_MILLIS_MAX), &cores))
}

/// Shares of the memory in each bracket: 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the
/// next 112, 2 % of the rest.
fn memory_brackets(unit: u64) -> [(u64, u64); 5] {
    [(4, 2500), (8, 2000), (16, 1000), (128, 600), (1 << 30, 200)].map(|(gib, share)| (gib * unit, share))
}

/// The brackets in whole MiB of the memory as sold, not of what the kubelet reports: 28 of 28 known nodes agree.
fn aks_legacy_memory(nominal: Quantity) -> Quantity {
    // In hundredths of a MiB, so that only the sum is rounded.
    let hundredths = (nominal.whole() / MIB).min(1 << 40) * 100;
    mebibytes(graduated(hundredths, &memory_brackets(1024 * 100)) / 100)
}

/// The most that the kubelet may report: on Linux, memory less the 64 bytes by which each page of 4 KiB is described.
fn reported_most(size: &NodeSize) -> Quantity {
    if !size.memory_is_estimated {
        return size.memory;
    }
    let nominal = size.nominal_memory.whole();
    Quantity::bytes(nominal - nominal / 64)
}

/// OpenShift reserves 1 GiB, or (`autoSizingReserved`, as in managed OpenShift) the brackets of the whole GiB that
/// the kubelet reports. The API does not show which of them applies, so this returns the higher one; `systemReserved:
/// {memory: 1Gi}` selects the first.
fn openshift_memory(reported: Quantity) -> Quantity {
    let gib = reported.whole() / (1024 * MIB);
    let hundredths = graduated(gib * 100, &memory_brackets(100));
    Quantity::bytes((hundredths * 1024 * MIB).div_ceil(100).max(1024 * MIB))
}

#[cfg(test)]
mod tests;
