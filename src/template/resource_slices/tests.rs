use std::collections::BTreeSet;

use k8s_pb::api::resource::v1 as oracle;
use serde_json::json;

use super::*;
use crate::cloud::{Family, GroupHints, LaunchSpec};
use crate::instance_types::resource_slices::DriverReport;
use crate::instance_types::{Catalog, Day, Learned, NodeIdentity, NodeReport};
use crate::template::{GroupOverrides, NodeTemplate, build};

const DRIVER: &str = "gpu.nvidia.com";

fn slice(model: &str, devices: usize) -> DeviceSlice {
    let device = |number| {
        json!({
            "name": format!("gpu-{number}"),
            "attributes": {
                "productName": {"string": model}, "index": {"int": number}, "mig": {"bool": false},
                "driverVersion": {"version": "570.1.0"},
            },
            "capacity": {"memory": {"value": "24Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
            "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": "1Gi"}}}],
        })
    };
    let devices: Vec<_> = (0..devices).map(device).collect();
    let counters = json!([{"name": "gpu-0", "counters": {"memory": {"value": "24Gi"}}}]);
    let slice = json!({"driver": DRIVER, "devices": devices, "sharedCounters": counters});
    serde_json::from_value(slice).unwrap()
}

/// What the nodes of the group `us/gpu` showed: of each type a node, and the slice of its driver.
fn learned(types: &[(&str, DeviceSlice)], gpus: Option<&str>) -> Learned {
    let figures = [("cpu", "4"), ("memory", "15900000Ki"), ("pods", "29"), ("nvidia.com/gpu", gpus.unwrap_or("0"))];
    let figures = figures.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let mut learned = Learned::default();
    let catalog = Catalog::default();
    let today = Day::of(std::time::SystemTime::UNIX_EPOCH);
    for (type_name, slice) in types {
        let identity = NodeIdentity {
            group: "us/gpu",
            family: Family::Aws,
            type_name,
            image: "AL2023",
            node: "ip-1",
            created: "2026-11-01T00:00:00Z",
        };
        let report = NodeReport::of(identity, &figures, &figures).unwrap();
        learned.learn(&[report], &|_| false, &|type_name| catalog.sold(type_name), today);
        let [group, driver, node, created] = ["us/gpu", DRIVER, "ip-1", "2026"].map(str::to_owned);
        let slices = vec![slice.clone()];
        let report = DriverReport { group, type_name: (*type_name).to_owned(), driver, node, created, slices };
        learned.learn_devices(&[report], &BTreeSet::new(), today);
    }
    learned
}

fn template(types: &[&str], learned: &Learned, overrides: &GroupOverrides) -> NodeTemplate {
    let catalog = Catalog::default();
    catalog.learn(learned);
    let launch = LaunchSpec {
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        region: "us-east-1".to_owned(),
        zones: vec!["us-east-1a".to_owned()],
        ..LaunchSpec::default()
    };
    let hints = GroupHints::default();
    let catalog = catalog.for_group("us/gpu");
    let input = Input {
        group: "gpu",
        name: "gpu",
        family: Family::Aws,
        hints: &hints,
        launch: &launch,
        catalog: &catalog,
        overrides,
    };
    build(&input).unwrap()
}

fn shown(template: &NodeTemplate) -> Vec<(String, String, String)> {
    let slices = template.values.iter().filter(|value| value.path.starts_with("resourceSlices."));
    slices.map(|value| (value.path.clone(), value.value.clone(), value.provenance.to_string())).collect()
}

#[test]
fn learned_slices_are_those_of_a_node_with_the_templates_name() {
    let learned = learned(&[("g5.xlarge", slice("A10G", 2))], None);
    let learned = Learned::parse(&learned.clone().to_text()).unwrap();
    let template = template(&["g5.xlarge"], &learned, &GroupOverrides::default());
    let node = template.node.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap();
    let [bytes] = template.resource_slices.as_slice() else { panic!("{:?}", template.resource_slices) };
    let decoded = oracle::ResourceSlice::decode(bytes.clone()).unwrap();
    let spec = decoded.spec.unwrap();
    assert_eq!((spec.driver.as_deref(), spec.node_name.as_ref()), (Some(DRIVER), Some(&node)));
    let pool = spec.pool.unwrap();
    assert_eq!((pool.name, pool.generation, pool.resource_slice_count), (Some(node), Some(1), Some(1)));
    let names: Vec<_> = spec.devices.iter().filter_map(|device| device.name.clone()).collect();
    assert_eq!(names, ["gpu-0", "gpu-1"]);
    let device = &spec.devices[1];
    let attribute = |name: &str| device.attributes[name].clone();
    assert_eq!(attribute("productName").string.as_deref(), Some("A10G"));
    assert_eq!((attribute("index").int, attribute("mig").bool), (Some(1), Some(false)));
    assert_eq!(attribute("driverVersion").version.as_deref(), Some("570.1.0"));
    let memory = device.capacity["memory"].clone();
    assert_eq!(memory.value.and_then(|value| value.string).as_deref(), Some("24Gi"));
    let policy = memory.request_policy.unwrap();
    assert_eq!(policy.valid_range.and_then(|range| range.min).and_then(|min| min.string).as_deref(), Some("1Gi"));
    let consumed = &device.consumes_counters[0];
    assert_eq!(consumed.counters["memory"].value.clone().and_then(|value| value.string).as_deref(), Some("1Gi"));
    assert_eq!(spec.shared_counters[0].name.as_deref(), Some("gpu-0"));
    let shown = shown(&template);
    assert_eq!(shown[0].0, "resourceSlices.gpu.nvidia.com.gpu-0");
    assert_eq!(shown[0].1, "driverVersion=570.1.0 index=0 mig=false productName=A10G memory=24Gi of gpu-0");
    assert_eq!((shown.len(), shown[0].2.as_str()), (2, "learned from node ip-1, 1970-01-01"));
}

