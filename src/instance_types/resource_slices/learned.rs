//! The ResourceSlices that drivers published for the nodes of a group, by group, instance type and driver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::slice::{Device, DeviceSlice};
use crate::instance_types::provenance::{Day, LearnedBy, Provenance};

/// How long the slices of a driver count after the last day on which a node had them.
const LIFE_DAYS: u32 = 60;
/// What is kept in all; beyond it, the oldest are forgotten. The ConfigMap has room for twice as many bytes.
const ENTRIES_MAX: usize = 500;
const BYTES_MAX: usize = 400 * 1024;

/// What a driver published for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverReport {
    /// The node's group, under its permanent name (`source/name`).
    pub group: String,
    /// The node's instance type; in lower case for Azure.
    pub type_name: String,
    /// The driver.
    pub driver: String,
    /// The node.
    pub node: String,
    /// When the node was created, in RFC 3339, UTC.
    pub created: String,
    /// The slices, generalised.
    pub slices: Vec<DeviceSlice>,
}

/// The slices of a driver, as a new node of the group will have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedDriver {
    /// All slices of the driver.
    pub slices: Arc<Vec<DeviceSlice>>,
    /// The newest node that had them, and the last day on which one did.
    pub by: LearnedBy,
    /// Attributes that were not the same on all nodes: they are left out.
    pub(in crate::instance_types) varying: BTreeSet<String>,
}

impl LearnedDriver {
    /// Where the slices come from.
    pub fn provenance(&self) -> Provenance {
        Provenance::Learned { node: Arc::clone(&self.by.node), seen: self.by.seen }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::instance_types) struct DriverKey {
    pub(in crate::instance_types) group: String,
    pub(in crate::instance_types) type_name: String,
    pub(in crate::instance_types) driver: String,
}

/// The slices of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedDrivers {
    entries: BTreeMap<DriverKey, LearnedDriver>,
}

impl LearnedDrivers {
    /// Adds what the nodes of today have. `without` are the groups and types of which a node is ready for long, and
    /// none publishes a slice of a driver: that driver is gone.
    pub(in crate::instance_types) fn learn(
        &mut self,
        reports: &[DriverReport],
        without: &BTreeSet<(String, String)>,
        today: Day,
    ) {
        let mut by_key: BTreeMap<DriverKey, Vec<&DriverReport>> = BTreeMap::new();
        for report in reports {
            let key = DriverKey {
                group: report.group.clone(),
                type_name: report.type_name.clone(),
                driver: report.driver.clone(),
            };
            by_key.entry(key).or_default().push(report);
        }
        self.entries.retain(|key, _| {
            by_key.contains_key(key) || !without.contains(&(key.group.clone(), key.type_name.clone()))
        });
        for (key, reports) in by_key {
            let known = self.entries.remove(&key);
            self.entries.extend(merge(known, &reports, today).map(|merged| (key, merged)));
        }
        self.forget(today);
    }

    /// Adds one that was saved. The later one wins.
    pub(in crate::instance_types) fn add(&mut self, key: DriverKey, driver: LearnedDriver) {
        let known = self.entries.entry(key).or_insert_with(|| driver.clone());
        if driver.by.seen > known.by.seen {
            *known = driver;
        }
    }

    pub(in crate::instance_types) fn iter(&self) -> impl Iterator<Item = (&DriverKey, &LearnedDriver)> {
        self.entries.iter()
    }

    /// Drops what no node has had for `LIFE_DAYS`, and the oldest of too many.
    pub(in crate::instance_types) fn forget(&mut self, today: Day) {
        self.entries.retain(|_, driver| today.days_since(driver.by.seen) <= LIFE_DAYS);
        self.shrink();
    }

    /// Drops the oldest of too many.
    pub(in crate::instance_types) fn shrink(&mut self) {
        let mut sizes: BTreeMap<&DriverKey, usize> =
            self.entries.iter().map(|(key, driver)| (key, bytes(driver))).collect();
        let mut by_age: Vec<&DriverKey> = self.entries.keys().collect();
        by_age.sort_by_key(|key| self.entries.get(*key).map(|driver| driver.by.seen));
        let mut oldest = by_age.into_iter();
        let mut superfluous = Vec::new();
        while sizes.len() > ENTRIES_MAX || sizes.values().sum::<usize>() > BYTES_MAX {
            let Some(key) = oldest.next() else { break };
            sizes.remove(key);
            superfluous.push(key.clone());
        }
        for key in superfluous {
            self.entries.remove(&key);
        }
    }
}

