//! How launch settings change an instance type.

use super::*;
use crate::cloud::OperatingSystem;
use crate::instance_types::{Day, Learned, NodeIdentity, NodeReport};

#[test]
fn the_kubelets_pod_limit_comes_before_that_of_the_network() {
    let mut group = mk_group(Family::Aws, &["m5.24xlarge"]);
    assert_eq!(group.get("capacity.pods"), some("737"));
    group.launch.caps_pods = true;
    assert_eq!(group.get("capacity.pods"), some("250"));
    group.launch.reserved = Some(ReservedProfile::Kubeadm);
    assert_eq!(group.get("capacity.pods"), some("110"));
    group.overrides.capacity = map(&[("pods", Quantity::units(60))]);
    assert_eq!(group.get("capacity.pods"), some("60"));
    group.overrides.reserved.max_pods = Some(58);
    assert_eq!(group.get("capacity.pods"), some("58"));
    group.hints.resources = strings(&[("pods", "70")]);
    assert_eq!(group.get("capacity.pods"), some("70"), "a tag overrides the configuration");
    group = mk_group(Family::Aws, &["m5.24xlarge", "m5.large"]);
    group.launch.max_pods = Some(110);
    let pods = group.value("capacity.pods").unwrap();
    assert_eq!((pods.value.as_str(), pods.provenance.to_string()), ("110", "group".to_owned()));
    assert_eq!(pods.runner_up.unwrap().0, "737");
    group.launch.max_pods = Some(300);
    assert_eq!(group.get("capacity.pods"), some("300"));
    group.launch.caps_pods = true;
    assert_eq!(group.get("capacity.pods"), some("110"), "m5.large, the smaller one");
    // One of several launch templates sets a limit, which the network would exceed.
    let mut several = mk_group(Family::Aws, &["m5.large"]);
    several.launch.pods_at_most = Some(20);
    assert_eq!(several.get("capacity.pods"), some("20"));
    several.launch.pods_at_most = Some(58);
    assert_eq!(several.get("capacity.pods"), some("29"));
    // With prefix delegation, the limit is the kubelet's, and the reserve follows from the network.
    let mut delegated = mk_group(Family::Aws, &["m5.large"]);
    let before = delegated.get("allocatable.memory");
    delegated.overrides.reserved.max_pods = Some(110);
    assert_eq!((delegated.get("capacity.pods"), delegated.get("allocatable.memory")), (some("110"), before));
}

#[test]
fn nodes_without_a_cloud_service_are_plain_kubelets() {
    for (family, name) in [(Family::Aws, "m5.large"), (Family::Azure, "Standard_D2s_v5")] {
        let mut group = mk_group(family, &[name]);
        let of_cloud = group.value("reserved.profile").unwrap();
        assert_eq!(of_cloud.provenance.to_string(), "group");
        group.launch.reserved = None;
        let profile = group.value("reserved.profile").unwrap();
        assert_eq!((profile.value.as_str(), profile.provenance.to_string()), ("kubeadm", "default".to_owned()));
        let quantity = |path: &str| group.get(path).unwrap().parse::<Quantity>().unwrap();
        let kept = quantity("capacity.memory").less(quantity("allocatable.memory"));
        assert_eq!((kept.to_string().as_str(), group.get("capacity.pods")), ("100Mi", some("110")));
        assert_eq!(group.get("allocatable.cpu"), group.get("capacity.cpu"));
        group.launch.image = Some(NodeImage { family: ImageFamily::RedHatCoreOs, evidence: ImageEvidence::Name });
        let profile = group.value("reserved.profile").unwrap();
        assert_eq!((profile.value.as_str(), profile.provenance.to_string()), ("openshift", "group".to_owned()));
        group.overrides.reserved.profile = Some(ReservedProfile::OpenShift);
        let profile = group.value("reserved.profile").unwrap();
        assert_eq!(
            (profile.value.as_str(), profile.provenance.to_string()),
            ("openshift", "group override".to_owned())
        );
    }
}

#[test]
fn vcpus_that_the_launch_disables_are_not_promised() {
    let mut group = mk_group(Family::Aws, &["m5.4xlarge", "m5.large"]);
    group.launch.cpus_max = Some(4);
    assert_eq!(group.get("capacity.cpu"), some("2"));
    group.launch.types.pop();
    let cpu = group.value("capacity.cpu").unwrap();
    assert_eq!((cpu.value.as_str(), cpu.provenance.to_string()), ("4", "group".to_owned()));
    assert_eq!(cpu.runner_up.unwrap().0, "16");
    assert_eq!(group.get("allocatable.cpu"), some("3920m"));
}

