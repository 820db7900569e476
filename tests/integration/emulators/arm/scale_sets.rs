//! Scale sets: LIST and GET.

use headcount::clouds::simulated::{CallKind, RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::{Value, json};

use super::super::core::ReadScope;
use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::super::shown::{ShownGroup, look_up, spelled};
use super::behavior::{Etags, GroupDetails};
use super::errors;
use super::paging::page;
use super::router::ArmApi;

/// A resource's ID; lists may have the resource group in capitals.
pub(super) fn id(upper_case: bool, rest: &str) -> String {
    let group = if upper_case { RESOURCE_GROUP.to_ascii_uppercase() } else { RESOURCE_GROUP.to_owned() };
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.Compute/{rest}")
}

/// Location and number of a zone in the form of node labels, `eastus-1`.
pub(super) fn location(group: &ShownGroup) -> &str {
    let zone = group.plan.zones.first().map_or("eastus", String::as_str);
    zone.rsplit_once('-').map_or(zone, |(location, _)| location)
}

pub(super) fn zone(label: &str) -> Option<&str> {
    label.rsplit_once('-').map(|(_, number)| number).filter(|number| *number != "0")
}

impl ArmApi {
    pub(super) async fn list_scale_sets(&self, request: &Request) -> HandlerResult {
        let kind = CallKind::List;
        let sights = self
            .core
            .call(kind, None, String::new(), errors::call_fault, |world, _| {
                world.groups().map(ShownGroup::of).collect::<Vec<_>>()
            })
            .await?;
        let behavior = self.behavior();
        let in_lists = behavior.etags == Etags::Everywhere;
        let mut items = Vec::new();
        for group in sights {
            let name = group.name().to_owned();
            let details = self.group_details(&name);
            match self.core.apply_read_fault(kind, ReadScope::Size, Some(group.clone()), &name) {
                Ok(Some(group)) => {
                    items.push(scale_set(&group, &details, behavior.upper_case_in_lists, in_lists));
                }
                Ok(None) => {}
                Err(_) => items.push(undecodable(scale_set(&group, &details, behavior.upper_case_in_lists, in_lists))),
            }
        }
        Ok(page(request, &items, &behavior))
    }

    pub(super) async fn get_scale_set(&self, name: &str) -> HandlerResult {
        let kind = CallKind::Observe;
        let known = self.core.simulated.world(|world, _| spelled(world, name));
        let group = known.as_deref().unwrap_or(name);
        let instance =
            self.core.call(kind, Some(group), String::new(), errors::call_fault, |world, _| look_up(world, name));
        let instance = instance.await?;
        let details = self.group_details(group);
        let with_etag = self.behavior().etags != Etags::Nowhere;
        Ok(match self.core.apply_read_fault(kind, ReadScope::Size, instance.clone(), group) {
            Ok(Some(group)) => {
                let response = HttpResponse::json(200, &scale_set(&group, &details, false, with_etag));
                match group.etag.filter(|_| with_etag) {
                    Some(etag) => response.header("etag", etag),
                    None => response,
                }
            }
            Ok(None) => errors::no_scale_set(name),
            Err(_) => match instance {
                Some(group) => HttpResponse::json(200, &undecodable(scale_set(&group, &details, false, with_etag))),
                None => errors::no_scale_set(name),
            },
        })
    }
}

/// A scale set as ARM shows it.
pub(super) fn scale_set(group: &ShownGroup, details: &GroupDetails, upper_case: bool, etag: bool) -> Value {
    let name = group.name();
    let zones: Vec<&str> = group.plan.zones.iter().filter_map(|label| zone(label)).collect();
    let size = group.plan.instance_types.first().map_or("Standard_D4s_v5", String::as_str);
    let size = if details.mix { "Mix" } else { size };
    let state = match (group.busy, group.failed) {
        (true, _) => "Updating",
        (false, true) => "Failed",
        (false, false) => "Succeeded",
    };
    let mut item = json!({
        "name": name,
        "id": id(upper_case, &format!("virtualMachineScaleSets/{name}")),
        "type": "Microsoft.Compute/virtualMachineScaleSets",
        "location": location(group),
        "zones": zones,
        "tags": group.plan.tags,
        "sku": {"name": size, "tier": "Standard", "capacity": group.capacity},
        "properties": {
            "uniqueId": format!("{:08x}-4f6b-4d1a-9c3e-5a7d0e2b8c41", group.generation),
            "provisioningState": state,
            "orchestrationMode": if details.flexible { "Flexible" } else { "Uniform" },
            "overprovision": details.overprovision,
            "singlePlacementGroup": false,
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": profile(details),
        },
    });
    for (name, value) in &details.properties {
        item["properties"][name] = value.clone();
    }
    if zones.is_empty() {
        item["zones"].take();
    }
    if etag && let Some(etag) = &group.etag {
        item["etag"] = etag.as_str().into();
    }
    if details.mix {
        let sizes: Vec<Value> = group.plan.instance_types.iter().map(|name| json!({"name": name})).collect();
        item["properties"]["skuProfile"] = json!({"vmSizes": sizes, "allocationStrategy": "LowestPrice"});
    }
    if details.host_group {
        item["properties"]["hostGroup"] = json!({"id": id(false, "hostGroups/hosts")});
    }
    if details.undecodable { undecodable(item) } else { item }
}

fn profile(details: &GroupDetails) -> Value {
    let mut disk = json!({"osType": if details.windows { "Windows" } else { "Linux" }, "createOption": "FromImage"});
    if let Some(size) = details.os_disk_gb {
        disk["diskSizeGB"] = size.into();
    }
    if details.ephemeral_os_disk {
        disk["diffDiskSettings"] = json!({"option": "Local", "placement": "CacheDisk"});
    }
    disk["managedDisk"] =
        json!({"storageAccountType": details.storage_account_type.as_deref().unwrap_or("Premium_LRS")});
    let image = details.image.as_ref().map(|image| json!({"id": id(false, &format!("galleries/{image}"))}));
    let address = |number: u32| json!({"name": format!("ipconfig{number}"), "properties": {"primary": number == 1, "privateIPAddressVersion": "IPv4"}});
    let addresses: Vec<Value> = (1..=details.addresses.max(1)).map(address).collect();
    let interface = json!({"name": "nic", "properties": {"primary": true, "ipConfigurations": addresses}});
    let system = if details.windows { "windowsConfiguration" } else { "linuxConfiguration" };
    let mut profile = json!({
        "priority": if details.spot { "Spot" } else { "Regular" },
        "osProfile": {"computerNamePrefix": "node", system: {"provisionVMAgent": true}},
        "storageProfile": {"osDisk": disk, "imageReference": image},
        "networkProfile": {"networkInterfaceConfigurations": [interface]},
    });
    if details.reserved {
        let group = json!({"id": id(false, "capacityReservationGroups/reserved")});
        profile["capacityReservation"] = json!({"capacityReservationGroup": group});
    }
    profile
}

fn undecodable(mut item: Value) -> Value {
    item["sku"]["capacity"] = "as many as there are".into();
    item
}
