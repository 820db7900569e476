//! Instance types, looked up in EC2.

use std::time::Duration;

use aws_sdk_ec2::types::{EphemeralNvmeSupport, InstanceStorageInfo, InstanceTypeInfo};

use super::super::sdk::api::BATCH;
use super::super::sdk::cache::{FAILED_TTL, IMMUTABLE_TTL};
use super::Launches;
use crate::cloud::{Accelerator, Architecture, CloudError, InstanceType};
use crate::clouds::page_walk::PageWalk;

/// Most pages of the whole catalog. It has about 1300 types in pages of 100.
const PAGES_MAX: usize = 100;
/// The first pause after EC2 denied or throttled a lookup. It doubles with each further one.
const LOOKUP_PAUSE_MIN: Duration = Duration::from_secs(10);
/// The longest of these pauses. The tables have nearly every type; only new ones wait.
const LOOKUP_PAUSE_MAX: Duration = Duration::from_secs(10 * 60);
/// EC2 describes disks in decimal gigabytes.
const GB: u64 = 1_000_000_000;

impl Launches {
    /// Looks up instance types by name, each once for all groups that ask for it. After EC2 denied or throttled a
    /// lookup, there are no lookups for a while.
    pub(in crate::clouds::aws) async fn instance_types_named(
        &self,
        names: &[String],
    ) -> Result<Vec<InstanceType>, CloudError> {
        // A caller that waited for the lock finds the results of the one before it.
        let mut refusals = self.type_lookups.lock().await;
        let unknown: Vec<String> = names.iter().filter(|name| self.types.get(*name).is_none()).cloned().collect();
        if !unknown.is_empty() {
            if let Some(error) = self.refused_lookup.get(&()) {
                return Err(error);
            }
            if let Err(error) = self.look_up(&unknown).await {
                if let Some(pause) = pause_after(&error, *refusals) {
                    *refusals = refusals.saturating_add(1);
                    tracing::debug!(%error, ?pause, "instance type lookup failed; suspending lookups for this pause");
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

    // One unknown name fails the whole call (#3256). The names in the error are left out. If the call still fails, each
    // type is looked up by itself.
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
                result => return result,
            }
        }
        let mut found = Vec::new();
        for name in known {
            match self.describe_types(std::slice::from_ref(&name)).await {
                Ok(types) => found.extend(types),
                Err(CloudError::NotFound(_) | CloudError::Refused(_)) => {
                    tracing::debug!(instance_type = %name, "EC2 does not know the instance type; using the tables for \
                        it");
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
        let (mut token, mut walk) = (None, PageWalk::default());
        for _ in 0..PAGES_MAX {
            let page = self.ec2.describe_instance_types(names, token).await?;
            found.extend(page.instance_types().iter().filter_map(instance_type));
            let next = walk.token(page.next_token);
            token = next.map_err(|why| CloudError::unintelligible("DescribeInstanceTypes", "all", why))?;
            if token.is_none() {
                return Ok(found);
            }
        }
        Err(CloudError::unintelligible("DescribeInstanceTypes", "all", format!("more than {PAGES_MAX} pages")))
    }
}

/// How long lookups are suspended after this error, which follows `refusals` others. `None` if the next lookup may
/// succeed.
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

/// What images of EKS make one disk of. They look for NVMe disks alone (setup-local-disks), and leave those of older types,
/// such as d2, as they are.
fn local_disk_bytes(disks: &InstanceStorageInfo) -> Option<u64> {
    if disks.nvme_support == Some(EphemeralNvmeSupport::Unsupported) {
        return Some(0);
    }
    u64::try_from(disks.total_size_in_gb?).ok()?.checked_mul(GB)
}

fn positive(number: Option<i32>) -> Option<u32> {
    u32::try_from(number?).ok().filter(|number| *number > 0)
}

fn accelerators(info: &InstanceTypeInfo) -> Vec<Accelerator> {
    let mut found: Vec<Accelerator> = Vec::new();
    let mut add = |resource: &str, count: u32| match found.iter_mut().find(|known| known.resource == resource) {
        _ if count == 0 => {}
        Some(known) => known.count = known.count.saturating_add(count),
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

// Pods use the addresses of the default card's interfaces, except each primary address. Two more pods use the host
// network.
fn network_pods(info: &InstanceTypeInfo) -> Option<u32> {
    let network = info.network_info.as_ref()?;
    let default = network.default_network_card_index.unwrap_or_default();
    let card = network.network_cards().iter().find(|card| card.network_card_index == Some(default));
    let interfaces = card.and_then(|card| card.maximum_network_interfaces).or(network.maximum_network_interfaces);
    let addresses = positive(network.ipv4_addresses_per_interface)?;
    positive(interfaces)?.checked_mul(addresses - 1)?.checked_add(2)
}

#[cfg(test)]
mod tests;