#[test]
fn a_core_with_one_thread_is_one_vcpu() {
    let mut group = mk_group(Family::Azure, &["Standard_D8s_v5"]);
    assert_eq!(group.get("capacity.cpu"), some("8"));
    group.launch.has_one_thread_per_core = true;
    assert_eq!(group.get("capacity.cpu"), some("4"));
}

#[test]
fn what_a_node_with_one_thread_per_core_reported_is_not_halved_again() {
    for (reported, cpu) in [("4", "4"), ("8", "4")] {
        let mut group = mk_group(Family::Azure, &["Standard_D8s_v5"]);
        group.launch.has_one_thread_per_core = true;
        let identity = NodeIdentity {
            group: "az/pool",
            family: Family::Azure,
            type_name: "Standard_D8s_v5",
            image: "Ubuntu",
            node: "vm-1",
            created: "2026-11-01T00:00:00Z",
        };
        let figures = strings(&[("cpu", reported), ("memory", "32000000Ki"), ("pods", "110")]);
        let report = NodeReport::of(identity, &figures, &figures).unwrap();
        let mut learned = Learned::default();
        let sold = |name: &str| group.catalog.sold(name);
        learned.learn(&[report], &|_| false, &sold, Day::of(std::time::SystemTime::UNIX_EPOCH));
        group.catalog.learn(&learned);
        group.catalog = group.catalog.for_group("az/pool");
        assert_eq!(group.get("capacity.cpu"), some(cpu), "a node has {reported}");
    }
}

#[test]
fn devices_that_the_launch_attaches_are_resources() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    group.launch.devices = map(&[("vpc.amazonaws.com/efa", 4)]);
    let efa = group.value("allocatable.vpc.amazonaws.com/efa").unwrap();
    assert_eq!((efa.value.as_str(), efa.provenance.to_string()), ("4", "group".to_owned()));
    let mut tabled = mk_group(Family::Aws, &["m5.large"]).table("aws: {m5.large: {vpc.amazonaws.com/efa: 0}}");
    tabled.launch.devices = group.launch.devices.clone();
    assert_eq!(tabled.get("capacity.vpc.amazonaws.com/efa"), None, "a user's table wins");
    group.hints.resources = strings(&[("vpc.amazonaws.com/efa", "0"), ("vpc.amazonaws.com/pod-eni", "9")]);
    assert_eq!(group.get("capacity.vpc.amazonaws.com/efa"), None);
    assert_eq!(group.get("capacity.vpc.amazonaws.com/pod-eni"), some("9"));
}

#[test]
fn combined_local_disks_are_the_ephemeral_storage() {
    let table = "aws: {m5d.large: {localDisks: 75G}, m5.large: {localDisks: 0}}";
    let combined = |types: &[&str], disks: LocalDisks| {
        let mut group = mk_group(Family::Aws, types).table(table);
        group.launch.ephemeral_storage_bytes = Some(20 << 30);
        group.launch.local_disks = disks;
        group.value("capacity.ephemeral-storage")
    };
    let storage = |types: &[&str]| combined(types, LocalDisks::Joined);
    let none = combined(&["m5.large"], LocalDisks::Mirrored);
    assert_eq!(none, combined(&["m5.large"], LocalDisks::Apart), "without local disks, the volume");
    let half = combined(&["m5d.large"], LocalDisks::Mirrored).unwrap();
    assert_eq!(half.value.parse::<Quantity>().unwrap().whole(), 36_000_000_000 / 1024 * 1024);
    let own = storage(&["m5d.large"]).unwrap();
    assert_eq!(own.provenance.to_string(), "user table my-table.yaml");
    // 4 % less than 75 GB.
    assert_eq!(own.value.parse::<Quantity>().unwrap().whole(), 72_000_000_000 / 1024 * 1024);
    let volume = storage(&["m5.large"]).unwrap();
    assert_eq!(volume.provenance.to_string(), "group");
    assert_eq!(storage(&["m5d.large", "m5.large"]).unwrap().value, volume.value);
    assert_eq!(storage(&["m6id.large"]), None, "no estimate is better than one that may be high");
}

