//! The ResourceSlices of a new node: what the configuration states, else what the drivers of the group's nodes
//! published.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost::bytes::Bytes;

use super::build::{Input, Value};
use crate::instance_types::resource_slices::{
    Attribute, Capacity, Counter, CounterConsumption, CounterSet, Device, DeviceSlice, LearnedDriver, NODE,
    RequestPolicy, RequestRange,
};
use crate::instance_types::{LearnedType, Provenance, Quantity};

mod wire {
    //! The subset of resource.k8s.io/v1 that a template fills, generated from `proto/resource_slice.proto`.
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, rust_2018_idioms)]

    include!(concat!(env!("OUT_DIR"), "/k8s.resource.rs"));
}

/// The whole devices that a device plugin would announce, by the driver that publishes them as devices instead.
const COUNTED: [(&str, &str); 4] = [
    ("gpu.nvidia.com", "nvidia.com/gpu"),
    ("gpu.amd.com", "amd.com/gpu"),
    ("neuron.aws.com", "aws.amazon.com/neuron"),
    ("neuron.aws.com", "aws.amazon.com/neuroncore"),
];

/// The slices of a new node, by driver.
pub(super) struct ResourceSlices {
    drivers: BTreeMap<String, (Vec<DeviceSlice>, Provenance)>,
}

impl ResourceSlices {
    pub(super) fn of(input: &Input<'_>) -> Self {
        let mut drivers: BTreeMap<String, (Vec<DeviceSlice>, Provenance)> = BTreeMap::new();
        for (name, driver) in learned(input) {
            drivers.insert(name, (driver.slices.to_vec(), driver.provenance()));
        }
        let given: BTreeSet<&str> = input.overrides.resource_slices.iter().map(|slice| slice.driver.as_str()).collect();
        for name in given {
            let of_driver = input.overrides.resource_slices.iter().filter(|slice| slice.driver == name);
            drivers.insert(name.to_owned(), (of_driver.cloned().collect(), Provenance::GroupOverride));
        }
        Self { drivers }
    }

    /// A value for each device.
    pub(super) fn values(&self) -> impl Iterator<Item = Value> {
        self.drivers.iter().flat_map(|(driver, (slices, provenance))| {
            slices.iter().flat_map(|slice| &slice.devices).map(move |device| Value {
                path: format!("resourceSlices.{driver}.{}", device.name),
                value: shown(device),
                provenance: provenance.clone(),
                runner_up: None,
            })
        })
    }

    /// Each slice as protobuf, for a node of this name.
    pub(super) fn encode(&self, node: &str) -> Vec<Bytes> {
        let encode = |(driver, (slices, _)): (&String, &(Vec<DeviceSlice>, Provenance))| {
            let in_pool = |pool: &str| slices.iter().filter(|slice| slice.pool == pool).count();
            let slice = |(number, slice): (usize, &DeviceSlice)| {
                let pool = wire::ResourcePool {
                    name: Some(slice.pool.replace(NODE, node)),
                    generation: Some(1),
                    resource_slice_count: i64::try_from(in_pool(&slice.pool)).ok(),
                };
                let name = format!("{node}-{driver}-{number}");
                to_wire(slice, name, node, pool).encode_to_vec().into()
            };
            slices.iter().enumerate().map(slice).collect::<Vec<Bytes>>()
        };
        self.drivers.iter().flat_map(encode).collect()
    }
}

/// What was learned for every instance type of the group. A driver counts only if it publishes the same for all of
/// them: the Cluster Autoscaler compares the devices of a template with those of each node.
fn learned(input: &Input<'_>) -> BTreeMap<String, LearnedDriver> {
    let of_type = |name: &String| {
        let learned = input.catalog.resolve(input.family, name).and_then(|known| known.learned);
        learned.map(|learned| learned.drivers.clone()).unwrap_or_default()
    };
    let of_types = input.launch.types.iter().map(of_type);
    let common = of_types.reduce(|mut one, other| {
        one.retain(|name, driver| other.get(name).is_some_and(|other| other.slices == driver.slices));
        one
    });
    common.unwrap_or_default()
}