impl LearnedDriver {
    /// The most attributes that may differ between nodes: as many as a device can have.
    pub(in crate::instance_types) const VARYING_MAX: usize = 32;
}

/// What the newest node has, less the attributes that are not the same on all nodes, each capacity the lowest of
/// today's nodes. If more attributes differ than a device can have, the driver gives them other names again and again:
/// then none is kept, as their names would fill the ConfigMap.
fn merge(known: Option<LearnedDriver>, reports: &[&DriverReport], today: Day) -> Option<LearnedDriver> {
    let newest = reports.iter().max_by_key(|report| (&report.created, &report.node))?;
    let mut varying = known.as_ref().map(|known| known.varying.clone()).unwrap_or_default();
    let mut slices = newest.slices.clone();
    let before = known.iter().map(|known| known.slices.as_slice());
    for others in reports.iter().map(|report| report.slices.as_slice()).chain(before) {
        each_pair(&mut slices, others, |device, other| {
            let differs =
                |(name, value): &(&String, _)| other.attributes.get(*name).is_some_and(|other| other != *value);
            varying.extend(device.attributes.iter().filter(differs).map(|(name, _)| name.clone()));
        });
    }
    let all_vary = varying.len() >= LearnedDriver::VARYING_MAX;
    let varying: BTreeSet<String> = varying.into_iter().take(LearnedDriver::VARYING_MAX).collect();
    for report in reports {
        each_pair(&mut slices, &report.slices, |device, other| {
            device.attributes.retain(|name, _| other.attributes.contains_key(name));
            for (name, capacity) in &mut device.capacity {
                let lower = other.capacity.get(name).filter(|other| other.value < capacity.value);
                capacity.value = lower.map_or(capacity.value, |lower| lower.value);
            }
        });
    }
    for device in slices.iter_mut().flat_map(|slice| &mut slice.devices) {
        device.attributes.retain(|name, _| !all_vary && !varying.contains(name));
    }
    // Equal slices keep their node: otherwise each new node would be a change to save.
    let node = known.filter(|known| *known.slices == slices && known.varying == varying).map(|known| known.by.node);
    let node = node.unwrap_or_else(|| newest.node.as_str().into());
    Some(LearnedDriver { slices: Arc::new(slices), by: LearnedBy { node, seen: today }, varying })
}

/// Calls a function with each device and the one of the same pool and name in other slices.
fn each_pair(slices: &mut [DeviceSlice], others: &[DeviceSlice], mut each: impl FnMut(&mut Device, &Device)) {
    let all = others.iter().flat_map(|slice| slice.devices.iter().map(move |device| (&slice.pool, device)));
    let others: BTreeMap<(&str, &str), &Device> =
        all.map(|(pool, device)| ((pool.as_str(), device.name.as_str()), device)).collect();
    for slice in slices {
        for device in &mut slice.devices {
            if let Some(other) = others.get(&(slice.pool.as_str(), device.name.as_str())) {
                each(device, other);
            }
        }
    }
}

