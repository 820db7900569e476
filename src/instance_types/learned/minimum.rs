//! The lowest figures that the nodes of one group, instance type and image reported.

use std::collections::BTreeSet;

use super::{Day, Quantity, ResourceQuantities};

/// How long a minimum counts after the last report of a node that has it.
const MINIMUM_LIFE_DAYS: u32 = 30;

/// The lowest figures of the nodes of one group, instance type and image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LearnedMinimum {
    /// The node with the lowest memory.
    pub(super) node: String,
    /// The last day on which a node had the lowest figures.
    pub(super) lowest: Day,
    /// The last day on which there was a node.
    pub(super) last: Day,
    /// When the newest node was created, in RFC 3339.
    pub(super) newest: String,
    pub(super) capacity: ResourceQuantities,
    pub(super) allocatable: ResourceQuantities,
}

impl LearnedMinimum {
    pub(super) fn memory(&self) -> Option<Quantity> {
        self.capacity.get("memory").copied()
    }

    /// Takes the lower figure of each resource.
    pub(super) fn lower(&mut self, other: Self) {
        if other.memory() < self.memory() {
            self.node = other.node;
        }
        self.lowest = self.lowest.max(other.lowest);
        self.last = self.last.max(other.last);
        if other.newest > self.newest {
            self.newest = other.newest;
        }
        take_lower(&mut self.capacity, other.capacity);
        take_lower(&mut self.allocatable, other.allocatable);
    }

    /// Adds the lowest figures of all nodes that exist today.
    pub(super) fn renew(&mut self, today: Self) {
        let shown = is_below(&today.capacity, &self.capacity) && is_below(&today.allocatable, &self.allocatable);
        if shown || today.last.days_since(self.lowest) > MINIMUM_LIFE_DAYS {
            let newest = self.newest.clone().max(today.newest.clone());
            // An equal minimum keeps its node. Otherwise nodes of one size would take turns, and each turn would be
            // saved.
            let same = self.capacity == today.capacity && self.allocatable == today.allocatable;
            let node = if same { self.node.clone() } else { today.node.clone() };
            // A device is missing until its plugin has started.
            let capacity = with_devices(today.capacity.clone(), &self.capacity);
            let allocatable = with_devices(today.allocatable.clone(), &self.allocatable);
            *self = Self { node, newest, capacity, allocatable, ..today };
            return;
        }
        let lowest = self.lowest;
        self.lower(today);
        self.lowest = lowest;
    }

    /// Forgets the devices that are not among these.
    pub(super) fn keep_devices(&mut self, devices: &BTreeSet<String>) {
        for figures in [&mut self.capacity, &mut self.allocatable] {
            figures.retain(|name, _| !is_device(name) || devices.contains(name));
        }
    }
}

/// A device that only one of the two has is kept, because the plugin of the other has not started yet. Any other
/// resource that one of them lacks is dropped, because not every node has it.
fn take_lower(figures: &mut ResourceQuantities, mut others: ResourceQuantities) {
    figures.retain(|name, _| is_device(name) || others.contains_key(name));
    others.retain(|name, _| is_device(name) || figures.contains_key(name));
    for (name, other) in others {
        let figure = figures.entry(name).or_insert(other);
        *figure = other.min(*figure);
    }
}

/// Device plugins announce extended resources after the node has become ready.
pub(super) fn is_device(name: &str) -> bool {
    name.contains('/')
}

/// Whether no figure in `figures` is above its counterpart in `others`.
fn is_below(figures: &ResourceQuantities, others: &ResourceQuantities) -> bool {
    others.iter().all(|(name, other)| figures.get(name).is_none_or(|figure| figure <= other))
}

fn with_devices(mut figures: ResourceQuantities, known: &ResourceQuantities) -> ResourceQuantities {
    for (name, figure) in known.iter().filter(|(name, _)| is_device(name)) {
        figures.entry(name.clone()).or_insert(*figure);
    }
    figures
}
