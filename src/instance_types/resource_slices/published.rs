//! The ResourceSlices of one node, as its drivers published them, generalised to any node of its group.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::slice::{Attribute, Device, DeviceSlice, NODE};

/// Drivers and slices read of one node. A driver needs a slice for each 64 devices or more.
const DRIVERS_MAX: usize = 8;
const SLICES_MAX: usize = 16;
/// Attributes that identify one device of one node, by the last part of their names. A template must not promise them.
const IDENTITIES: [&str; 5] = ["uuid", "serial", "serialNumber", "parentUUID", "mac"];

/// What the drivers of a node publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The slices of each driver that has published all of them, generalised.
    pub drivers: BTreeMap<String, Vec<DeviceSlice>>,
    /// Drivers whose slices say something that Headcount does not know, and why.
    pub unread: BTreeMap<String, String>,
}

/// `spec` of a slice, as the API server has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    driver: String,
    pool: Pool,
    node_name: String,
    #[serde(default)]
    devices: Vec<Device>,
    #[serde(default)]
    shared_counters: Vec<super::slice::CounterSet>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pool {
    name: String,
    generation: i64,
    resource_slice_count: i64,
}

/// Reads the slices of a node, each the JSON of its `spec`.
pub fn published<'a>(node: &str, specs: impl IntoIterator<Item = &'a str>) -> Published {
    let mut found = Published::default();
    let mut pools: BTreeMap<(String, String), Vec<Spec>> = BTreeMap::new();
    for text in specs {
        match serde_json::from_str::<Spec>(text) {
            Ok(spec) if spec.node_name == node => {
                pools.entry((spec.driver.clone(), spec.pool.name.clone())).or_default().push(spec);
            }
            Ok(_) => {}
            Err(error) => {
                found.unread.extend(driver_of(text).map(|driver| (driver, error.to_string())));
            }
        }
    }
    let mut incomplete = BTreeSet::new();
    for ((driver, pool), specs) in pools {
        let Some(generation) = specs.iter().map(|spec| spec.pool.generation).max() else { continue };
        let specs: Vec<Spec> = specs.into_iter().filter(|spec| spec.pool.generation == generation).collect();
        let count = specs.first().map_or(0, |spec| spec.pool.resource_slice_count);
        // A driver that has published only some of its slices is still starting, or changing them.
        if usize::try_from(count) != Ok(specs.len()) {
            incomplete.insert(driver);
            continue;
        }
        let slices = found.drivers.entry(driver).or_default();
        slices.extend(specs.into_iter().map(|spec| general(node, &pool, spec)));
    }
    found.drivers.retain(|driver, slices| {
        slices.sort_by(|one, other| (&one.pool, first(one)).cmp(&(&other.pool, first(other))));
        let objection = slices.iter().find_map(DeviceSlice::objection);
        let objection = objection.or_else(|| {
            (slices.len() > SLICES_MAX).then(|| format!("{} slices are more than {SLICES_MAX}", slices.len()))
        });
        if let Some(objection) = objection {
            found.unread.insert(driver.clone(), objection);
        }
        !found.unread.contains_key(driver) && !incomplete.contains(driver)
    });
    while found.drivers.len() > DRIVERS_MAX {
        found.drivers.pop_last();
    }
    found
}

fn first(slice: &DeviceSlice) -> Option<&str> {
    slice.devices.first().map(|device| device.name.as_str())
}

fn driver_of(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        driver: String,
    }
    serde_json::from_str(text).ok().map(|Named { driver }| driver)
}

/// The slice without what is true of this node only.
fn general(node: &str, pool: &str, spec: Spec) -> DeviceSlice {
    let Spec { driver, mut devices, shared_counters, .. } = spec;
    for device in &mut devices {
        device.attributes.retain(|key, value| !is_of_one_node(key, value, node));
    }
    DeviceSlice { driver, pool: pool.replace(node, NODE), devices, shared_counters }
}