/// About how many bytes it takes in the ConfigMap.
fn bytes(driver: &LearnedDriver) -> usize {
    serde_json::to_string(&*driver.slices).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(model: &str, memory: &str, devices: usize) -> DeviceSlice {
        let device = |number| {
            let attributes = json!({"model": {"string": model}, "kind": {"string": "gpu"}});
            json!({"name": format!("gpu-{number}"), "attributes": attributes, "capacity": {"memory": {"value": memory}}})
        };
        let devices: Vec<_> = (0..devices).map(device).collect();
        serde_json::from_value(json!({"driver": "gpu.example.com", "devices": devices})).unwrap()
    }

    fn report(node: &str, created: &str, slice: DeviceSlice) -> DriverReport {
        let [group, type_name, driver] = ["us/gpu", "g5.xlarge", "gpu.example.com"].map(str::to_owned);
        DriverReport { group, type_name, driver, node: node.into(), created: created.into(), slices: vec![slice] }
    }

    fn day(text: &str) -> Day {
        Day::parse(text).unwrap()
    }

    fn only(learned: &LearnedDrivers) -> Option<(usize, Vec<String>, String, String)> {
        let (_, driver) = learned.iter().next()?;
        let device = driver.slices[0].devices[0].clone();
        let attributes = device.attributes.keys().cloned().collect();
        let memory = device.capacity["memory"].value.to_string();
        Some((driver.slices[0].devices.len(), attributes, memory, driver.by.node.to_string()))
    }

    #[test]
    fn the_newest_nodes_devices_count_with_what_all_nodes_agree_on() {
        let mut learned = LearnedDrivers::default();
        let reports = [report("b", "2026-02", slice("A", "80Gi", 2)), report("a", "2026-01", slice("B", "79Gi", 1))];
        learned.learn(&reports, &BTreeSet::new(), day("2026-03-01"));
        assert_eq!(only(&learned), Some((2, vec!["kind".into()], "79Gi".into(), "b".into())));
        learned.learn(&[report("c", "2026-03", slice("A", "80Gi", 2))], &BTreeSet::new(), day("2026-03-02"));
        let expected = (2, vec!["kind".into()], "80Gi".into(), "c".into());
        assert_eq!(only(&learned), Some(expected.clone()), "what has varied once is not promised again");
        learned.learn(&[report("d", "2026-04", slice("A", "80Gi", 2))], &BTreeSet::new(), day("2026-03-03"));
        assert_eq!(only(&learned), Some(expected), "an equal node is no change");
    }

    #[test]
    fn a_driver_whose_attributes_keep_changing_is_promised_without_any() {
        let with = |value: &str| -> DeviceSlice {
            let attributes: serde_json::Map<_, _> = (0..=LearnedDriver::VARYING_MAX)
                .map(|number| (format!("a{number}"), json!({"string": value})))
                .collect();
            let device = json!({"name": "gpu-0", "attributes": attributes});
            serde_json::from_value(json!({"driver": "gpu.example.com", "devices": [device]})).unwrap()
        };
        let mut learned = LearnedDrivers::default();
        learned.learn(&[report("a", "2026-01", with("x"))], &BTreeSet::new(), day("2026-01-01"));
        let promised = |learned: &LearnedDrivers| {
            let (_, driver) = learned.iter().next().expect("a driver");
            (driver.slices[0].devices[0].attributes.len(), driver.varying.len())
        };
        assert_eq!(promised(&learned), (LearnedDriver::VARYING_MAX + 1, 0));
        for (look, value) in ["2026-01-02", "2026-01-03", "2026-01-04"].iter().zip(["y", "y", "z"]) {
            learned.learn(&[report("a", "2026-01", with(value))], &BTreeSet::new(), day(look));
            assert_eq!(promised(&learned), (0, LearnedDriver::VARYING_MAX), "{look}");
        }
    }

    #[test]
    fn a_driver_is_forgotten_after_sixty_days_or_when_settled_nodes_lack_it() {
        let here = BTreeSet::from([("us/gpu".to_owned(), "g5.xlarge".to_owned())]);
        let mut learned = LearnedDrivers::default();
        learned.learn(&[report("a", "2026-01", slice("A", "80Gi", 1))], &here, day("2026-01-01"));
        learned.learn(&[], &BTreeSet::new(), day("2026-03-02"));
        assert!(only(&learned).is_some());
        let mut gone = learned.clone();
        gone.learn(&[], &here, day("2026-01-02"));
        assert_eq!(only(&gone), None);
        learned.learn(&[], &BTreeSet::new(), day("2026-03-03"));
        assert_eq!(only(&learned), None);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut learned = LearnedDrivers::default();
        let of_group = |number: usize| DriverReport {
            group: format!("us/{number:04}"),
            ..report("a", "2026-01", slice(&"x".repeat(60), "80Gi", 100))
        };
        let reports: Vec<_> = (0..60).map(of_group).collect();
        learned.learn(&reports, &BTreeSet::new(), day("2026-01-01"));
        let total: usize = learned.iter().map(|(_, driver)| bytes(driver)).sum();
        assert!(total <= BYTES_MAX && learned.iter().count() > 10, "{total}");
        let small =
            |number: usize| DriverReport { group: format!("us/{number:04}"), ..report("a", "", slice("", "1", 1)) };
        learned = LearnedDrivers::default();
        learned.learn(&(0..600).map(small).collect::<Vec<_>>(), &BTreeSet::new(), day("2026-01-01"));
        assert_eq!(learned.iter().count(), ENTRIES_MAX);
    }
}