#[test]
fn addresses_for_windows_pods_exist_only_on_windows_nodes_of_eks() {
    const ADDRESSES: &str = "capacity.vpc.amazonaws.com/PrivateIPv4Address";
    let table = "aws: {m5.large: {vpc.amazonaws.com/PrivateIPv4Address: 9}}";
    let mut group = mk_group(Family::Aws, &["m5.large"]).table(table);
    assert_eq!(group.get(ADDRESSES), None);
    group.launch.operating_system = OperatingSystem::Windows;
    assert_eq!((group.get(ADDRESSES), group.get("capacity.pods")), (some("9"), some("110")));
    group.launch.reserved = None;
    assert_eq!(group.get(ADDRESSES), None);
}

#[test]
fn windows_nodes_keep_500_mib_by_the_kubelets_own_default() {
    let mut group = mk_group(Family::Azure, &["Standard_D2s_v3"]);
    group.launch.reserved = None;
    let kept = |group: &Group| {
        let of = |path: &str| group.get(path).unwrap().parse::<Quantity>().unwrap();
        of("capacity.memory").less(of("allocatable.memory")).whole() >> 20
    };
    assert_eq!(kept(&group), 100);
    group.launch.operating_system = OperatingSystem::Windows;
    assert_eq!(kept(&group), 500);
}

#[test]
fn very_different_types_cause_a_warning() {
    let template = mk_group(Family::Aws, &["m5.large", "m5.4xlarge", "m5.xlarge"]).build().unwrap();
    let cpu = &template.spreads["cpu"];
    assert_eq!((cpu.least_type.as_str(), cpu.most_type.as_str()), ("m5.large", "m5.4xlarge"));
    let warning = spread::warning(&template.spreads).unwrap();
    assert!(warning.contains("cpu from 2 (m5.large) to 16 (m5.4xlarge) and memory from"), "{warning}");
    let alike = mk_group(Family::Aws, &["m5.large", "m5a.large"]).build().unwrap();
    assert_eq!(spread::warning(&alike.spreads), None);
}

#[test]
fn gpus_of_windows_nodes_of_aks_are_directx_devices() {
    let mut group = mk_group(Family::Azure, &["Standard_NC4as_T4_v3"]);
    group.launch.operating_system = OperatingSystem::Windows;
    assert_eq!(group.get("capacity.microsoft.com/directx"), some("1"));
    assert_eq!(group.get("capacity.nvidia.com/gpu"), None);
    group.launch.reserved = None;
    assert_eq!(group.get("capacity.nvidia.com/gpu"), some("1"));
}

#[test]
fn the_huge_pages_of_an_elastic_fabric_adapter_are_not_promised_as_memory() {
    let mut group = mk_group(Family::Aws, &["hpc7g.16xlarge"]);
    let memory = |group: &Group| group.get("allocatable.memory").unwrap().parse::<Quantity>().unwrap();
    let without = memory(&group);
    group.launch.has_efa = true;
    // A known node with 64 vCPUs has 14082 MiB of huge pages.
    assert_eq!(without.less(memory(&group)), Quantity::mebibytes(14_082).unwrap());
    assert_eq!(group.get("capacity.hugepages-2Mi"), None);
    group.overrides.capacity = map(&[("hugepages-2Mi", "1Gi".parse().unwrap())]);
    assert_eq!(without.less(memory(&group)), Quantity::mebibytes(1024).unwrap(), "what is declared counts");
    group.launch.operating_system = OperatingSystem::Windows;
    group.overrides.capacity.clear();
    let windows = memory(&group);
    group.launch.has_efa = false;
    assert_eq!(memory(&group), windows);
}

#[test]
fn huge_pages_that_user_data_sets_aside_are_no_memory_for_pods() {
    let mut group = mk_group(Family::Aws, &["m5.4xlarge"]);
    let memory = |group: &Group| group.get("allocatable.memory").unwrap().parse::<Quantity>().unwrap();
    let without = memory(&group);
    group.launch.huge_pages = 1024;
    assert_eq!(without.less(memory(&group)), Quantity::mebibytes(2048).unwrap());
    assert_eq!(group.get("capacity.hugepages-2Mi"), None, "the kernel may not have found as many");
    group.overrides.capacity = map(&[("hugepages-2Mi", "1Gi".parse().unwrap())]);
    assert_eq!(without.less(memory(&group)), Quantity::mebibytes(1024).unwrap(), "what is declared counts");
    group.overrides.capacity.clear();
    for all in [1 << 20, u64::MAX] {
        group.launch.huge_pages = all;
        assert!(memory(&group).is_zero(), "{all}");
    }
}

