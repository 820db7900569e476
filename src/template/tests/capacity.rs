//! The capacity of a node, and what is left for pods.

use super::*;

#[test]
fn tags_set_the_capacity_and_invalid_ones_are_ignored() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.hints.resources = strings(&[
        ("cpu", "100m"),
        ("memory", "100M"),
        ("ephemeral-storage", "20G"),
        ("custom-resource", "5"),
        ("error-resource", "GG"),
        ("negative-resource", "-1"),
    ]);
    // Those of the managed node group win, as in-tree.
    group.launch.resources = strings(&[("memory", "90M"), ("nodegroup-resource", "80Gi")]);
    group.launch.ephemeral_storage_bytes = Some(1 << 30);
    for (path, expected) in [
        ("capacity.cpu", some("100m")),
        ("capacity.memory", some("90M")),
        ("capacity.ephemeral-storage", some("20G")),
        ("capacity.custom-resource", some("5")),
        ("allocatable.custom-resource", some("5")),
        ("capacity.nodegroup-resource", some("80Gi")),
        ("capacity.error-resource", None),
        ("capacity.negative-resource", None),
        ("allocatable.memory", some("0")),
    ] {
        assert_eq!(group.get(path), expected, "{path}");
    }
    let memory = group.value("capacity.memory").unwrap();
    assert_eq!(memory.provenance.to_string(), "tag");
    assert_eq!(memory.runner_up.unwrap().0, "100M");
}

#[test]
fn the_kernel_of_the_image_decides_what_is_left_and_the_provenance_says_why() {
    let with = |family: Option<ImageFamily>| {
        let mut group = mk_group(Family::Aws, &["t3.medium"]);
        group.launch.image = family.map(|family| NodeImage { family, evidence: ImageEvidence::Name });
        let value = group.value("capacity.memory").unwrap();
        (value.value.parse::<Quantity>().unwrap().whole() >> 20, value.provenance.to_string())
    };
    let (of_al2, why) = with(Some(ImageFamily::AmazonLinux2));
    assert_eq!(
        why,
        "shipped table 2026-11-21 less host (26 observed nodes) and kernel (Linux 5.0 to 5.11: Amazon Linux 2 by \
            image name)"
    );
    let (of_al2023, _) = with(Some(ImageFamily::AmazonLinux2023));
    let (of_late, _) = with(Some(ImageFamily::AmazonLinux2023Late));
    let (unknown, why) = with(None);
    assert!(why.ends_with("and kernel (image unknown)"), "{why}");
    assert!(of_al2 > of_al2023 && of_al2023 > of_late, "{of_al2} {of_al2023} {of_late}");
    assert_eq!(unknown, of_al2023);
    // Real nodes of the two report 3885 and 3827 MiB.
    assert!((3840..=3885).contains(&of_al2) && (3800..=3827).contains(&of_al2023), "{of_al2} {of_al2023}");
}

#[test]
fn a_users_table_is_used_unchanged() {
    let group = mk_group(Family::Aws, &["c5d.large"]).table("aws: {c5d.large: {memory: 16Gi}}");
    let memory = group.value("capacity.memory").unwrap();
    assert_eq!((memory.value.as_str(), memory.provenance.to_string()), ("16Gi", "user table my-table.yaml".to_owned()));
    let (value, provenance) = memory.runner_up.unwrap();
    assert_eq!(
        provenance.to_string(),
        "shipped table 2026-11-21 less host (worst of Nitro, generation 5) and kernel (image unknown)"
    );
    assert!(value.parse::<Quantity>().unwrap() < "4Gi".parse().unwrap(), "{value}");
    assert_eq!(group.get("capacity.cpu"), some("2"));
    // 16 GiB less the reserve of EKS: 255 + 11 · 29 pods, and 100 for eviction.
    assert_eq!(group.get("allocatable.memory"), some("15710Mi"));
    assert_eq!(group.get("allocatable.cpu"), some("1930m"));
    assert_eq!(group.get("capacity.pods"), some("29"));
}

