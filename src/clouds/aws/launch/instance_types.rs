//! Instance types, looked up in EC2.

use std::time::Duration;

use aws_sdk_ec2::types::{InstanceStorageInfo, InstanceTypeInfo};

use super::super::sdk::api::BATCH;
use super::super::sdk::cache::{FAILED_TTL, IMMUTABLE_TTL};
use super::Launches;
use crate::cloud::{Accelerator, Architecture, CloudError, InstanceType};

/// Most pages of the whole catalog. It has about 1300 types in pages of 100.
const PAGES_MAX: usize = 100;
/// The first pause after EC2 denied or throttled a lookup. It doubles with each further one.
const LOOKUP_PAUSE_MIN: Duration = Duration::from_secs(10);
/// ... up to this. The tables have nearly every type; only new ones wait.
const LOOKUP_PAUSE_MAX: Duration = Duration::from_secs(10 * 60);
/// EC2 describes disks in decimal gigabytes.
const GB: u64 = 1_000_000_000;

impl Launches {
    /// Looks up instance types by name, each once for all groups that ask for it. While EC2 denies or throttles these calls, it
    /// is not asked again for a while.
    pub(in crate::clouds::aws) async fn instance_types_named(
        &self,
        names: &[String],
    ) -> Result<Vec<InstanceType>, CloudError> {
        // Those who wait here find what the one before them has found.
        let mut refusals = self.type_lookups.lock().await;
        let unknown: Vec<String> = names.iter().filter(|name| self.types.get(*name).is_none()).cloned().collect();
        if !unknown.is_empty() {
            if let Some(error) = self.refused_lookup.get(&()) {
                return Err(error);
            }
            if let Err(error) = self.look_up(&unknown).await {
                if let Some(pause) = pause_after(&error, *refusals) {
                    *refusals = refusals.saturating_add(1);
                    tracing::debug!(%error, ?pause, "instance types are not looked up for a while");
                    self.refused_lookup.put((), error.clone(), pause);
                }
                return Err(error);
            }
            *refusals = 0;
        }
        Ok(names.iter().filter_map(|name| self.types.get_expired(name)?).collect())
    }

    async fn look_up(&self, names: &[String]) -> Result<(), CloudError> {
        for batch in names.chunks(BATCH) {
            let found = self.batch_of_types(batch).await?;
            for name in batch {
                let known = found.iter().find(|known| known.name == *name).cloned();
                let ttl = if known.is_some() { IMMUTABLE_TTL } else { FAILED_TTL };
                self.types.put(name.clone(), known, ttl);
            }
        }
        Ok(())
    }

    // One unknown name fails the whole call (#3256). The names in the error are left out. If the call still fails, each type
    // is looked up by itself.
    async fn batch_of_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        let error = match self.describe_types(names).await {
            Ok(types) => return Ok(types),
            Err(error @ (CloudError::NotFound(_) | CloudError::Refused(_))) => error,
            Err(error) => return Err(error),
        };
        let message = &error.fault().message;
        let words: Vec<_> = message.split(|letter: char| !is_of_type_name(letter)).collect();
        let known: Vec<_> = names.iter().filter(|name| !words.contains(&name.as_str())).cloned().collect();
        if known.is_empty() {
            return Ok(Vec::new());
        }
        if known.len() < names.len() {
            match self.describe_types(&known).await {
                Err(CloudError::NotFound(_) | CloudError::Refused(_)) => {}
                answer => return answer,
            }
        }
        let mut found = Vec::new();
        for name in known {
            match self.describe_types(std::slice::from_ref(&name)).await {
                Ok(types) => found.extend(types),
                Err(CloudError::NotFound(_) | CloudError::Refused(_)) => {
                    tracing::debug!(instance_type = %name, "instance type is unknown to EC2");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// All instance types of the region.
    pub(in crate::clouds::aws) async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.describe_types(&[]).await
    }

    async fn describe_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        let mut found = Vec::new();
        let mut token = None;
        for _ in 0..PAGES_MAX {
            let page = self.ec2.describe_instance_types(names, token).await?;
            found.extend(page.instance_types().iter().filter_map(instance_type));
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(found);
            }
        }
        Err(CloudError::unintelligible("DescribeInstanceTypes", "all", format!("more than {PAGES_MAX} pages")))
    }
}