#[test]
fn the_partitions_of_flatcar_are_not_promised_as_storage() {
    let by_name = |family| Some(NodeImage { family, evidence: ImageEvidence::Name });
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    // Known nodes with Container Linux, their disks and what they report.
    for (gib, reported) in [(8, "5706380Ki"), (30, "28056816Ki"), (50, "48375392Ki")] {
        group.launch.ephemeral_storage_bytes = Some(gib << 30);
        let storage = |image| {
            let launch = LaunchSpec { image, ..group.launch.clone() };
            let group = Group { launch, catalog: group.catalog.clone(), ..mk_group(Family::Aws, &["m5.large"]) };
            group.get("capacity.ephemeral-storage").unwrap().parse::<Quantity>().unwrap()
        };
        let [early, today, other] = [Some(ImageFamily::FlatcarEarly), Some(ImageFamily::Flatcar), None]
            .map(|family| storage(family.and_then(by_name)));
        let reported = reported.parse::<Quantity>().unwrap();
        assert!(early <= reported && early.as_f64() > reported.as_f64() * 0.985, "{gib} GiB: {early}");
        assert!(today < early && other > reported);
    }
}

/// A Flatcar node has less disk, and one with AL2023 for 1.36 less memory.
#[test]
fn a_node_of_several_images_has_the_least_of_any() {
    let of = |image: Option<ImageFamily>, images: &[ImageFamily]| {
        let mut group = mk_group(Family::Aws, &["m6i.large"]);
        let named = |family| NodeImage { family, evidence: ImageEvidence::Name };
        group.launch.ephemeral_storage_bytes = Some(20 << 30);
        (group.launch.image, group.launch.images) = (image.map(named), images.iter().copied().map(named).collect());
        ["memory", "ephemeral-storage"]
            .map(|name| group.get(&format!("capacity.{name}")).unwrap().parse::<Quantity>().unwrap())
    };
    let (late, flatcar) = (ImageFamily::AmazonLinux2023Late, ImageFamily::Flatcar);
    let [of_late, of_flatcar, unknown] = [of(Some(late), &[]), of(Some(flatcar), &[]), of(None, &[])];
    assert!(of_late[0] < unknown[0] && of_flatcar[1] < unknown[1]);
    let both = of(None, &[late, flatcar]);
    assert_eq!(both, [of_late[0].min(of_flatcar[0]), of_flatcar[1]]);
}

#[test]
fn the_file_system_of_amazon_linux_keeps_little_of_its_disk() {
    let mut group = mk_group(Family::Aws, &["m5.large"]);
    // Known nodes with Amazon Linux; the first one lacks the most of its disk.
    for (gib, reported) in [(20, "20893676Ki"), (50, "52350956Ki"), (80, "83873772Ki")] {
        group.launch.ephemeral_storage_bytes = Some(gib << 30);
        let storage = |evidence| {
            let image = Some(NodeImage { family: ImageFamily::AmazonLinux2023, evidence });
            let launch = LaunchSpec { image, ..group.launch.clone() };
            let group = Group { launch, catalog: group.catalog.clone(), ..mk_group(Family::Aws, &["m5.large"]) };
            group.get("capacity.ephemeral-storage").unwrap().parse::<Quantity>().unwrap().as_f64()
        };
        let reported = reported.parse::<Quantity>().unwrap().as_f64();
        let named = storage(ImageEvidence::Name);
        assert!(named <= reported && named > reported * 0.995, "{gib} GiB: {named}");
        assert!(storage(ImageEvidence::UserData) < reported * 0.97, "other images read the same user data");
    }
}

#[test]
fn aks_reserves_for_the_most_pods_where_their_limit_is_not_visible() {
    let mut group = mk_group(Family::Azure, &["Standard_D8s_v5"]);
    let kept = |group: &Group| {
        let quantity = |path: &str| group.get(path).unwrap().parse::<Quantity>().unwrap();
        quantity("capacity.memory").less(quantity("allocatable.memory"))
    };
    let for_pods = |pods: u64| Quantity::mebibytes(20 * pods + 50 + 100).unwrap();
    assert_eq!((group.get("capacity.pods"), kept(&group)), (some("110"), for_pods(250)));
    group.launch.max_pods = Some(110);
    assert_eq!(kept(&group), for_pods(110));
    group.hints.resources = strings(&[("pods", "30")]);
    assert_eq!(
        (group.get("capacity.pods"), kept(&group)),
        (some("30"), for_pods(110)),
        "the pool's limit is reserved for"
    );
    group.launch.max_pods = None;
    group.overrides.reserved.max_pods = Some(30);
    assert_eq!(kept(&group), for_pods(30));
}
