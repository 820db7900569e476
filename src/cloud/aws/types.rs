//! Instance types, as EC2 describes them.

use aws_sdk_ec2::types::InstanceTypeInfo;

use super::Aws;
use super::api::BATCH;
use super::errors::unintelligible;
use crate::cloud::{Accelerator, Architecture, CloudError, InstanceType};

/// Pages of the whole catalog: some 1300 types in pages of 100, with room to grow.
const PAGES_MAX: usize = 100;

impl Aws {
    /// Looks types up by name.
    pub(super) async fn types_named(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        let mut found = Vec::with_capacity(names.len());
        for batch in names.chunks(BATCH) {
            found.extend(self.batch_of_types(batch).await?);
        }
        Ok(found)
    }

    // One unknown name fails the call for all (#3256): those it names are left out, and if that does not help every
    // type is asked for alone.
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
                    tracing::debug!(instance_type = %name, "ec2 does not know the instance type");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Every type of the region.
    pub(super) async fn types_all(&self) -> Result<Vec<InstanceType>, CloudError> {
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
        Err(unintelligible("DescribeInstanceTypes", "all", format!("more than {PAGES_MAX} pages")))
    }
}

fn is_of_type_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '.' || letter == '-'
}

/// Reads a type; `None` where what a node is made of is missing.
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
    })
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
                tracing::debug!(manufacturer = other, "accelerators of this manufacturer have no known resource");
                continue;
            }
        };
        // Types with a part of a GPU count no whole one; their device plugin announces the part as one.
        let count = positive(gpu.count).or_else(|| positive(gpu.logical_gpu_count));
        add(resource, count.unwrap_or_default());
    }
    for device in info.neuron_info.as_ref().map(|info| info.neuron_devices()).unwrap_or_default() {
        let count = positive(device.count).unwrap_or_default();
        let cores = device.core_info.as_ref().and_then(|cores| positive(cores.count)).unwrap_or_default();
        add("aws.amazon.com/neuron", count);
        add("aws.amazon.com/neuroncore", count.saturating_mul(cores));
    }
    found
}

// Pods have the addresses of the default card's interfaces, less each interface's own, and two are on the host's.
fn network_pods(info: &InstanceTypeInfo) -> Option<u32> {
    let network = info.network_info.as_ref()?;
    let default = network.default_network_card_index.unwrap_or_default();
    let card = network.network_cards().iter().find(|card| card.network_card_index == Some(default));
    let interfaces = card.and_then(|card| card.maximum_network_interfaces).or(network.maximum_network_interfaces);
    let addresses = positive(network.ipv4_addresses_per_interface)?;
    positive(interfaces)?.checked_mul(addresses - 1)?.checked_add(2)
}