/// Extended resources that nodes of this group do not have, because a driver publishes the devices instead: one that
/// published them for its nodes, or that the configuration names.
pub(super) fn published_instead(
    input: &Input<'_>,
    learned: Option<&LearnedType>,
) -> impl Iterator<Item = &'static str> {
    let is_instead = move |(driver, resource): &(&str, &str)| {
        let is_given = input.overrides.resource_slices.iter().any(|slice| slice.driver == *driver);
        let is_learned = learned.is_some_and(|learned| learned.drivers.contains_key(*driver));
        // A node may have a device plugin as well.
        (is_given || is_learned) && learned.is_none_or(|learned| !learned.capacity.contains_key(*resource))
    };
    COUNTED.into_iter().filter(is_instead).map(|(_, resource)| resource)
}

fn shown(device: &Device) -> String {
    let attributes = device.attributes.iter().map(|(name, attribute)| match attribute {
        Attribute::Bool(value) => format!("{name}={value}"),
        Attribute::Int(value) => format!("{name}={value}"),
        Attribute::String(value) | Attribute::Version(value) => format!("{name}={value}"),
    });
    let capacity = device.capacity.iter().map(|(name, capacity)| format!("{name}={}", capacity.value));
    let counters = device.consumes_counters.iter().map(|consumption| format!("of {}", consumption.counter_set));
    attributes.chain(capacity).chain(counters).collect::<Vec<_>>().join(" ")
}

fn to_wire(slice: &DeviceSlice, name: String, node: &str, pool: wire::ResourcePool) -> wire::ResourceSlice {
    wire::ResourceSlice {
        metadata: Some(wire::ObjectMeta { name: Some(name) }),
        spec: Some(wire::ResourceSliceSpec {
            driver: Some(slice.driver.clone()),
            pool: Some(pool),
            node_name: Some(node.to_owned()),
            devices: slice.devices.iter().map(device).collect(),
            shared_counters: slice.shared_counters.iter().map(counter_set).collect(),
        }),
    }
}

fn device(device: &Device) -> wire::Device {
    let Device { name, attributes, capacity, consumes_counters, allow_multiple_allocations } = device;
    wire::Device {
        name: Some(name.clone()),
        attributes: attributes.iter().map(|(name, value)| (name.clone(), attribute(value))).collect(),
        capacity: capacity.iter().map(|(name, value)| (name.clone(), self::capacity(value))).collect(),
        consumes_counters: consumes_counters.iter().map(consumption).collect(),
        allow_multiple_allocations: *allow_multiple_allocations,
    }
}

fn attribute(attribute: &Attribute) -> wire::DeviceAttribute {
    let mut wire = wire::DeviceAttribute::default();
    match attribute.clone() {
        Attribute::Bool(value) => wire.bool = Some(value),
        Attribute::Int(value) => wire.int = Some(value),
        Attribute::String(value) => wire.string = Some(value),
        Attribute::Version(value) => wire.version = Some(value),
    }
    wire
}

fn capacity(capacity: &Capacity) -> wire::DeviceCapacity {
    let policy = |RequestPolicy { default, valid_values, valid_range }: &RequestPolicy| wire::CapacityRequestPolicy {
        default: default.map(quantity),
        valid_values: valid_values.iter().copied().map(quantity).collect(),
        valid_range: valid_range.as_ref().map(|RequestRange { min, max, step }| wire::CapacityRequestPolicyRange {
            min: Some(quantity(*min)),
            max: max.map(quantity),
            step: step.map(quantity),
        }),
    };
    wire::DeviceCapacity {
        value: Some(quantity(capacity.value)),
        request_policy: capacity.request_policy.as_ref().map(policy),
    }
}

fn counter_set(CounterSet { name, counters }: &CounterSet) -> wire::CounterSet {
    wire::CounterSet { name: Some(name.clone()), counters: self::counters(counters) }
}

fn consumption(CounterConsumption { counter_set, counters }: &CounterConsumption) -> wire::DeviceCounterConsumption {
    wire::DeviceCounterConsumption { counter_set: Some(counter_set.clone()), counters: self::counters(counters) }
}

fn counters(counters: &BTreeMap<String, Counter>) -> BTreeMap<String, wire::Counter> {
    let counter = |counter: &Counter| wire::Counter { value: Some(quantity(counter.value)) };
    counters.iter().map(|(name, value)| (name.clone(), counter(value))).collect()
}

fn quantity(quantity: Quantity) -> wire::Quantity {
    wire::Quantity { string: Some(quantity.to_string()) }
}

#[cfg(test)]
mod tests;
