//! Scale sets: LIST and GET.

use headcount::clouds::simulated::{CallKind, RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::{Value, json};

use super::super::backstage::Part;
use super::super::exchange::{Answer, Outcome, Request};
use super::super::sight::{Sight, look_up, spelled};
use super::errors;
use super::front::Window;
use super::habits::Look;
use super::paging::page;

/// A resource's ID; lists may shout the resource group.
pub(super) fn id(shout: bool, rest: &str) -> String {
    let group = if shout { RESOURCE_GROUP.to_ascii_uppercase() } else { RESOURCE_GROUP.to_owned() };
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.Compute/{rest}")
}

/// Location and number of a zone as node labels have it, `eastus-1`.
pub(super) fn location(sight: &Sight) -> &str {
    let zone = sight.plan.zones.first().map_or("eastus", String::as_str);
    zone.rsplit_once('-').map_or(zone, |(location, _)| location)
}

pub(super) fn zone(label: &str) -> Option<&str> {
    label.rsplit_once('-').map(|(_, number)| number).filter(|number| *number != "0")
}

impl Window {
    pub(super) async fn list_scale_sets(&self, request: &Request) -> Outcome {
        let kind = CallKind::List;
        let sights = self
            .backstage
            .call(kind, None, String::new(), errors::mishap, |world, _| {
                world.groups().map(Sight::of).collect::<Vec<_>>()
            })
            .await?;
        let habits = self.habits();
        let mut items = Vec::new();
        for sight in sights {
            let name = sight.name().to_owned();
            let look = self.look(&name);
            match self.backstage.distort(kind, Part::Size, Some(sight.clone()), &name) {
                Ok(Some(sight)) => {
                    items.push(scale_set(&sight, &look, habits.lists_shout, habits.etag_in_list));
                }
                Ok(None) => {}
                Err(_) => items.push(undecodable(scale_set(&sight, &look, habits.lists_shout, habits.etag_in_list))),
            }
        }
        Ok(page(request, &items, habits.page))
    }

    pub(super) async fn get_scale_set(&self, name: &str) -> Outcome {
        let kind = CallKind::Observe;
        let known = self.backstage.simulated.world(|world, _| spelled(world, name));
        let group = known.as_deref().unwrap_or(name);
        let seen =
            self.backstage.call(kind, Some(group), String::new(), errors::mishap, |world, _| look_up(world, name));
        let seen = seen.await?;
        let look = self.look(group);
        Ok(match self.backstage.distort(kind, Part::Size, seen.clone(), group) {
            Ok(Some(sight)) => {
                let etag = sight.etag.clone().unwrap_or_default();
                Answer::json(200, &scale_set(&sight, &look, false, true)).header("etag", etag)
            }
            Ok(None) => errors::no_scale_set(name),
            Err(_) => match seen {
                Some(sight) => Answer::json(200, &undecodable(scale_set(&sight, &look, false, true))),
                None => errors::no_scale_set(name),
            },
        })
    }
}

/// A scale set as ARM shows it.
pub(super) fn scale_set(sight: &Sight, look: &Look, shout: bool, etag: bool) -> Value {
    let name = sight.name();
    let zones: Vec<&str> = sight.plan.zones.iter().filter_map(|label| zone(label)).collect();
    let size = sight.plan.instance_types.first().map_or("Standard_D4s_v5", String::as_str);
    let size = if look.mix { "Mix" } else { size };
    let state = match (sight.busy, sight.failed) {
        (true, _) => "Updating",
        (false, true) => "Failed",
        (false, false) => "Succeeded",
    };
    let mut item = json!({
        "name": name,
        "id": id(shout, &format!("virtualMachineScaleSets/{name}")),
        "type": "Microsoft.Compute/virtualMachineScaleSets",
        "location": location(sight),
        "zones": zones,
        "tags": sight.plan.tags,
        "sku": {"name": size, "tier": "Standard", "capacity": sight.capacity},
        "properties": {
            "provisioningState": state,
            "orchestrationMode": if look.flexible { "Flexible" } else { "Uniform" },
            "overprovision": look.overprovision,
            "singlePlacementGroup": false,
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": profile(look),
        },
    });
    if zones.is_empty() {
        item["zones"].take();
    }
    if etag && let Some(etag) = &sight.etag {
        item["etag"] = etag.as_str().into();
    }
    if look.mix {
        let sizes: Vec<Value> = sight.plan.instance_types.iter().map(|name| json!({"name": name})).collect();
        item["properties"]["skuProfile"] = json!({"vmSizes": sizes, "allocationStrategy": "LowestPrice"});
    }
    if look.host_group {
        item["properties"]["hostGroup"] = json!({"id": id(false, "hostGroups/hosts")});
    }
    if look.undecodable { undecodable(item) } else { item }
}

fn profile(look: &Look) -> Value {
    let mut disk = json!({"osType": if look.windows { "Windows" } else { "Linux" }, "createOption": "FromImage"});
    if let Some(size) = look.os_disk_gb {
        disk["diskSizeGB"] = size.into();
    }
    if look.ephemeral_os_disk {
        disk["diffDiskSettings"] = json!({"option": "Local", "placement": "CacheDisk"});
    }
    disk["managedDisk"] = json!({"storageAccountType": look.storage_account_type.as_deref().unwrap_or("Premium_LRS")});
    let image = look.image.as_ref().map(|image| json!({"id": id(false, &format!("galleries/{image}"))}));
    let address = |number: u32| json!({"name": format!("ipconfig{number}"), "properties": {"primary": number == 1, "privateIPAddressVersion": "IPv4"}});
    let addresses: Vec<Value> = (1..=look.addresses.max(1)).map(address).collect();
    let interface = json!({"name": "nic", "properties": {"primary": true, "ipConfigurations": addresses}});
    let system = if look.windows { "windowsConfiguration" } else { "linuxConfiguration" };
    json!({
        "priority": if look.spot { "Spot" } else { "Regular" },
        "osProfile": {"computerNamePrefix": "node", system: {"provisionVMAgent": true}},
        "storageProfile": {"osDisk": disk, "imageReference": image},
        "networkProfile": {"networkInterfaceConfigurations": [interface]},
    })
}

fn undecodable(mut item: Value) -> Value {
    item["sku"]["capacity"] = "as many as there are".into();
    item
}