#[test]
fn slices_of_the_configuration_replace_those_of_the_same_driver() {
    let learned = learned(&[("g5.xlarge", slice("A10G", 2))], None);
    let other = DeviceSlice { driver: "nic.example.com".to_owned(), ..slice("x", 1) };
    let resource_slices = vec![slice("H100", 1), other];
    let template = template(&["g5.xlarge"], &learned, &GroupOverrides { resource_slices, ..GroupOverrides::default() });
    assert_eq!(template.resource_slices.len(), 2);
    let shown = shown(&template);
    assert!(shown.len() == 2 && shown[0].1.contains("H100") && shown[0].2 == "group override", "{shown:?}");
}

#[test]
fn a_group_of_several_types_has_only_devices_that_all_of_them_have() {
    let none = GroupOverrides::default();
    let alike = learned(&[("g5.xlarge", slice("A10G", 1)), ("g5.2xlarge", slice("A10G", 1))], None);
    assert_eq!(template(&["g5.xlarge", "g5.2xlarge"], &alike, &none).resource_slices.len(), 1);
    assert!(template(&["g5.xlarge", "g5.4xlarge"], &alike, &none).resource_slices.is_empty());
    let different = learned(&[("g5.xlarge", slice("A10G", 1)), ("g5.2xlarge", slice("L4", 1))], None);
    assert!(template(&["g5.xlarge", "g5.2xlarge"], &different, &none).resource_slices.is_empty());
}

#[test]
fn gpus_that_a_driver_publishes_are_not_promised_to_a_device_plugin() {
    let has_gpus = |gpus| {
        let learned = learned(&[("g5.xlarge", slice("A10G", 1))], gpus);
        let template = template(&["g5.xlarge"], &learned, &GroupOverrides::default());
        template.values.iter().any(|value| value.path == "capacity.nvidia.com/gpu")
    };
    assert!(!has_gpus(None));
    assert!(has_gpus(Some("1")), "where a device plugin runs as well");
}

#[test]
fn gpus_whose_driver_the_configuration_names_are_not_promised_to_a_device_plugin() {
    let has_gpus = |driver: &str, learned: &Learned| {
        let resource_slices = vec![DeviceSlice { driver: driver.to_owned(), ..slice("A10G", 1) }];
        let overrides = GroupOverrides { resource_slices, ..GroupOverrides::default() };
        let template = template(&["g5.xlarge"], learned, &overrides);
        template.values.iter().any(|value| value.path == "capacity.nvidia.com/gpu")
    };
    assert!(!has_gpus(DRIVER, &Learned::default()), "although the table has them");
    assert!(has_gpus("nic.example.com", &Learned::default()));
}

/// Driver and device plugin cannot run on the same node (EKS user guide, device-management-neuron).
#[test]
fn neuron_devices_that_a_driver_publishes_are_no_extended_resources() {
    let resources = |driver: Option<&str>| {
        let slices = driver.map(|driver| DeviceSlice { driver: driver.to_owned(), ..slice("inf2", 1) });
        let overrides = GroupOverrides { resource_slices: slices.into_iter().collect(), ..GroupOverrides::default() };
        let template = template(&["inf2.xlarge"], &Learned::default(), &overrides);
        let path =
            |value: &crate::template::Value| value.path.strip_prefix("capacity.aws.amazon.com/").map(str::to_owned);
        template.values.iter().filter_map(path).filter(|name| name.starts_with("neuron")).collect::<Vec<_>>()
    };
    assert_eq!(resources(None), ["neuron", "neuroncore"]);
    assert_eq!(resources(Some(DRIVER)), ["neuron", "neuroncore"]);
    assert_eq!(resources(Some("neuron.aws.com")), [""; 0]);
}
