//! What nodes were seen to hold, by group, instance type and image.
//!
//! *Image* is the operating system and the kernel as the node's kubelet reports them. They decide how much of one type's
//! memory is left. The version of a launch template does not identify an image: with `$Latest`, or an alias of an image, what is
//! launched changes while the version stays. A group without nodes has no image to look up, so its template uses the figures for the
//! image of its newest node, even if that node is gone: that is what the group launches.
//!
//! Within one group, type and image, the lowest figure wins, because a template may be too low but never too high. A minimum that no
//! node has shown for `MINIMUM_LIFE_DAYS`, although there were nodes, is forgotten: kubelets are reconfigured, and disks are replaced.

mod document;
mod node_report;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::Entry;
use super::provenance::{Day, Provenance};
use super::quantity::Quantity;

pub use document::LearnedError;
pub use node_report::{NodeIdentity, NodeReport};

/// Images remembered of one group and type: the one in use, the one before, and those that an instance refresh mixes.
const IMAGES_MAX: usize = 4;
/// Entries remembered in all; those seen longest ago go first. The largest clusters have a few hundred groups.
const ENTRIES_MAX: usize = 1000;
/// How long a minimum counts after the last node that showed it.
const MINIMUM_LIFE_DAYS: u32 = 30;

/// Quantities by resource.
pub type ResourceQuantities = BTreeMap<String, Quantity>;

/// What was seen, of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    entries: BTreeMap<Key, LearnedMinimum>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: String,
    type_name: String,
    image: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LearnedMinimum {
    /// The node that showed the lowest memory.
    node: String,
    /// When the lowest figures were shown last.
    lowest: Day,
    /// When any node was seen last.
    last: Day,
    /// When the newest node was created, in RFC 3339.
    newest: String,
    capacity: ResourceQuantities,
    allocatable: ResourceQuantities,
}

/// What was seen of the nodes of one group, by instance type; lower case for Azure, which ignores case.
pub type LearnedTypes = BTreeMap<String, Arc<LearnedType>>;

/// What was seen of the nodes of one group and instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedType {
    /// Capacity, in the words of a table.
    pub(super) entry: Entry,
    /// Capacity, by resource.
    pub capacity: ResourceQuantities,
    /// What is left of it for pods, by resource.
    pub allocatable: ResourceQuantities,
    /// The node and the day.
    pub provenance: Provenance,
}

impl Learned {
    /// Adds what one look at all nodes showed. Returns whether that changed anything.
    pub fn see(&mut self, node_reports: &[NodeReport], today: Day) -> bool {
        let before = self.clone();
        let mut now = Self::default();
        for node_report in node_reports {
            now.add(node_report.key(), node_report.seen(today), LearnedMinimum::lower);
        }
        for (key, seen) in now.entries {
            self.add(key, seen, LearnedMinimum::renew);
        }
        self.forget();
        *self != before
    }

    /// Adds what was remembered elsewhere.
    pub fn union(&mut self, other: Self) {
        for (key, seen) in other.entries {
            self.add(key, seen, LearnedMinimum::lower);
        }
        self.forget();
    }

