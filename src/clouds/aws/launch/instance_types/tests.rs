use aws_sdk_ec2::types::builders::InstanceTypeInfoBuilder;
use aws_sdk_ec2::types::{
    ArchitectureType, GpuDeviceInfo, GpuInfo, InstanceType as Ec2Type, MemoryInfo, NetworkCardInfo, NetworkInfo,
    NeuronDeviceCoreInfo, NeuronDeviceInfo, NeuronInfo, ProcessorInfo, VCpuInfo,
};

use super::*;

fn info(name: &str, cpus: i32, memory_mib: i64, architecture: &str) -> InstanceTypeInfoBuilder {
    let processor = ProcessorInfo::builder().supported_architectures(ArchitectureType::from(architecture)).build();
    InstanceTypeInfo::builder()
        .instance_type(Ec2Type::from(name))
        .v_cpu_info(VCpuInfo::builder().default_v_cpus(cpus).build())
        .memory_info(MemoryInfo::builder().size_in_mib(memory_mib).build())
        .processor_info(processor)
}

#[test]
fn cpus_memory_and_architecture() {
    let c4 = instance_type(&info("c4.xlarge", 4, 7680, "x86_64").build()).expect("complete");
    assert_eq!((c4.name.as_str(), c4.cpus, c4.memory_mib), ("c4.xlarge", 4, 7680));
    for (name, architecture) in [
        ("arm64", Architecture::Arm64),
        ("arm64_mac", Architecture::Arm64),
        ("i386", Architecture::Amd64),
        ("x86_64", Architecture::Amd64),
        ("x86_64_mac", Architecture::Amd64),
        ("something", Architecture::Amd64),
    ] {
        let read = instance_type(&info("x", 1, 1, name).build()).expect("complete");
        assert_eq!(read.architecture, architecture, "{name}");
    }
    assert_eq!(instance_type(&InstanceTypeInfo::builder().build()), None);
    assert_eq!(instance_type(&info("x", 0, 1, "x86_64").build()), None);
}

#[test]
fn accelerators_by_manufacturer() {
    let gpu = |manufacturer: &str, count| GpuDeviceInfo::builder().manufacturer(manufacturer).count(count).build();
    let gpus = GpuInfo::builder().gpus(gpu("NVIDIA", 8)).gpus(gpu("NVIDIA", 4)).gpus(gpu("NVIDIA", 0));
    let gpus = gpus.gpus(gpu("AMD", 2)).gpus(gpu("Habana", 1)).gpus(gpu("Nobody", 7));
    let part = GpuDeviceInfo::builder().manufacturer("NVIDIA").count(0).logical_gpu_count(1).build();
    let cores = NeuronDeviceCoreInfo::builder().count(4).build();
    let devices = NeuronDeviceInfo::builder().count(2).core_info(cores).build();
    let neuron = NeuronInfo::builder().neuron_devices(devices).build();
    let read = |builder: InstanceTypeInfoBuilder| -> Vec<(String, u32)> {
        let read = instance_type(&builder.build()).expect("complete").accelerators;
        read.into_iter().map(|accelerator| (accelerator.resource, accelerator.count)).collect()
    };
    let x = || info("x", 1, 1, "x86_64");
    let counted = |pairs: &[(&str, u32)]| -> Vec<(String, u32)> {
        pairs.iter().map(|(resource, count)| ((*resource).to_owned(), *count)).collect()
    };
    assert_eq!(
        read(x().gpu_info(gpus.build())),
        counted(&[("nvidia.com/gpu", 12), ("amd.com/gpu", 2), ("habana.ai/gaudi", 1)])
    );
    assert_eq!(read(x().gpu_info(GpuInfo::builder().gpus(part).build())), counted(&[("nvidia.com/gpu", 1)]));
    assert_eq!(
        read(x().neuron_info(neuron)),
        counted(&[("aws.amazon.com/neuron", 2), ("aws.amazon.com/neuroncore", 8)])
    );
    let network = NetworkInfo::builder().ipv4_addresses_per_interface(10).build();
    assert_eq!(read(x().network_info(network)), counted(&[("vpc.amazonaws.com/PrivateIPv4Address", 9)]));
    assert_eq!(read(x()), counted(&[]));
}

#[test]
fn local_disks_are_added_up() {
    let bytes = |disks: Option<InstanceStorageInfo>| {
        let info = info("x", 1, 1, "x86_64").set_instance_storage_info(disks).build();
        instance_type(&info).expect("complete").local_disk_bytes
    };
    assert_eq!(bytes(Some(InstanceStorageInfo::builder().total_size_in_gb(75).build())), Some(75_000_000_000));
    assert_eq!(bytes(None), Some(0));
}

#[test]
fn the_addresses_of_the_default_card_limit_the_pods() {
    let card = |index, interfaces| {
        NetworkCardInfo::builder().network_card_index(index).maximum_network_interfaces(interfaces).build()
    };
    let pods = |network: NetworkInfo| {
        instance_type(&info("x", 1, 1, "x86_64").network_info(network).build()).expect("complete").network_pods
    };
    let network = || NetworkInfo::builder().ipv4_addresses_per_interface(10);
    assert_eq!(pods(network().maximum_network_interfaces(3).build()), Some(29), "m5.large");
    let p5 = NetworkInfo::builder().ipv4_addresses_per_interface(50).maximum_network_interfaces(64);
    let p5 = p5.default_network_card_index(0).network_cards(card(0, 2)).network_cards(card(1, 1));
    assert_eq!(pods(p5.build()), Some(100), "p5.48xlarge");
    assert_eq!(pods(network().build()), None);
    assert_eq!(pods(NetworkInfo::builder().build()), None);
}
