//! The learned figures as the text that survives restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::node_report::figures;
use super::{Key, Learned, LearnedHost, LearnedMinimum, ResourceQuantities};
use crate::instance_types::provenance::{Day, LearnedBy};
use crate::instance_types::resource_slices::{DeviceSlice, DriverKey, LearnedDriver};

/// The version of the format. Texts of other versions are not read.
const FORM: u32 = 1;
/// A ConfigMap holds 1 MiB at most, its names and labels included.
const TEXT_BYTES_MAX: usize = 900 * 1024;
/// The longest name of a type or a node: Kubernetes allows 253 characters.
const NAME_BYTES_MAX: usize = 256;

/// Why a text cannot be used.
#[derive(Debug, Error)]
pub enum LearnedError {
    /// It is not in this format.
    #[error("it cannot be understood: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It was written by another release.
    #[error("it has format version {0}, and this release reads version {FORM}")]
    OtherForm(u32),
}

#[derive(Deserialize, Serialize)]
struct Document {
    form: u32,
    entries: Vec<Entry>,
    /// Releases before this had none.
    #[serde(default)]
    hosts: Vec<Host>,
    #[serde(default)]
    drivers: Vec<Driver>,
}

/// The ResourceSlices of a driver.
#[derive(Deserialize, Serialize)]
struct Driver {
    group: String,
    #[serde(rename = "type")]
    type_name: String,
    driver: String,
    node: String,
    seen: String,
    varying: BTreeSet<String>,
    slices: Vec<Value>,
}

/// What is missing on the worst host of a type.
#[derive(Deserialize, Serialize)]
struct Host {
    #[serde(rename = "type")]
    type_name: String,
    #[serde(rename = "missingKi")]
    missing_kib: i64,
    node: String,
    seen: String,
}

#[derive(Deserialize, Serialize)]
struct Entry {
    group: String,
    #[serde(rename = "type")]
    type_name: String,
    image: String,
    node: String,
    lowest: String,
    last: String,
    newest: String,
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
}

impl Learned {
    /// Reads a text. Ignores entries that are not usable.
    pub fn parse(text: &str) -> Result<Self, LearnedError> {
        #[derive(Deserialize)]
        struct Form {
            form: u32,
        }
        let Form { form } = serde_json::from_str(text)?;
        if form != FORM {
            return Err(LearnedError::OtherForm(form));
        }
        let document: Document = serde_json::from_str(text)?;
        let mut learned = Self::default();
        for entry in document.entries {
            if let Some((key, seen)) = entry.read() {
                learned.add(key, seen, LearnedMinimum::lower);
            }
        }
        for host in document.hosts {
            if let Some((name, host)) = host.read() {
                learned.hosts.add(name, host);
            }
        }
        for driver in document.drivers {
            if let Some((key, driver)) = driver.read() {
                learned.drivers.add(key, driver);
            }
        }
        learned.drivers.shrink();
        learned.forget();
        Ok(learned)
    }

    /// Writes all figures. If they do not fit into a ConfigMap, the oldest are forgotten.
    pub fn to_text(&mut self) -> String {
        loop {
            let entries = self.entries.iter().map(|(key, seen)| Entry::write(key, seen)).collect();
            // Writing maps of texts cannot fail.
            let drivers = self.drivers.iter().map(|(key, driver)| Driver::write(key, driver)).collect();
            let hosts = self.hosts.iter().map(|(name, host)| Host::write(name, host)).collect();
            let text = serde_json::to_string(&Document { form: FORM, entries, hosts, drivers }).unwrap_or_default();
            if text.len() <= TEXT_BYTES_MAX || self.entries.is_empty() {
                return text;
            }
            for _ in 0..self.len().div_ceil(10) {
                self.forget_oldest();
            }
        }
    }
}

impl Host {
    fn read(self) -> Option<(String, LearnedHost)> {
        let texts_fit = self.type_name.len() <= NAME_BYTES_MAX && self.node.len() <= NAME_BYTES_MAX;
        let by = LearnedBy { node: self.node.into(), seen: Day::parse(&self.seen)? };
        texts_fit.then_some((self.type_name, LearnedHost { missing_kib: self.missing_kib, by }))
    }

    fn write(name: &str, host: &LearnedHost) -> Self {
        Self {
            type_name: name.to_owned(),
            missing_kib: host.missing_kib,
            node: host.by.node.to_string(),
            seen: host.by.seen.to_string(),
        }
    }
}

impl Driver {
    fn read(self) -> Option<(DriverKey, LearnedDriver)> {
        let Self { group, type_name, driver, node, seen, varying, slices } = self;
        let texts = [&group, &type_name, &driver, &node].into_iter().chain(&varying);
        let texts_fit = texts.into_iter().all(|text| text.len() <= NAME_BYTES_MAX);
        let slices: Vec<DeviceSlice> =
            slices.into_iter().map(|slice| serde_json::from_value(slice).ok()).collect::<Option<_>>()?;
        let is_good = |slice: &DeviceSlice| slice.driver == driver && slice.objection().is_none();
        let is_good = texts_fit
            && varying.len() <= LearnedDriver::VARYING_MAX
            && !slices.is_empty()
            && slices.iter().all(is_good);
        let by = LearnedBy { node: node.into(), seen: Day::parse(&seen)? };
        let learned = LearnedDriver { slices: Arc::new(slices), by, varying };
        is_good.then_some((DriverKey { group, type_name, driver }, learned))
    }

    fn write(key: &DriverKey, driver: &LearnedDriver) -> Self {
        // A slice was read from JSON, so it can be written.
        let json = |slice: &DeviceSlice| serde_json::to_value(slice).unwrap_or_default();
        Self {
            group: key.group.clone(),
            type_name: key.type_name.clone(),
            driver: key.driver.clone(),
            node: driver.by.node.to_string(),
            seen: driver.by.seen.to_string(),
            varying: driver.varying.clone(),
            slices: driver.slices.iter().map(json).collect(),
        }
    }
}

impl Entry {
    fn read(self) -> Option<(Key, LearnedMinimum)> {
        let (capacity, allocatable) = (figures(&self.capacity), figures(&self.allocatable));
        if !capacity.contains_key("memory") || !allocatable.contains_key("memory") {
            return None;
        }
        let seen = LearnedMinimum {
            node: self.node,
            lowest: Day::parse(&self.lowest)?,
            last: Day::parse(&self.last)?,
            newest: self.newest,
            capacity,
            allocatable,
        };
        Some((Key { group: self.group, type_name: self.type_name, image: self.image }, seen))
    }

    fn write(key: &Key, seen: &LearnedMinimum) -> Self {
        let text = |figures: &ResourceQuantities| {
            figures.iter().map(|(name, figure)| (name.clone(), figure.to_string())).collect()
        };
        Self {
            group: key.group.clone(),
            type_name: key.type_name.clone(),
            image: key.image.clone(),
            node: seen.node.clone(),
            lowest: seen.lowest.to_string(),
            last: seen.last.to_string(),
            newest: seen.newest.clone(),
            capacity: text(&seen.capacity),
            allocatable: text(&seen.allocatable),
        }
    }
}
