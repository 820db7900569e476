//! One instance type in a table.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::quantity::Quantity;
use crate::cloud::{Architecture, InstanceType, is_qualified_name};

/// The figures of an instance type from one origin (a table, or the cloud). Missing figures come from the next origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// `cpu`: virtual processors.
    pub cpu: Option<Quantity>,
    /// `memory`: bytes as a kubelet reports them; used unchanged.
    pub memory: Option<Quantity>,
    /// `nominalMemory`: bytes as the cloud sells them; what the hypervisor and the kernel keep is subtracted.
    pub nominal_memory: Option<Quantity>,
    /// `arch`.
    pub architecture: Option<Architecture>,
    /// `pods`: on AWS what the type's network interfaces can serve.
    pub pods: Option<u32>,
    /// `localDisks`: the total size of the instance's own disks, in bytes.
    pub local_disks: Option<Quantity>,
    /// `price`: what an hour costs on demand, in the currency of the cloud's bill.
    pub price: Option<Quantity>,
    /// `spotPrice`: what an hour of spot capacity costs.
    pub spot_price: Option<Quantity>,
    /// Any other resource, by its name: `nvidia.com/gpu`, `ephemeral-storage`, `hugepages-2Mi`.
    pub resources: BTreeMap<String, Quantity>,
}

/// The figures of a type from a cloud's API.
impl From<&InstanceType> for Entry {
    fn from(live: &InstanceType) -> Self {
        let mut resources = BTreeMap::new();
        for accelerator in &live.accelerators {
            let sum: &mut Quantity = resources.entry(accelerator.resource.clone()).or_insert(Quantity::ZERO);
            *sum = sum.plus(Quantity::units(accelerator.count));
        }
        Self {
            cpu: Some(Quantity::units(live.cpus)),
            memory: None,
            nominal_memory: Quantity::mebibytes(live.memory_mib),
            architecture: Some(live.architecture),
            pods: live.network_pods,
            local_disks: live.local_disk_bytes.map(Quantity::bytes),
            price: None,
            spot_price: None,
            resources,
        }
    }
}

/// The entry as in a table, in flow style.
impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, memory, nominal_memory, architecture, pods, local_disks, price, spot_price, resources } = self;
        let mut fields: Vec<String> = Vec::new();
        fields.extend(cpu.map(|cpu| format!("cpu: {cpu}")));
        fields.extend(memory.map(|memory| format!("memory: {memory}")));
        fields.extend(nominal_memory.map(|memory| format!("nominalMemory: {memory}")));
        fields.extend(architecture.map(|architecture| format!("arch: {}", architecture.label())));
        fields.extend(pods.map(|pods| format!("pods: {pods}")));
        // Most types have none, so a table can leave it out.
        let local_disks = local_disks.filter(|disks| !disks.is_zero());
        fields.extend(local_disks.map(|disks| format!("localDisks: {disks}")));
        fields.extend(price.map(|price| format!("price: {}", price.as_f64())));
        fields.extend(spot_price.map(|price| format!("spotPrice: {}", price.as_f64())));
        fields.extend(resources.iter().map(|(name, quantity)| format!("{name}: {quantity}")));
        write!(formatter, "{{{}}}", fields.join(", "))
    }
}

/// Whether a key can be a resource of a node: qualified by a domain, or one of those Kubernetes itself has.
fn names_resource(key: &str) -> bool {
    let is_qualified = key.contains('/') && is_qualified_name(key);
    is_qualified
        || key == "ephemeral-storage"
        || key.starts_with("hugepages-")
        || key.starts_with("attachable-volumes-")
}

/// Checks that a node's capacity can have this much of a resource of this name.
///
/// # Errors
///
/// If there is no such resource, or if it is counted and the quantity is not whole.
pub fn check_capacity(name: &str, quantity: Quantity) -> Result<(), String> {
    if !matches!(name, "cpu" | "memory" | "pods") && !names_resource(name) {
        return Err(format!(
            "unknown resource {name:?}; expected cpu, memory, pods, ephemeral-storage, hugepages-…, or a name with a \
             domain, such as nvidia.com/gpu"
        ));
    }
    let is_counted = name == "pods" || name.contains('/');
    if is_counted && !quantity.is_whole() {
        return Err(format!("{name} is counted; write a whole number"));
    }
    Ok(())
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the resources of an instance type, for instance {cpu: 2, nominalMemory: 8Gi, arch: amd64}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let mut entry = Entry::default();
        while let Some(Key(key)) = map.next_key()? {
            match key.as_str() {
                "cpu" => entry.cpu = Some(map.next_value()?),
                "memory" => entry.memory = Some(map.next_value()?),
                "nominalMemory" => entry.nominal_memory = Some(map.next_value()?),
                "arch" => entry.architecture = Some(map.next_value::<Arch>()?.0),
                "pods" => entry.pods = Some(map.next_value::<Pods>()?.0),
                "localDisks" => entry.local_disks = Some(map.next_value()?),
                "price" => entry.price = Some(map.next_value::<Price>()?.0),
                "spotPrice" => entry.spot_price = Some(map.next_value::<Price>()?.0),
                _ => {
                    entry.resources.insert(key, map.next_value()?);
                }
            }
        }
        Ok(entry)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

/// A key of an entry. It is a type of its own, so that the error for an unknown key names its place.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        let known = matches!(
            key.as_str(),
            "cpu" | "memory" | "nominalMemory" | "arch" | "pods" | "localDisks" | "price" | "spotPrice"
        );
        if known || names_resource(&key) {
            return Ok(Self(key));
        }
        Err(D::Error::custom(format!(
            "unknown resource {key:?}; expected cpu, memory, nominalMemory, arch, pods, localDisks, price, spotPrice, \
             ephemeral-storage, hugepages-…, or a name with a domain, such as nvidia.com/gpu"
        )))
    }
}

struct Arch(Architecture);

impl<'de> Deserialize<'de> for Arch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        [Architecture::Amd64, Architecture::Arm64]
            .into_iter()
            .find(|architecture| architecture.label() == name)
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("unknown arch {name:?}; expected amd64 or arm64")))
    }
}

struct Pods(u32);

impl<'de> Deserialize<'de> for Pods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| D::Error::custom(format!("pods: {text:?} is not a whole number")))
    }
}

struct Price(Quantity);

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let no_price =
            |_| D::Error::custom(format!("{text:?} is not a price; write the price per hour, such as 0.096"));
        let price: Quantity = text.parse().map_err(no_price)?;
        if price.is_negative() {
            return Err(D::Error::custom(format!("{text:?} is negative; write the price per hour, such as 0.096")));
        }
        if price.is_zero() {
            return Err(D::Error::custom(
                "a price of 0 makes the Cluster Autoscaler ignore the type; write the price per hour, with a point: 0.096",
            ));
        }
        Ok(Self(price))
    }
}
