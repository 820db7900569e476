//! Properties of decoding: no response of Azure makes Headcount invent or lose a VM.

use std::collections::HashSet;
use std::time::SystemTime;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cloud::CAPACITY_MAX;
use crate::clouds::azure::arm::decode::{RawMachine, RawSet, item};
use crate::clouds::azure::arm::{MachineList, ScaleSet, VirtualMachine};
use crate::clouds::azure::{groups, instances};
use crate::clouds::bounds::Bounds;
use crate::config::settings::azure::Settings;
use crate::properties::{config, json, spoiled};

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
    Settings { detailed_extension_messages: detailed, ..super::settings() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_scale_set_is_decoded_or_refused_with_a_short_reason(written in prop_oneof![5 => spoiled(set()), 1 => json()]) {
        match item::<ScaleSet, RawSet>(written.clone()) {
            Err(bad) => prop_assert!(bad.reason.chars().count() <= 200, "{}", bad.reason),
            Ok(set) => {
                prop_assert_eq!(set.capacity.map(u64::from), written.pointer("/sku/capacity").and_then(Value::as_u64));
                let read = groups::read(("pool".into(), String::new()), &set, Bounds { min: 1, max: 9 }, None);
                let is_known = set.capacity.is_some_and(|capacity| capacity <= CAPACITY_MAX);
                prop_assert_eq!(read.is_ok(), is_known, "an unknown capacity is not a number");
            }
        }
    }

    #[test]
    fn every_machine_becomes_one_instance_or_the_list_is_refused(
        items in vec(prop_oneof![2 => (0..6_usize).prop_map(machine).boxed(), 1 => spoiled(machine(7)).boxed()], 0..6),
        detailed in any::<bool>(),
    ) {
        let machines: Result<Vec<VirtualMachine>, _> = items.into_iter().map(item::<_, RawMachine>).collect();
        let set = item::<ScaleSet, RawSet>(set()).expect("a good scale set");
        if let Ok(machines) = machines {
            let settings = settings(detailed);
            let view = instances::MachineReader { set: &set, settings: &settings, before: None };
            let list = MachineList { machines, without_id: 0 };
            let (instances, known) = instances::read(&view, &list, SystemTime::UNIX_EPOCH);
            let distinct: HashSet<String> = list.machines.iter().map(|machine| machine.id.to_ascii_lowercase()).collect();
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
}
