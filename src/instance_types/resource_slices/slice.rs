//! A ResourceSlice of a node's own devices, as far as a template has it: in the words of resource.k8s.io/v1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::instance_types::quantity::Quantity;

/// What Kubernetes allows in a slice.
const DEVICES_MAX: usize = 128;
const ATTRIBUTES_MAX: usize = 32;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const CONSUMPTIONS_MAX: usize = 2;
/// The longest names and texts: a fully qualified name has at most 63 letters, a slash and 32 more; a text has at
/// most 64.
const NAME_BYTES_MAX: usize = 128;
/// The values that a capacity may be requested in.
const VALUES_MAX: usize = 32;

/// The devices that a driver publishes for a node in one slice. A field that this does not know may restrict a
/// device, so a slice that has one is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceSlice {
    /// The driver.
    pub driver: String,
    /// The pool's name, in which [`NODE`] stands for the node's.
    #[serde(default = "pool_default")]
    pub pool: String,
    /// The devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// What the devices share: the memory of a GPU that is divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_counters: Vec<CounterSet>,
}

/// The node's name in the name of a pool.
pub const NODE: &str = "{node}";

fn pool_default() -> String {
    NODE.to_owned()
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// Its name, unique in its pool.
    pub name: String,
    /// What selectors look at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Attribute>,
    /// How much of something it has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Capacity>,
    /// What it takes of the shared counters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumes_counters: Vec<CounterConsumption>,
    /// Whether several claims may share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_multiple_allocations: Option<bool>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `string`
    String(String),
    /// `version`, a semantic version.
    Version(String),
}

/// A capacity of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capacity {
    /// How much it is.
    #[serde(serialize_with = "as_text")]
    pub value: Quantity,
    /// How it may be shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_policy: Option<RequestPolicy>,
}

/// How a capacity may be shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestPolicy {
    /// What a claim takes that requests nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "as_optional_text")]
    pub default: Option<Quantity>,
    /// What may be requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "as_texts")]
    pub valid_values: Vec<Quantity>,
    /// The range of what may be requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_range: Option<RequestRange>,
}

/// A range of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestRange {
    /// The least.
    #[serde(serialize_with = "as_text")]
    pub min: Quantity,
    /// The most.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "as_optional_text")]
    pub max: Option<Quantity>,
    /// The steps between.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "as_optional_text")]
    pub step: Option<Quantity>,
}

/// Counters that devices share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CounterSet {
    /// Its name.
    pub name: String,
    /// The counters.
    #[serde(default)]
    pub counters: BTreeMap<String, Counter>,
}

/// What a device takes of a counter set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CounterConsumption {
    /// The set.
    pub counter_set: String,
    /// The counters.
    #[serde(default)]
    pub counters: BTreeMap<String, Counter>,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// Its value.
    #[serde(serialize_with = "as_text")]
    pub value: Quantity,
}

impl DeviceSlice {
    /// Why Kubernetes would not accept it; `None` if it would.
    pub fn objection(&self) -> Option<String> {
        let long = [&self.driver, &self.pool].into_iter().chain(self.devices.iter().map(|device| &device.name));
        if let Some(text) = long.into_iter().find(|text| text.is_empty() || text.len() > NAME_BYTES_MAX) {
            return Some(format!("{text:?} is no name; a name has 1 to {NAME_BYTES_MAX} letters"));
        }
        let sets = self.shared_counters.iter().map(|set| &set.counters);
        let too_many =
            |what, count: usize, most| (count > most).then(|| format!("{count} {what} are more than {most}"));
        too_many("devices", self.devices.len(), DEVICES_MAX)
            .or_else(|| too_many("counter sets", self.shared_counters.len(), COUNTER_SETS_MAX))
            .or_else(|| sets.into_iter().find_map(|counters| too_many("counters", counters.len(), COUNTERS_MAX)))
            .or_else(|| self.devices.iter().find_map(Device::objection))
    }
}

impl Device {
    fn objection(&self) -> Option<String> {
        let Self { name, attributes, capacity, consumes_counters, .. } = self;
        let is_long = |attribute: &Attribute| match attribute {
            Attribute::String(text) | Attribute::Version(text) => text.len() > NAME_BYTES_MAX,
            Attribute::Bool(_) | Attribute::Int(_) => false,
        };
        let policies = capacity.values().filter_map(|capacity| capacity.request_policy.as_ref());
        let is_wrong = attributes.len() + capacity.len() > ATTRIBUTES_MAX
            || consumes_counters.len() > CONSUMPTIONS_MAX
            || consumes_counters.iter().any(|consumption| consumption.counters.len() > COUNTERS_MAX)
            || attributes.keys().chain(capacity.keys()).any(|key| key.is_empty() || key.len() > NAME_BYTES_MAX)
            || attributes.values().any(is_long)
            || policies.into_iter().any(|policy| policy.valid_values.len() > VALUES_MAX);
        is_wrong.then(|| format!("device {name:?} has more, or longer texts, than Kubernetes allows"))
    }
}

fn as_text<S: Serializer>(quantity: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(quantity)
}

fn as_optional_text<S: Serializer>(quantity: &Option<Quantity>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&quantity.map(|quantity| quantity.to_string()))
}

fn as_texts<S: Serializer>(quantities: &[Quantity], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(quantities.iter().map(ToString::to_string))
}
