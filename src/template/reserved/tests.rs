use super::*;

fn size(cpus: u32, nominal_mib: u64, pods: u32) -> NodeSize {
    NodeSize {
        operating_system: OperatingSystem::Linux,
        cpu: Quantity::units(cpus),
        machine_cpu: Quantity::units(cpus),
        memory: mebibytes(nominal_mib),
        nominal_memory: mebibytes(nominal_mib),
        memory_is_estimated: false,
        ephemeral_storage: None,
        pods,
        network_pods: pods,
    }
}

fn memory_mib(profile: ReservedProfile, size: &NodeSize) -> u64 {
    reserved(&ReservedRule::default(), &LaunchReserves::default(), profile, size)[MEMORY].value.whole() / MIB
}

#[test]
fn cpu_is_reserved_by_the_tables() {
    for (cpus, eks, aks) in [(1, 60, 60), (2, 70, 100), (4, 80, 140), (8, 90, 180), (16, 110, 260), (96, 310, 1060)] {
        assert_eq!(eks_cpu(Quantity::units(cpus)), Quantity::millis(eks), "{cpus}");
        assert_eq!(aks_cpu(Quantity::units(cpus)), Quantity::millis(aks), "{cpus}");
    }
    assert_eq!(eks_cpu(Quantity::units(48)).to_string(), "190m");
    assert_eq!(aks_cpu(Quantity::units(32)).to_string(), "420m");
    assert_eq!(aks_cpu(Quantity::units(64)).to_string(), "740m");
    assert_eq!(aks_cpu(Quantity::units(40)).to_string(), "500m");
}

#[test]
fn aks_before_1_29_reserves_brackets_of_the_memory_sold() {
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
        assert_eq!(memory_mib(ReservedProfile::AksLegacy, &size(2, nominal_mib, 110)), kept_mib, "{nominal_mib}");
    }
    assert_eq!(aks_legacy_memory(mebibytes(64 * 1024)), mebibytes(5611));
}

#[test]
fn aks_from_1_29_on_reserves_by_pods_up_to_a_quarter() {
    for (nominal_mib, pods, kept_mib) in [
        (8192, 30, 750),
        (32768, 110, 2350),
        (32768, 250, 5150),
        (8192, 250, 2148),
        (8192, 110, 2148),
        (4096, 70, 1124),
    ] {
        assert_eq!(memory_mib(ReservedProfile::Aks, &size(2, nominal_mib, pods)), kept_mib, "{nominal_mib} {pods}");
    }
    let windows = NodeSize { operating_system: OperatingSystem::Windows, ..size(2, 8192, 30) };
    assert_eq!(memory_mib(ReservedProfile::Aks, &windows), 750 + 2048);
}

#[test]
fn eks_reserves_by_the_pods_of_the_interfaces_and_not_by_the_limit() {
    let prefix_delegation = NodeSize { pods: 110, network_pods: 58, ..size(4, 16384, 110) };
    assert_eq!(memory_mib(ReservedProfile::Eks, &prefix_delegation), 255 + 11 * 58 + 100);
    assert_eq!(memory_mib(ReservedProfile::Kubeadm, &prefix_delegation), 100);
    let windows = NodeSize { operating_system: OperatingSystem::Windows, ..prefix_delegation };
    assert_eq!(memory_mib(ReservedProfile::Eks, &windows), 255 + 11 * 110 + 500, "the higher one");
}

#[test]
fn openshift_reserves_the_higher_of_its_two_rules() {
    // Auto-sized nodes that report slightly more than 15 and 30 GiB reserve 2660 and 3622.56 MiB.
    for (reported_mib, kept_mib) in [(2048, 1124), (15 * 1024, 2660), (31 * 1024 - 1, 3622), (16 * 1024 - 1, 2660)] {
        assert_eq!(memory_mib(ReservedProfile::OpenShift, &size(4, reported_mib, 250)), kept_mib, "{reported_mib}");
    }
    // An r5.xlarge, to the byte: its kubelet prints 29423880765440m.
    let capacity = "32443760Ki".parse().unwrap();
    let kept = reserved(
        &ReservedRule::default(),
        &LaunchReserves::default(),
        ReservedProfile::OpenShift,
        &NodeSize { memory: capacity, ..size(4, 32768, 250) },
    );
    assert_eq!(capacity.less(kept[MEMORY].value).whole(), 29_423_880_765);
}

#[test]
fn openshift_reserves_by_the_highest_memory_that_a_node_may_report() {
    let estimated =
        NodeSize { memory: "14.9Gi".parse().unwrap(), memory_is_estimated: true, ..size(4, 16 * 1024, 250) };
    assert_eq!(memory_mib(ReservedProfile::OpenShift, &estimated), 2660);
}

#[test]
fn windows_on_aks_reserves_two_gibibytes_more() {
    // Capacity less allocatable of two real nodes.
    for (nominal_mib, kept_mib) in [(28 * 1024, 5447), (128 * 1024, 11591)] {
        let windows = NodeSize { operating_system: OperatingSystem::Windows, ..size(4, nominal_mib, 30) };
        assert_eq!(memory_mib(ReservedProfile::AksLegacy, &windows), kept_mib);
        let disk = NodeSize { ephemeral_storage: Some(mebibytes(128 * 1024)), ..windows };
        let kept = reserved(&ReservedRule::default(), &LaunchReserves::default(), ReservedProfile::AksLegacy, &disk);
        assert!(!kept.contains_key(EPHEMERAL), "{kept:?}");
    }
}

#[test]
fn disks_have_the_reserves_of_kubelets() {
    let capacity = "125277164Ki".parse().unwrap();
    let size = NodeSize { ephemeral_storage: Some(capacity), ..size(4, 16384, 250) };
    let kept = reserved(&ReservedRule::default(), &LaunchReserves::default(), ReservedProfile::OpenShift, &size);
    assert_eq!(capacity.less(kept[EPHEMERAL].value).whole(), 114_381_692_328);
    assert_eq!(kept[CPU].value, Quantity::millis(500));
}

#[test]
fn each_configured_setting_replaces_that_of_the_profile() {
    let rule = ReservedRule {
        kube_reserved: [(MEMORY.to_owned(), mebibytes(300))].into(),
        eviction_hard: [(MEMORY_AVAILABLE.to_owned(), "5%".parse().unwrap())].into(),
        ..ReservedRule::default()
    };
    let kept = reserved(&rule, &LaunchReserves::default(), ReservedProfile::Eks, &size(2, 1000, 29));
    assert_eq!(kept[MEMORY].value.whole() / MIB, 350);
    assert_eq!(kept[MEMORY].provenance, Provenance::GroupOverride);
    assert_eq!(kept[MEMORY].runner_up, Some((mebibytes(255 + 319 + 100), Provenance::Profile { name: "eks" })));
    assert_eq!(kept[CPU].provenance, Provenance::Profile { name: "eks" });
}

#[test]
fn every_profile_has_a_name() {
    for profile in PROFILES {
        assert_eq!(parse_profile(profile_name(profile)), Some(profile));
    }
    assert_eq!(parse_profile("gke"), None);
}
