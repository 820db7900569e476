//! The capacity and the allocatable resources that nodes reported, by group, instance type and image.
//!
//! *Image* is the operating system and the kernel as the node's kubelet reports them. They decide how much of one
//! type's memory is left. The version of a launch template does not identify an image: with `$Latest`, or an alias of
//! an image, what is launched changes while the version stays. A group without nodes has no image to look up, so its
//! template uses the figures for the image of its newest node, even if that node is gone: that is what the group
//! launches.
//!
//! Within one group, type and image, the lowest figure wins, because a template may be too low but never too high. If
//! there were nodes and none of them had the minimum for `MINIMUM_LIFE_DAYS`, it is forgotten: kubelets are
//! reconfigured, and disks are replaced. Without any node for `LEARNED_LIFE_DAYS`, all is forgotten: by then, the
//! group may launch something else.
//!
//! What is missing on the hosts of a type is learned apart from that, by type alone (`host.rs`). Figures that cannot
//! be true of a type are not learned (`plausible.rs`).

mod document;
mod host;
mod image;
mod minimum;
mod node_report;
mod plausible;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::entry::Entry;
use super::provenance::{Day, Provenance};
use super::quantity::Quantity;
use super::resource_slices::{DriverReport, LearnedDriver, LearnedDrivers};
use crate::cloud::ImageFamily;

pub use document::LearnedError;
pub use host::{LearnedHost, LearnedHosts};
use minimum::LearnedMinimum;
pub use node_report::{NodeIdentity, NodeReport};
pub use plausible::{Implausible, Sold};

/// Images remembered of one group and type: the one in use, the one before, and those that an instance refresh mixes.
const IMAGES_MAX: usize = 4;
/// The most entries in all; beyond them, the oldest are forgotten. The largest clusters have a few hundred groups.
const ENTRIES_MAX: usize = 1000;
/// How long a figure counts after the last day on which a node had it.
const LEARNED_LIFE_DAYS: u32 = 60;

/// Quantities by resource.
pub type ResourceQuantities = BTreeMap<String, Quantity>;

/// The figures of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    entries: BTreeMap<Key, LearnedMinimum>,
    hosts: LearnedHosts,
    drivers: LearnedDrivers,
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
    image: String,
    /// What drivers publish for such a node, by driver.
    pub drivers: BTreeMap<String, LearnedDriver>,
}

impl LearnedType {
    /// Whether the group launches another image now, with which its nodes have less memory.
    pub(super) fn is_of_smaller_image_than(&self, launched: ImageFamily) -> bool {
        image::keeps_less_than(&self.image, launched)
    }
}

impl Learned {
    /// Adds the reports of all nodes of today. `sold` returns what a cloud sells as a type. A device is forgotten if
    /// there is a node that `is_settled`, ready for so long that its device plugins have started, and no node has it.
    /// Returns whether anything has changed.
    pub fn learn(
        &mut self,
        node_reports: &[NodeReport],
        is_settled: &dyn Fn(&NodeReport) -> bool,
        sold: &dyn Fn(&str) -> Sold,
        today: Day,
    ) -> bool {
        let before = self.clone();
        self.hosts.learn(node_reports, sold, today);
        let mut now = Self::default();
        for node_report in node_reports {
            now.add(node_report.key(), node_report.seen(today), LearnedMinimum::lower);
        }
        for (key, seen) in now.entries {
            self.add(key, seen, LearnedMinimum::renew);
        }
        let mut devices: BTreeMap<Key, (BTreeSet<String>, bool)> = BTreeMap::new();
        for report in node_reports {
            let (known, has_settled) = devices.entry(report.key()).or_default();
            known.extend(report.devices.iter().cloned());
            *has_settled |= is_settled(report);
        }
        for (key, (devices, _)) in devices.into_iter().filter(|(_, (_, has_settled))| *has_settled) {
            if let Some(known) = self.entries.get_mut(&key) {
                known.keep_devices(&devices);
            }
        }
        self.expire(today);
        self.forget();
        *self != before
    }

    /// Adds the ResourceSlices that the nodes of today have. `without` are the groups and types of which a node is
    /// ready for long: a driver that publishes for none of their nodes is gone. Returns whether they changed
    /// anything.
    pub fn learn_devices(
        &mut self,
        reports: &[DriverReport],
        without: &BTreeSet<(String, String)>,
        today: Day,
    ) -> bool {
        let before = self.drivers.clone();
        self.drivers.learn(reports, without, today);
        self.drivers != before
    }