    /// What it says of each group.
    pub fn by_group(&self) -> BTreeMap<&str, LearnedTypes> {
        let mut newest: BTreeMap<(&str, &str), &LearnedMinimum> = BTreeMap::new();
        for (key, seen) in &self.entries {
            let of_type = newest.entry((&key.group, &key.type_name)).or_insert(seen);
            // Of two equally new ones, the one with less: either may be launched.
            let rank = |seen: &LearnedMinimum| (seen.newest.clone(), Reverse(seen.memory()));
            if rank(seen) > rank(of_type) {
                *of_type = seen;
            }
        }
        let mut groups: BTreeMap<&str, LearnedTypes> = BTreeMap::new();
        for ((group, type_name), seen) in newest {
            groups.entry(group).or_default().insert(type_name.to_owned(), Arc::new(LearnedType::from(seen)));
        }
        groups
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn add(&mut self, key: Key, seen: LearnedMinimum, merge: impl FnOnce(&mut LearnedMinimum, LearnedMinimum)) {
        match self.entries.entry(key) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(seen);
            }
            std::collections::btree_map::Entry::Occupied(mut known) => merge(known.get_mut(), seen),
        }
    }

    fn forget(&mut self) {
        let mut images: BTreeMap<(&str, &str), Vec<(&str, &Key)>> = BTreeMap::new();
        for (key, seen) in &self.entries {
            images.entry((&key.group, &key.type_name)).or_default().push((&seen.newest, key));
        }
        let mut superfluous = Vec::new();
        for mut of_type in images.into_values() {
            of_type.sort_unstable_by(|one, other| other.cmp(one));
            superfluous.extend(of_type.into_iter().skip(IMAGES_MAX).map(|(_, key)| key.clone()));
        }
        for key in superfluous {
            self.entries.remove(&key);
        }
        while self.entries.len() > ENTRIES_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, seen)| (seen.last, &seen.newest)).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.entries.remove(&key);
        }
    }
}

impl LearnedMinimum {
    fn memory(&self) -> Option<Quantity> {
        self.capacity.get("memory").copied()
    }

    /// Resource by resource the lower one.
    fn lower(&mut self, other: Self) {
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
    fn renew(&mut self, today: Self) {
        let shown = is_below(&today.capacity, &self.capacity) && is_below(&today.allocatable, &self.allocatable);
        if shown || today.last.days_since(self.lowest) > MINIMUM_LIFE_DAYS {
            let newest = self.newest.clone().max(today.newest.clone());
            // An equal minimum keeps its node. Otherwise nodes of one size would take turns, and each turn would be saved.
            let same = self.capacity == today.capacity && self.allocatable == today.allocatable;
            let node = if same { self.node.clone() } else { today.node.clone() };
            // A device is missing as long as its plugin has not started.
            let capacity = with_devices(today.capacity.clone(), &self.capacity);
            let allocatable = with_devices(today.allocatable.clone(), &self.allocatable);
            *self = Self { node, newest, capacity, allocatable, ..today };
            return;
        }
        let lowest = self.lowest;
        self.lower(today);
        self.lowest = lowest;
    }
}

/// A device that only one of them has is kept: on the other, its plugin has not started yet. Any other resource that one of them lacks
/// is dropped, because not every node has it.
fn take_lower(figures: &mut ResourceQuantities, mut others: ResourceQuantities) {
    figures.retain(|name, _| is_device(name) || others.contains_key(name));
    others.retain(|name, _| is_device(name) || figures.contains_key(name));
    for (name, other) in others {
        let figure = figures.entry(name).or_insert(other);
        *figure = other.min(*figure);
    }
}

/// Extended resources are announced by device plugins, after the node has become ready.
fn is_device(name: &str) -> bool {
    name.contains('/')
}

/// Whether every figure that both have is as low in `figures`.
fn is_below(figures: &ResourceQuantities, others: &ResourceQuantities) -> bool {
    others.iter().all(|(name, other)| figures.get(name).is_none_or(|figure| figure <= other))
}

fn with_devices(mut figures: ResourceQuantities, known: &ResourceQuantities) -> ResourceQuantities {
    for (name, figure) in known.iter().filter(|(name, _)| is_device(name)) {
        figures.entry(name.clone()).or_insert(*figure);
    }
    figures
}

impl From<&LearnedMinimum> for LearnedType {
    fn from(seen: &LearnedMinimum) -> Self {
        let mut entry = Entry::default();
        for (name, quantity) in &seen.capacity {
            match name.as_str() {
                "cpu" => entry.cpu = Some(*quantity),
                "memory" => entry.memory = Some(*quantity),
                "pods" => entry.pods = u32::try_from(quantity.whole()).ok(),
                _ => {
                    entry.resources.insert(name.clone(), *quantity);
                }
            }
        }
        Self {
            entry,
            capacity: seen.capacity.clone(),
            allocatable: seen.allocatable.clone(),
            provenance: Provenance::Learned { node: seen.node.as_str().into(), seen: seen.lowest },
        }
    }
}
