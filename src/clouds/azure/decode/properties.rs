use std::collections::HashSet;
use std::time::SystemTime;

use hyper::{HeaderMap, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::super::api::{ScaleSet, Size, VirtualMachine};
use super::super::errors::MESSAGE_LENGTH_MAX;
use super::super::{groups, instances};
use super::*;
use crate::cloud::CAPACITY_MAX;
use crate::clouds::bounds::Bounds;
use crate::config::settings::azure::{AzureCloud, Settings};
use crate::properties::{Written, config, json, slipped, spoiled};

const SET_ID: &str = "/subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/pool";

fn set() -> Value {
    json!({
        "id": SET_ID, "name": "pool", "location": "westus", "zones": ["1"], "etag": "\"3\"",
        "tags": { "min": "1", "k8s.io_cluster-autoscaler_node-template_taint_gpu": "true:NoSchedule" },
        "sku": { "name": "Mix", "capacity": 3 },
        "properties": {
            "provisioningState": "Succeeded", "orchestrationMode": "Uniform", "overprovision": true,
            "skuProfile": { "vmSizes": [{ "name": "Standard_D2s_v5" }] },
            "virtualMachineProfile": { "priority": "Spot", "storageProfile": { "osDisk": { "diskSizeGB": 128 } } }
        }
    })
}

fn machine(number: usize) -> Value {
    json!({
        "id": format!("{SET_ID}/virtualMachines/{number}"), "name": format!("pool_{number}"),
        "instanceId": number.to_string(),
        "properties": {
            "provisioningState": "Failed",
            "instanceView": {
                "statuses": [
                    { "code": "ProvisioningState/failed/AllocationFailed", "level": "Error", "message": "none left" },
                    { "code": "PowerState/stopped", "level": "Info" }
                ],
                "extensions": [{ "name": "vmssCSE", "statuses": [{ "level": "Error", "message": "exit 50" }] }]
            },
            "protectionPolicy": { "protectFromScaleIn": true }
        }
    })
}

fn settings(detailed: bool) -> Settings {
    Settings {
        cloud: AzureCloud::Public,
        endpoint: None,
        location: None,
        subscription_id: None,
        resource_group: "RG".to_owned(),
        credential: None,
        node_groups: Vec::new(),
        auto_discovery: Vec::new(),
        enable_force_delete: false,
        detailed_extension_messages: detailed,
        label_predictions: true,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_scale_set_is_read_or_said_to_be_bad_in_few_words(item in prop_oneof![5 => spoiled(set()), 1 => json()]) {
        match super::item::<ScaleSet, RawSet>(item.clone()) {
            Err(bad) => prop_assert!(bad.reason.chars().count() <= MESSAGE_LENGTH_MAX, "{}", bad.reason),
            Ok(set) => {
                prop_assert_eq!(set.capacity.map(u64::from), item.pointer("/sku/capacity").and_then(Value::as_u64));
                let read = groups::read("pool".into(), &set, Bounds { min: 1, max: 9 }, None);
                let is_known = set.capacity.is_some_and(|capacity| capacity <= CAPACITY_MAX);
                prop_assert_eq!(read.is_ok(), is_known, "an unknown capacity is no number");
            }
        }
    }

    #[test]
    fn every_machine_becomes_one_instance_or_the_list_is_refused(
        items in vec(prop_oneof![2 => (0..6_usize).prop_map(machine).boxed(), 1 => spoiled(machine(7)).boxed()], 0..6),
        detailed in any::<bool>(),
    ) {
        let machines: Result<Vec<VirtualMachine>, _> = items.into_iter().map(super::item::<_, RawMachine>).collect();
        let set = super::item::<ScaleSet, RawSet>(set()).expect("a good scale set");
        if let Ok(machines) = machines {
            let settings = settings(detailed);
            let view = instances::View { set: &set, settings: &settings, before: None };
            let (instances, known) = instances::read(&view, &machines, SystemTime::UNIX_EPOCH);
            let distinct: HashSet<String> = machines.iter().map(|machine| machine.id.to_ascii_lowercase()).collect();
            prop_assert_eq!(instances.len(), distinct.len());
            for instance in &instances {
                prop_assert!(known.get(&instance.id).is_some_and(|known| !known.delete_by.is_empty()));
                if let Some(failure) = &instance.failure {
                    prop_assert!(!failure.code.is_empty(), "CA drops an error without a code");
                    prop_assert!(failure.message.chars().count() <= 400, "{}", failure.message);
                }
            }
        }
    }

    #[test]
    fn a_machine_size_is_read_or_passed_over(
        item in spoiled(json!({
            "resourceType": "virtualMachines", "name": "Standard_D2s_v5", "family": "standardDSv5Family",
            "capabilities": [{ "name": "vCPUs", "value": "2" }, { "name": "MemoryGB", "value": "8" }]
        })),
    ) {
        if is_size(&item) && let Ok(size) = super::item::<Size, RawSize>(item) {
            prop_assert!(!size.name.is_empty());
        }
    }

    #[test]
    fn a_page_is_all_of_its_items_or_an_error(page in slipped(json!({ "value": [set(), set()] }).to_string())) {
        let Written(bytes) = page;
        let subject = Subject { operation: "VirtualMachineScaleSets.List", name: "RG" };
        let told = serde_json::from_slice::<Value>(&bytes).ok();
        let told = told.as_ref().and_then(|page| page["value"].as_array()).map(Vec::len);
        let page = Answer { status: StatusCode::OK, headers: HeaderMap::new(), body: bytes.into() };
        match items(subject, vec![page]) {
            Ok(items) => prop_assert_eq!(Some(items.len()), told),
            Err(error) => prop_assert!(error.to_string().chars().count() < MESSAGE_LENGTH_MAX + 100, "{}", error),
        }
    }
}