    /// Adds the figures that another replica or an earlier process has learned.
    pub fn union(&mut self, other: Self) {
        for (key, seen) in other.entries {
            self.add(key, seen, LearnedMinimum::lower);
        }
        for (name, host) in other.hosts.iter() {
            self.hosts.add(name.to_owned(), host.clone());
        }
        for (key, driver) in other.drivers.iter() {
            self.drivers.add(key.clone(), driver.clone());
        }
        self.forget();
    }

    /// Forgets what no node has shown for `LEARNED_LIFE_DAYS`.
    pub fn expire(&mut self, today: Day) {
        self.entries.retain(|_, seen| today.days_since(seen.last) <= LEARNED_LIFE_DAYS);
        self.hosts.forget(today);
        self.drivers.forget(today);
    }

    /// Removes the figures that cannot be true, and returns them, each with its node.
    pub fn judge(&mut self, sold: &dyn Fn(&str) -> Sold) -> Vec<(String, Implausible)> {
        let mut found = Vec::new();
        self.entries.retain(|key, seen| {
            let of_node = plausible::judge(&mut seen.capacity, &mut seen.allocatable, &sold(&key.type_name));
            found.extend(of_node.into_iter().map(|figure| (seen.node.clone(), figure)));
            ["cpu", "memory", "pods"].iter().all(|name| seen.capacity.contains_key(*name))
        });
        self.hosts.judge(sold);
        found
    }

    /// The worst hosts of all types.
    pub fn hosts(&self) -> &LearnedHosts {
        &self.hosts
    }

    /// The figures of each group. Of types that run on two kinds of hosts, they are those on the worse one, if any
    /// group has shown it.
    pub fn by_group(&self, sold: &dyn Fn(&str) -> Sold) -> BTreeMap<&str, LearnedTypes> {
        let mut newest: BTreeMap<(&str, &str), (&Key, &LearnedMinimum)> = BTreeMap::new();
        for (key, seen) in &self.entries {
            let of_type = newest.entry((&key.group, &key.type_name)).or_insert((key, seen));
            // Of two equally new images, the one with less memory: either may be launched.
            let rank = |seen: &LearnedMinimum| (seen.newest.clone(), Reverse(seen.memory()));
            if rank(seen) > rank(of_type.1) {
                *of_type = (key, seen);
            }
        }
        let mut groups: BTreeMap<&str, LearnedTypes> = BTreeMap::new();
        for ((group, type_name), (key, seen)) in newest {
            let nominal = self.hosts.get(type_name).and_then(|host| Some((host, sold(type_name).memory?)));
            let mut learned = LearnedType::of(key, seen, nominal);
            learned.drivers = self.drivers_of(group, type_name);
            groups.entry(group).or_default().insert(type_name.to_owned(), Arc::new(learned));
        }
        groups
    }

    fn drivers_of(&self, group: &str, type_name: &str) -> BTreeMap<String, LearnedDriver> {
        let of_type = self.drivers.iter().filter(|(key, _)| key.group == group && key.type_name == type_name);
        of_type.map(|(key, driver)| (key.driver.clone(), driver.clone())).collect()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no figures.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.hosts == LearnedHosts::default() && self.drivers == LearnedDrivers::default()
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

impl LearnedType {
    /// The figures of a type, on its worst host if that is known, with the memory that the cloud sells.
    fn of(key: &Key, seen: &LearnedMinimum, host: Option<(&LearnedHost, Quantity)>) -> Self {
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
        let mut provenance = Provenance::Learned { node: seen.node.as_str().into(), seen: seen.lowest };
        if let (Some((host, nominal)), Some(reported)) = (host, entry.memory) {
            let lower = host::on_worst_host(&key.type_name, &key.image, nominal, reported, host);
            if let Some(lower) = lower {
                entry.memory = Some(lower);
                provenance = Provenance::Learned { node: Arc::clone(&host.by.node), seen: host.by.seen };
            }
        }
        Self {
            entry,
            capacity: seen.capacity.clone(),
            allocatable: seen.allocatable.clone(),
            provenance,
            image: key.image.clone(),
            drivers: BTreeMap::new(),
        }
    }
}
