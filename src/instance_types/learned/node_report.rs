//! What a node reported about itself at one time.

use std::collections::{BTreeMap, BTreeSet};

use super::minimum::{LearnedMinimum, is_device};
use super::{Implausible, Key, ResourceQuantities, Sold, plausible};
use crate::cloud::Family;
use crate::instance_types::provenance::Day;
use crate::instance_types::quantity::Quantity;
use crate::instance_types::table::fold;

/// The most resources kept of a node, and the longest names and texts: nodes have a handful of resources with names
/// of a few dozen letters, and a node's status must not be able to fill the memory.
const RESOURCES_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 128;
const TEXT_BYTES_MAX: usize = 256;

/// The capacity and the allocatable resources of a ready node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    pub(super) group: String,
    pub(super) type_name: String,
    pub(super) image: String,
    pub(super) node: String,
    pub(super) created: String,
    pub(super) capacity: ResourceQuantities,
    pub(super) allocatable: ResourceQuantities,
    /// The devices that its kubelet knows, in whatever number. It keeps the name of one whose plugin has ended, with an
    /// amount of zero.
    pub(super) devices: BTreeSet<String>,
}

/// Identifies the node.
#[derive(Clone, Copy, Debug)]
pub struct NodeIdentity<'a> {
    /// Its group, under its permanent name (`source/name`).
    pub group: &'a str,
    /// The group's cloud.
    pub family: Family,
    /// The instance type, as the node's label has it.
    pub type_name: &'a str,
    /// Operating system and kernel.
    pub image: &'a str,
    /// Its name.
    pub node: &'a str,
    /// When it was created, in RFC 3339, UTC.
    pub created: &'a str,
}

impl NodeReport {
    /// Makes a report; `None` if the node lacks something that is needed.
    ///
    /// A resource with an amount of zero is not learned, because its device plugin may not have started yet. Devices
    /// of which some are unhealthy are not learned either.
    pub fn of(
        identity: NodeIdentity<'_>,
        capacity: &BTreeMap<String, String>,
        allocatable: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let devices = capacity.keys().filter(|name| is_device(name) && name.len() <= NAME_BYTES_MAX);
        let devices = devices.take(RESOURCES_MAX).cloned().collect();
        let (capacity, allocatable) = (figures(capacity), figures(allocatable));
        let whole = |name: &String| !is_device(name) || capacity.get(name) == allocatable.get(name);
        let kept = |figures: &ResourceQuantities| -> ResourceQuantities {
            figures.iter().filter(|(name, _)| whole(name)).map(|(name, figure)| (name.clone(), *figure)).collect()
        };
        let texts = [identity.group, identity.type_name, identity.image, identity.node, identity.created];
        let sane = texts.iter().all(|text| !text.is_empty() && text.len() <= TEXT_BYTES_MAX);
        let has =
            |figures: &ResourceQuantities| ["cpu", "memory", "pods"].iter().all(|name| figures.contains_key(*name));
        (sane && has(&capacity) && has(&allocatable)).then(|| Self {
            group: identity.group.to_owned(),
            type_name: fold(identity.family, identity.type_name).into_owned(),
            image: identity.image.to_owned(),
            node: identity.node.to_owned(),
            created: identity.created.to_owned(),
            capacity: kept(&capacity),
            allocatable: kept(&allocatable),
            devices,
        })
    }

    /// Removes the figures that cannot be true of its type, and returns them. `None` in place of a report of which
    /// too little is left.
    pub fn judged(mut self, sold: &dyn Fn(&str) -> Sold) -> (Option<Self>, Vec<Implausible>) {
        let found = plausible::judge(&mut self.capacity, &mut self.allocatable, &sold(&self.type_name));
        let is_usable = ["cpu", "memory", "pods"].iter().all(|name| self.capacity.contains_key(*name));
        (is_usable.then_some(self), found)
    }

    /// Its group (`source/name`).
    pub fn group(&self) -> &str {
        &self.group
    }

    /// When it was created, in RFC 3339, UTC.
    pub fn created(&self) -> &str {
        &self.created
    }

    /// The node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its instance type; in lower case for Azure.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    pub(super) fn key(&self) -> Key {
        Key { group: self.group.clone(), type_name: self.type_name.clone(), image: self.image.clone() }
    }

    pub(super) fn seen(&self, today: Day) -> LearnedMinimum {
        LearnedMinimum {
            node: self.node.clone(),
            lowest: today,
            last: today,
            newest: self.created.clone(),
            capacity: self.capacity.clone(),
            allocatable: self.allocatable.clone(),
        }
    }
}

/// The figures that a template can use, as far as they can be read.
pub(super) fn figures(written: &BTreeMap<String, String>) -> ResourceQuantities {
    let useful = |name: &str| {
        name.len() <= NAME_BYTES_MAX
            && (matches!(name, "cpu" | "memory" | "pods" | "ephemeral-storage")
                || name.starts_with("hugepages-")
                || is_device(name))
    };
    let read = |(name, text): (&String, &String)| {
        let quantity = text.parse::<Quantity>().ok()?;
        (!quantity.is_negative() && !quantity.is_zero()).then(|| (name.clone(), quantity))
    };
    let mut figures: ResourceQuantities =
        written.iter().filter(|(name, _)| useful(name)).filter_map(read).take(RESOURCES_MAX).collect();
    // Where GPUs are divided or shared, a node has no whole ones, although its instance type does.
    let is_divided = |name: &String| name.starts_with("nvidia.com/mig-") || name == "nvidia.com/gpu.shared";
    if figures.keys().any(is_divided) {
        figures.entry("nvidia.com/gpu".to_owned()).or_insert(Quantity::ZERO);
    }
    figures
}
