//! The capacity and the allocatable resources that nodes reported, by group, instance type and image.
//!
//! *Image* is the operating system and the kernel as the node's kubelet reports them. They decide how much of one type's memory
//! is left. The version of a launch template does not identify an image: with `$Latest`, or an alias of an image, what is
//! launched changes while the version stays. A group without nodes has no image to look up, so its template uses the figures for
//! the image of its newest node, even if that node is gone: that is what the group launches.
//!
//! Within one group, type and image, the lowest figure wins, because a template may be too low but never too high. If there were
//! nodes and none of them had the minimum for `MINIMUM_LIFE_DAYS`, it is forgotten: kubelets are reconfigured, and disks are
//! replaced.

mod document;
mod minimum;
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
use minimum::LearnedMinimum;
pub use node_report::{NodeIdentity, NodeReport};

/// Images remembered of one group and type: the one in use, the one before, and those that an instance refresh mixes.
const IMAGES_MAX: usize = 4;
/// The most entries in all; beyond them, the oldest are forgotten. The largest clusters have a few hundred groups.
const ENTRIES_MAX: usize = 1000;

/// Quantities by resource.
pub type ResourceQuantities = BTreeMap<String, Quantity>;

/// The figures of all groups.
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

/// The figures of one group's nodes, by instance type; in lower case for Azure, which ignores case.
pub type LearnedTypes = BTreeMap<String, Arc<LearnedType>>;

/// The figures of one group's nodes of one instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedType {
    /// Capacity, as an entry of a table.
    pub(super) entry: Entry,
    /// Capacity, by resource.
    pub capacity: ResourceQuantities,
    /// The allocatable part of the capacity, by resource.
    pub allocatable: ResourceQuantities,
    /// The node with the figures, and the last day on which it had them.
    pub provenance: Provenance,
}

impl Learned {
    /// Adds the reports of all nodes of today. Returns whether they changed anything.
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

    /// Adds the figures that another replica or an earlier process has learned.
    pub fn union(&mut self, other: Self) {
        for (key, seen) in other.entries {
            self.add(key, seen, LearnedMinimum::lower);
        }
        self.forget();
    }

    /// The figures of each group.
    pub fn by_group(&self) -> BTreeMap<&str, LearnedTypes> {
        let mut newest: BTreeMap<(&str, &str), &LearnedMinimum> = BTreeMap::new();
        for (key, seen) in &self.entries {
            let of_type = newest.entry((&key.group, &key.type_name)).or_insert(seen);
            // Of two equally new images, the one with less memory: either may be launched.
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

    /// Whether there are no figures.
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