fn is_of_one_node(key: &str, value: &Attribute, node: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    let is_identity = IDENTITIES.iter().any(|identity| identity.eq_ignore_ascii_case(name));
    is_identity || matches!(value, Attribute::String(text) if text.contains(node) || has_uuid(text))
}

/// Whether a text has a UUID in it: `GPU-7b6e2c1d-…`.
fn has_uuid(text: &str) -> bool {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = text.split('-').collect();
    parts.windows(LENGTHS.len()).any(|window| {
        let is_part = |(part, length): (&&str, &usize)| {
            part.len() == *length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        window.iter().zip(&LENGTHS).all(is_part)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(driver: &str, (generation, count): (i64, i64), devices: &[Value]) -> String {
        json!({
            "driver": driver, "nodeName": "ip-1", "devices": devices,
            "pool": {"name": "ip-1", "generation": generation, "resourceSliceCount": count},
        })
        .to_string()
    }

    fn gpu(name: &str) -> Value {
        let attributes = json!({
            "model": {"string": "A100"}, "uuid": {"string": "x"}, "index": {"int": 0}, "shared": {"bool": true},
            "driverVersion": {"version": "1.2.3"}, "gpu.example.com/serial": {"string": "7"},
            "id": {"string": "GPU-7b6e2c1d-1111-2222-3333-0123456789ab"}, "host": {"string": "ip-1.internal"},
        });
        json!({"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}})
    }

    fn read(specs: &[String]) -> Published {
        published("ip-1", specs.iter().map(String::as_str))
    }

    #[test]
    fn a_nodes_slices_lose_what_identifies_the_node() {
        let found = read(&[spec("gpu.example.com", (1, 1), &[gpu("gpu-0"), gpu("gpu-1")])]);
        let slices = &found.drivers["gpu.example.com"];
        assert_eq!((slices.len(), slices[0].pool.as_str(), slices[0].devices.len()), (1, NODE, 2));
        let device = &slices[0].devices[0];
        let names: Vec<_> = device.attributes.keys().map(String::as_str).collect();
        assert_eq!(names, ["driverVersion", "index", "model", "shared"]);
        assert_eq!(device.capacity["memory"].value.to_string(), "80Gi");
    }

    #[test]
    fn a_driver_counts_once_all_its_slices_of_the_last_generation_are_there() {
        let (old, new) = (spec("d", (1, 1), &[gpu("old")]), spec("d", (2, 2), &[gpu("a")]));
        assert_eq!(read(&[old.clone(), new.clone()]).drivers, BTreeMap::new());
        let other = spec("d", (2, 2), &[gpu("b")]);
        let found = read(&[other, old, new, spec("e", (1, 1), &[])]);
        let names: Vec<_> = found.drivers["d"].iter().filter_map(first).collect();
        assert_eq!((names, found.drivers.len()), (vec!["a", "b"], 2));
    }

    #[test]
    fn a_driver_whose_slices_have_an_unknown_field_or_too_much_is_not_read() {
        let tainted = json!({"name": "a", "taints": [{"key": "broken", "effect": "NoSchedule"}]});
        let long = json!({"name": "x".repeat(200)});
        let many: Vec<Value> = (0..129).map(|number| json!({"name": format!("d{number}")})).collect();
        for devices in [vec![gpu("b"), tainted], vec![long], many] {
            let found = read(&[spec("d", (1, 1), &devices), spec("e", (1, 1), &[gpu("a")])]);
            assert_eq!(found.unread.keys().collect::<Vec<_>>(), ["d"]);
            assert_eq!(found.drivers.keys().collect::<Vec<_>>(), ["e"]);
        }
        let elsewhere = spec("d", (1, 1), &[]).replace("\"nodeName\":\"ip-1\"", "\"nodeName\":\"ip-2\"");
        let foreign = json!({"driver": "f", "allNodes": true}).to_string();
        let found = read(&[elsewhere, foreign, "garbage".to_owned()]);
        assert_eq!((found.drivers.len(), found.unread.keys().cloned().collect::<Vec<_>>()), (0, vec!["f".to_owned()]));
    }
}