#[test]
fn a_configured_overhead_replaces_the_estimate() {
    let mut group = mk_group(Family::Aws, &["m6g.large"]);
    let estimate = group.get("capacity.memory").unwrap();
    group.overrides.memory_overhead = "7.5%".parse().ok();
    let memory = group.value("capacity.memory").unwrap();
    assert_eq!((memory.value.as_str(), memory.provenance.to_string()), ("7518Mi", "group override".to_owned()));
    assert_eq!(memory.runner_up.unwrap().0, estimate);
    // A figure that the kubelet reports is not changed.
    let mut given = mk_group(Family::Aws, &["m6g.large"]).table("aws: {m6g.large: {memory: 7900Mi}}");
    given.overrides.memory_overhead = group.overrides.memory_overhead;
    assert_eq!(given.get("capacity.memory"), some("7900Mi"));
}

#[test]
fn a_real_nodes_allocatable_follows_from_its_capacity() {
    // inf1.xlarge with EKS's AMI and a 50 GiB disk, as its kubelet reported it.
    let mut group = mk_group(Family::Aws, &["inf1.xlarge"]);
    group.overrides.capacity = map(&[
        ("memory", "7847964Ki".parse().unwrap()),
        ("hugepages-2Mi", "256Mi".parse().unwrap()),
        ("ephemeral-storage", "52416492Ki".parse().unwrap()),
    ]);
    for (path, expected) in [
        ("allocatable.memory", "6794268Ki"),
        ("allocatable.cpu", "3920m"),
        ("allocatable.pods", "38"),
        ("allocatable.ephemeral-storage", "47233297124"),
        ("allocatable.hugepages-2Mi", "256Mi"),
        ("capacity.aws.amazon.com/neuron", "1"),
    ] {
        assert_eq!(group.get(path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!(group.value("allocatable.memory").unwrap().provenance.to_string(), "eks profile");
}

#[test]
fn an_inferentia_1_node_is_promised_no_more_memory_than_it_has() {
    let of = |group: Group| group.get("allocatable.memory").unwrap().parse::<Quantity>().unwrap();
    let known: Quantity = "6794268Ki".parse().unwrap();
    let estimate = of(mk_group(Family::Aws, &["inf1.xlarge"]));
    assert!(estimate <= known, "{estimate}");
    assert!(known.less(estimate) < "256Mi".parse().unwrap(), "{estimate}");
}

#[test]
fn gpus_have_the_resource_name_of_their_vendor() {
    for (family, name, key, count) in [
        (Family::Aws, "g4dn.xlarge", "nvidia.com/gpu", "1"),
        (Family::Aws, "g4ad.xlarge", "amd.com/gpu", "1"),
        (Family::Aws, "p4d.24xlarge", "nvidia.com/gpu", "8"),
        (Family::Azure, "Standard_NC24ads_A100_v4", "nvidia.com/gpu", "1"),
        (Family::Azure, "Standard_ND96isr_MI300X_v5", "amd.com/gpu", "8"),
    ] {
        let group = mk_group(family, &[name]);
        assert_eq!(group.get(&format!("capacity.{key}")).as_deref(), Some(count), "{name}");
        assert_eq!(group.get(&format!("allocatable.{key}")).as_deref(), Some(count), "{name}");
    }
    assert_eq!(mk_group(Family::Azure, &["Standard_NP10s"]).get("capacity.nvidia.com/gpu"), None);
    let mut taken = mk_group(Family::Aws, &["g4dn.xlarge"]);
    taken.overrides.capacity = map(&[("nvidia.com/gpu", Quantity::ZERO)]);
    assert_eq!(taken.get("capacity.nvidia.com/gpu"), None);
}

#[test]
fn a_heterogeneous_group_promises_the_least_of_its_types() {
    let small = mk_group(Family::Aws, &["m5.large"]);
    let both = mk_group(Family::Aws, &["m5.xlarge", "m5.large"]);
    for path in ["capacity.cpu", "capacity.memory", "capacity.pods", "allocatable.cpu", "allocatable.memory"] {
        assert_eq!(both.get(path), small.get(path), "{path}");
    }
    assert_eq!(both.get("labels.kubernetes.io/arch"), some("amd64"));
    assert_eq!(both.get("labels.node.kubernetes.io/instance-type"), None);

    let mixed = mk_group(Family::Aws, &["g4dn.xlarge", "m6g.large", "m5.large"]);
    assert_eq!(mixed.get("labels.kubernetes.io/arch"), None);
    assert_eq!(mixed.get("capacity.nvidia.com/gpu"), None);
    // The types with more pods reserve more memory: the lowest allocatable is not that of the lowest capacity.
    let group = mk_group(Family::Aws, &["a.large", "b.large"])
        .table("aws: {a.large: {cpu: 2, memory: 8000Mi, pods: 10}, b.large: {cpu: 2, memory: 8100Mi, pods: 100}}");
    assert_eq!(group.get("capacity.memory"), some("8000Mi"));
    assert_eq!(group.get("allocatable.memory"), some("6645Mi"));
    assert_eq!(group.get("capacity.pods"), some("10"));
}

#[test]
fn an_unknown_type_is_an_error_that_says_what_to_do() {
    for types in [&["x9.large"][..], &["m5.large", "x9.large"]] {
        let error = mk_group(Family::Aws, types).build().unwrap_err().to_string();
        assert!(error.contains("add it to a table under instanceTypes: (aws: {x9.large:"), "{error}");
    }
    assert_eq!(mk_group(Family::Aws, &[]).build(), Err(TemplateError::NoType));
    let half = mk_group(Family::Azure, &["Standard_New"]).table("azure: {Standard_New: {cpu: 2}}");
    let error = half.build().unwrap_err().to_string();
    assert!(error.starts_with("the memory of instance type Standard_New is unknown;"), "{error}");

    let mut given = mk_group(Family::Aws, &["x9.large"]);
    given.overrides.capacity = map(&[("cpu", Quantity::units(2)), ("memory", "8Gi".parse().unwrap())]);
    assert_eq!(given.get("capacity.memory"), some("8Gi"));
    assert_eq!(given.get("labels.kubernetes.io/arch"), None);
}

#[test]
fn live_discovery_serves_types_that_no_table_knows() {
    let group = mk_group(Family::Aws, &["x9.large"]);
    let x9 = InstanceType {
        name: "x9.large".into(),
        cpus: 2,
        memory_mib: 8192,
        architecture: Architecture::Arm64,
        accelerators: Vec::new(),
        network_pods: Some(20),
        local_disk_bytes: Some(0),
    };
    group.catalog.insert_live(Family::Aws, &[x9]);
    assert_eq!(group.value("capacity.cpu").unwrap().provenance.to_string(), "live discovery");
    assert_eq!(group.get("capacity.pods"), some("20"));
    assert_eq!(group.get("labels.kubernetes.io/arch"), some("arm64"));
}

#[test]
fn an_azure_group_reserves_as_aks_does() {
    let mut group = mk_group(Family::Azure, &["standard_ds2_v2"]);
    group.launch.ephemeral_storage_bytes = Some(128 << 30);
    assert_eq!(group.get("capacity.pods"), some("110"));
    assert_eq!(group.get("allocatable.cpu"), some("1900m"));
    let capacity = group.value("capacity.memory").unwrap();
    let memory: Quantity = capacity.value.parse().unwrap();
    // min(20 · 110 + 50, a quarter of 7168) + 100
    assert_eq!(group.get("allocatable.memory").unwrap().parse(), Ok(memory.less("1892Mi".parse().unwrap())));
    // An AKS node with this disk reports 129886128Ki.
    let disk: Quantity = group.get("capacity.ephemeral-storage").unwrap().parse().unwrap();
    assert!(disk < "129886128Ki".parse().unwrap() && disk > "128000000Ki".parse().unwrap(), "{disk}");
    group.overrides.reserved.profile = Some(ReservedProfile::AksLegacy);
    assert_eq!(group.get("allocatable.memory").unwrap().parse(), Ok(memory.less("2388Mi".parse().unwrap())));
}