/// How long no types are looked up after this error, the latest of so many. `None` where another lookup may succeed.
fn pause_after(error: &CloudError, refusals: u32) -> Option<Duration> {
    let pause = (LOOKUP_PAUSE_MIN * 2_u32.pow(refusals.min(10))).min(LOOKUP_PAUSE_MAX);
    match error {
        CloudError::Throttled { retry_after, .. } => Some(retry_after.unwrap_or_default().max(pause)),
        CloudError::Denied(_) => Some(pause),
        _ => None,
    }
}

fn is_of_type_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '.' || letter == '-'
}

/// Reads an instance type. Returns `None` if its name, CPUs or memory are missing.
pub(super) fn instance_type(info: &InstanceTypeInfo) -> Option<InstanceType> {
    let architectures = info.processor_info.as_ref().map(|info| info.supported_architectures()).unwrap_or_default();
    let arm = architectures.iter().any(|architecture| architecture.as_str().starts_with("arm64"));
    Some(InstanceType {
        name: info.instance_type.as_ref()?.as_str().to_owned(),
        cpus: positive(info.v_cpu_info.as_ref()?.default_v_cpus)?,
        memory_mib: u64::try_from(info.memory_info.as_ref()?.size_in_mib?).ok()?,
        architecture: if arm { Architecture::Arm64 } else { Architecture::Amd64 },
        accelerators: accelerators(info),
        network_pods: network_pods(info),
        // EC2 describes no storage for a type without local disks.
        local_disk_bytes: Some(info.instance_storage_info.as_ref().and_then(local_disk_bytes).unwrap_or_default()),
    })
}

fn local_disk_bytes(disks: &InstanceStorageInfo) -> Option<u64> {
    u64::try_from(disks.total_size_in_gb?).ok()?.checked_mul(GB)
}

fn positive(number: Option<i32>) -> Option<u32> {
    u32::try_from(number?).ok().filter(|number| *number > 0)
}

fn accelerators(info: &InstanceTypeInfo) -> Vec<Accelerator> {
    let mut found: Vec<Accelerator> = Vec::new();
    let mut add = |resource: &str, count: u32| match found.iter_mut().find(|known| known.resource == resource) {
        _ if count == 0 => {}
        Some(known) => known.count += count,
        None => found.push(Accelerator { resource: resource.to_owned(), count }),
    };
    for gpu in info.gpu_info.as_ref().map(|info| info.gpus()).unwrap_or_default() {
        let resource = match gpu.manufacturer().unwrap_or_default().to_ascii_lowercase().as_str() {
            "nvidia" => "nvidia.com/gpu",
            "amd" => "amd.com/gpu",
            "habana" => "habana.ai/gaudi",
            other => {
                tracing::debug!(
                    manufacturer = other,
                    "no known extended resource for accelerators of this manufacturer; ignoring them"
                );
                continue;
            }
        };
        // A type with a fraction of a GPU has a GPU count of 0. Its device plugin advertises the fraction as one GPU.
        let count = positive(gpu.count).or_else(|| positive(gpu.logical_gpu_count));
        add(resource, count.unwrap_or_default());
    }
    for device in info.neuron_info.as_ref().map(|info| info.neuron_devices()).unwrap_or_default() {
        let count = positive(device.count).unwrap_or_default();
        let cores = device.core_info.as_ref().and_then(|cores| positive(cores.count)).unwrap_or_default();
        add("aws.amazon.com/neuron", count);
        add("aws.amazon.com/neuroncore", count.saturating_mul(cores));
    }
    // Pods on Windows share the addresses of one interface, except its primary address. Each pod requests one.
    let addresses = info.network_info.as_ref().and_then(|network| positive(network.ipv4_addresses_per_interface));
    add("vpc.amazonaws.com/PrivateIPv4Address", addresses.map_or(0, |addresses| addresses - 1));
    found
}

// Pods use the addresses of the default card's interfaces, except each primary address. Two more pods use the host network.
fn network_pods(info: &InstanceTypeInfo) -> Option<u32> {
    let network = info.network_info.as_ref()?;
    let default = network.default_network_card_index.unwrap_or_default();
    let card = network.network_cards().iter().find(|card| card.network_card_index == Some(default));
    let interfaces = card.and_then(|card| card.maximum_network_interfaces).or(network.maximum_network_interfaces);
    let addresses = positive(network.ipv4_addresses_per_interface)?;
    positive(interfaces)?.checked_mul(addresses - 1)?.checked_add(2)
}

#[cfg(test)]
mod tests {
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
}
