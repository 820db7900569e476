//! What a node keeps for kubelet and system, by profile: the difference between capacity and allocatable.

use std::collections::BTreeMap;

use super::overrides::{ReservedRule, Threshold};
use crate::cloud::{Family, OperatingSystem, ReservedProfile};
use crate::instance_types::{Quantity, Source, Sourced};

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

/// The profile where neither configuration nor cloud says which: that of the cloud's own Kubernetes, which reserves more
/// than a cluster of one's own does.
pub(super) fn default_profile(family: Family) -> ReservedProfile {
    match family {
        Family::Aws => ReservedProfile::Eks,
        Family::Azure => ReservedProfile::Aks,
    }
}

/// What the rules ask about a node.
pub(super) struct Shape {
    pub(super) operating_system: OperatingSystem,
    pub(super) cpu: Quantity,
    /// As the kubelet reports it, in bytes.
    pub(super) memory: Quantity,
    /// As the cloud sells it, in bytes.
    pub(super) nominal_memory: Quantity,
    /// Size of the file system for pods' ephemeral storage, in bytes, where it is known.
    pub(super) ephemeral_storage: Option<Quantity>,
    /// The kubelet's limit.
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

/// How much of each resource a node keeps. With overrides the runner-up is what the profile would have kept.
pub(super) fn reserved(
    rule: &ReservedRule,
    profile: ReservedProfile,
    shape: &Shape,
) -> BTreeMap<String, Sourced<Quantity>> {
    let by_profile = settings(profile, shape);
    let mut overridden = by_profile.clone();
    overridden.kube.extend(rule.kube_reserved.clone());
    overridden.system.extend(rule.system_reserved.clone());
    overridden.eviction.extend(rule.eviction_hard.clone());
    let source = Source::Profile { name: profile_name(profile) };
    let by_profile = by_profile.total(shape);
    let mut kept = BTreeMap::new();
    for (resource, quantity) in overridden.total(shape) {
        let usual = by_profile.get(&resource).map(|usual| (*usual, source.clone()));
        let sourced = match usual {
            Some((usual, source)) if !overrides(rule, &resource) => Sourced::new(usual, source),
            runner_up => Sourced { value: quantity, source: Source::GroupOverride, runner_up },
        };
        kept.insert(resource, sourced);
    }
    kept
}

fn overrides(rule: &ReservedRule, resource: &str) -> bool {
    let signal = match resource {
        MEMORY => Some(MEMORY_AVAILABLE),
        EPHEMERAL => Some(NODEFS_AVAILABLE),
        _ => None,
    };
    rule.kube_reserved.contains_key(resource)
        || rule.system_reserved.contains_key(resource)
        || signal.is_some_and(|signal| rule.eviction_hard.contains_key(signal))
}

impl Settings {
    fn total(&self, shape: &Shape) -> BTreeMap<String, Quantity> {
        let mut total: BTreeMap<String, Quantity> = BTreeMap::new();
        let mut add = |resource: &str, quantity: Quantity| {
            let sum = total.entry(resource.to_owned()).or_insert(Quantity::ZERO);
            *sum = sum.plus(quantity);
        };
        for (resource, quantity) in self.kube.iter().chain(&self.system) {
            add(resource, *quantity);
        }
        if let Some(threshold) = self.eviction.get(MEMORY_AVAILABLE) {
            add(MEMORY, threshold.of(shape.memory));
        }
        if let (Some(threshold), Some(capacity)) = (self.eviction.get(NODEFS_AVAILABLE), shape.ephemeral_storage) {
            add(EPHEMERAL, threshold.of(capacity));
        }
        total
    }
}

fn settings(profile: ReservedProfile, shape: &Shape) -> Settings {
    let mut settings = Settings::default();
    let mut eviction_mib = 100;
    match profile {
        ReservedProfile::Eks => {
            settings.kube.insert(CPU.into(), eks_cpu(shape.cpu));
            // nodeadm counts the pods of the network interfaces, whatever limit the kubelet then is given.
            settings.kube.insert(MEMORY.into(), mebibytes(255 + 11 * u64::from(shape.network_pods)));
            settings.kube.insert(EPHEMERAL.into(), mebibytes(1024));
        }
        ReservedProfile::Aks => {
            settings.kube.insert(CPU.into(), aks_cpu(shape.cpu));
            let by_pods = 20 * u64::from(shape.pods) + 50;
            let quarter = shape.nominal_memory.whole() / MIB / 4;
            settings.kube.insert(MEMORY.into(), mebibytes(by_pods.min(quarter)));
        }
        ReservedProfile::AksLegacy => {
            settings.kube.insert(CPU.into(), aks_cpu(shape.cpu));
            settings.kube.insert(MEMORY.into(), aks_legacy_memory(shape.nominal_memory));
            eviction_mib = 750;
        }
        ReservedProfile::Kubeadm => {}
        ReservedProfile::OpenShift => {
            settings.system.insert(CPU.into(), Quantity::millis(500));
            settings.system.insert(MEMORY.into(), mebibytes(1024));
            settings.system.insert(EPHEMERAL.into(), mebibytes(1024));
        }
    }
    let aks = matches!(profile, ReservedProfile::Aks | ReservedProfile::AksLegacy);
    if aks && shape.operating_system == OperatingSystem::Windows {
        settings.system.insert(MEMORY.into(), mebibytes(2048));
    }
    settings.eviction.insert(MEMORY_AVAILABLE.into(), Threshold::Amount(mebibytes(eviction_mib)));
    settings.eviction.insert(NODEFS_AVAILABLE.into(), Threshold::Share(0.1));
    settings
}

const MIB: u64 = 1 << 20;

fn mebibytes(count: u64) -> Quantity {
    Quantity::bytes(count.saturating_mul(MIB))
}

/// The sum, over brackets of (upper bound, share in hundredths of a percent), of what lies in each. Each term is rounded
/// down, as the scripts that compute it do.
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

/// No machine has as many thousandths of a core; it keeps the arithmetic below from overflowing.
const CPU_MILLIS_MAX: u64 = 1 << 40;

/// 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest (nodeadm, Karpenter, GKE).
fn eks_cpu(cpu: Quantity) -> Quantity {
    let cores = [(1000, 600), (2000, 100), (4000, 50), (CPU_MILLIS_MAX, 25)];
    millis(graduated(cpu.whole_millis().min(CPU_MILLIS_MAX), &cores))
}

/// 6 % of the first core, 4 % of the second, 2 % of the next two, 1 % of the rest (AKS documentation).
fn aks_cpu(cpu: Quantity) -> Quantity {
    let cores = [(1000, 600), (2000, 400), (4000, 200), (CPU_MILLIS_MAX, 100)];
    millis(graduated(cpu.whole_millis().min(CPU_MILLIS_MAX), &cores))
}

/// 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the next 112, 2 % of the rest, in whole MiB.
/// Of the memory the size is sold with, not of what the kubelet reports: 28 of 28 nodes seen.
fn aks_legacy_memory(nominal: Quantity) -> Quantity {
    // In hundredths of a MiB, so that only the sum is rounded.
    let brackets = [4, 8, 16, 128, 1 << 30].map(|gib: u64| gib * 1024 * 100);
    let shares = [2500, 2000, 1000, 600, 200];
    let brackets: Vec<(u64, u64)> = brackets.into_iter().zip(shares).collect();
    let hundredths = (nominal.whole() / MIB).min(1 << 40) * 100;
    mebibytes(graduated(hundredths, &brackets) / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(cpus: u32, nominal_mib: u64, pods: u32) -> Shape {
        Shape {
            operating_system: OperatingSystem::Linux,
            cpu: Quantity::units(cpus),
            memory: mebibytes(nominal_mib),
            nominal_memory: mebibytes(nominal_mib),
            ephemeral_storage: None,
            pods,
            network_pods: pods,
        }
    }

    fn memory_mib(profile: ReservedProfile, shape: &Shape) -> u64 {
        reserved(&ReservedRule::default(), profile, shape)[MEMORY].value.whole() / MIB
    }

    #[test]
    fn cpu_is_reserved_as_the_tables_say() {
        for (cpus, eks, aks) in [(1, 60, 60), (2, 70, 100), (4, 80, 140), (8, 90, 180), (16, 110, 260), (96, 310, 1060)]
        {
            assert_eq!(eks_cpu(Quantity::units(cpus)), Quantity::millis(eks), "{cpus}");
            assert_eq!(aks_cpu(Quantity::units(cpus)), Quantity::millis(aks), "{cpus}");
        }
        assert_eq!(eks_cpu(Quantity::units(48)).to_string(), "190m");
        assert_eq!(aks_cpu(Quantity::units(32)).to_string(), "420m");
        assert_eq!(aks_cpu(Quantity::units(64)).to_string(), "740m");
        assert_eq!(aks_cpu(Quantity::units(40)).to_string(), "500m");
    }

    #[test]
    fn aks_before_1_29_keeps_brackets_of_the_memory_sold() {
        // Capacity less allocatable of real nodes.
        for (nominal_mib, kept_mib) in [
            (3584, 1646),
            (4096, 1774),
            (7168, 2388),
            (8192, 2593),
            (14336, 3207),
            (16384, 3412),
            (32768, 4395),
            (65536, 6361),
            (114_688, 9310),
        ] {
            assert_eq!(memory_mib(ReservedProfile::AksLegacy, &shape(2, nominal_mib, 110)), kept_mib, "{nominal_mib}");
        }
        assert_eq!(aks_legacy_memory(mebibytes(64 * 1024)), mebibytes(5611));
    }

    #[test]
    fn aks_from_1_29_on_keeps_by_pods_up_to_a_quarter() {
        for (nominal_mib, pods, kept_mib) in [
            (8192, 30, 750),
            (32768, 110, 2350),
            (32768, 250, 5150),
            (8192, 250, 2148),
            (8192, 110, 2148),
            (4096, 70, 1124),
        ] {
            assert_eq!(
                memory_mib(ReservedProfile::Aks, &shape(2, nominal_mib, pods)),
                kept_mib,
                "{nominal_mib} {pods}"
            );
        }
        let windows = Shape { operating_system: OperatingSystem::Windows, ..shape(2, 8192, 30) };
        assert_eq!(memory_mib(ReservedProfile::Aks, &windows), 750 + 2048);
    }

    #[test]
    fn eks_reserves_by_what_the_interfaces_serve_not_by_the_limit() {
        let prefix_delegation = Shape { pods: 110, network_pods: 58, ..shape(4, 16384, 110) };
        assert_eq!(memory_mib(ReservedProfile::Eks, &prefix_delegation), 255 + 11 * 58 + 100);
        assert_eq!(memory_mib(ReservedProfile::Kubeadm, &prefix_delegation), 100);
        assert_eq!(memory_mib(ReservedProfile::OpenShift, &prefix_delegation), 1124);
    }

    #[test]
    fn disks_are_kept_from_as_kubelets_do() {
        let capacity = "125277164Ki".parse().unwrap();
        let shape = Shape { ephemeral_storage: Some(capacity), ..shape(4, 16384, 250) };
        let kept = reserved(&ReservedRule::default(), ReservedProfile::OpenShift, &shape);
        assert_eq!(capacity.less(kept[EPHEMERAL].value).whole(), 114_381_692_328);
        assert_eq!(kept[CPU].value, Quantity::millis(500));
    }

    #[test]
    fn what_is_given_replaces_the_profile_setting_by_setting() {
        let rule = ReservedRule {
            kube_reserved: [(MEMORY.to_owned(), mebibytes(300))].into(),
            eviction_hard: [(MEMORY_AVAILABLE.to_owned(), "5%".parse().unwrap())].into(),
            ..ReservedRule::default()
        };
        let kept = reserved(&rule, ReservedProfile::Eks, &shape(2, 1000, 29));
        assert_eq!(kept[MEMORY].value.whole() / MIB, 350);
        assert_eq!(kept[MEMORY].source, Source::GroupOverride);
        assert_eq!(kept[MEMORY].runner_up, Some((mebibytes(255 + 319 + 100), Source::Profile { name: "eks" })));
        assert_eq!(kept[CPU].source, Source::Profile { name: "eks" });
    }

    #[test]
    fn every_profile_has_a_name() {
        for profile in PROFILES {
            assert_eq!(parse_profile(profile_name(profile)), Some(profile));
        }
        assert_eq!(parse_profile("gke"), None);
    }
}
