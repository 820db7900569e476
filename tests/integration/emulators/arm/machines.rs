//! The machines of scale sets: uniform ones below their set, flexible ones beside it.

use headcount::clouds::simulated::{CallKind, Phase};
use serde_json::{Value, json};

use super::super::backstage::{Backstage, Part};
use super::super::exchange::{Answer, Outcome, Request};
use super::super::sight::{Seen, Sight, look_up, spelled};
use super::errors::{self, error};
use super::front::Window;
use super::habits::Look;
use super::paging::page;
use super::scale_sets::{id, location, zone};

/// The name of a flexible machine: nothing in it tells its number.
pub(super) fn flexible_name(scale_set: &str, instance: &str) -> String {
    let mixed = instance.bytes().fold(0x9e37_79b9_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{scale_set}_{mixed:08x}")
}

impl Window {
    pub(super) async fn list_uniform_machines(&self, request: &Request, name: &str) -> Outcome {
        let Some(sight) = self.see(name).await? else { return Ok(errors::no_scale_set(name)) };
        let (look, habits) = (self.look(sight.name()), self.habits());
        if look.flexible {
            let message = "Operation 'VirtualMachineScaleSetVMs.LIST' is not allowed on a flexible scale set.";
            return Ok(error(409, "OperationNotAllowed", message));
        }
        let with_view = wants_view(request);
        let machine = |seen: &Seen| {
            let rest = format!("virtualMachineScaleSets/{}/virtualMachines/{}", sight.name(), seen.id);
            let mut item = common(&self.backstage, &sight, seen, &look, with_view);
            item["id"] = id(habits.lists_shout, &rest).into();
            item["name"] = format!("{}_{}", sight.name(), seen.id).into();
            item["instanceId"] = seen.id.as_str().into();
            item["type"] = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines".into();
            item["properties"]["latestModelApplied"] = true.into();
            item
        };
        let items: Vec<Value> = sight.instances.iter().map(machine).collect();
        Ok(page(request, &items, habits.page))
    }

    pub(super) async fn list_flexible_machines(&self, request: &Request) -> Outcome {
        let filter = request.parameter("$filter").unwrap_or_default();
        let with_view = wants_view(request);
        if filter.is_empty() && with_view {
            let message = "$expand=instanceView is supported only with a filter by virtual machine scale set.";
            return Ok(error(400, "InvalidParameter", message));
        }
        let of: Vec<String> = if filter.is_empty() {
            self.backstage.simulated.world(|world, _| world.groups().map(|group| group.name().to_owned()).collect())
        } else {
            match scale_set_of(&filter) {
                Some(name) => vec![name],
                None => return Ok(error(400, "InvalidParameter", &format!("The filter {filter} is not supported."))),
            }
        };
        let (mut items, habits) = (Vec::new(), self.habits());
        for name in of {
            let Some(sight) = self.see(&name).await? else { continue };
            let look = self.look(sight.name());
            // The machines of uniform sets are no resources of their own.
            let instances = if look.flexible { sight.instances.as_slice() } else { &[] };
            for seen in instances {
                let name = flexible_name(sight.name(), &seen.id);
                let mut item = common(&self.backstage, &sight, seen, &look, with_view);
                let set = format!("virtualMachineScaleSets/{}", sight.name());
                item["id"] = id(habits.lists_shout, &format!("virtualMachines/{name}")).into();
                item["name"] = name.into();
                item["type"] = "Microsoft.Compute/virtualMachines".into();
                item["properties"]["virtualMachineScaleSet"] = json!({"id": id(habits.lists_shout, &set)});
                item["properties"]["hardwareProfile"] = json!({"vmSize": seen.instance_type});
                items.push(item);
            }
        }
        Ok(page(request, &items, habits.page))
    }

    /// A scale set with its machines, after all that befell it.
    async fn see(&self, name: &str) -> Result<Option<Sight>, super::super::exchange::Instead> {
        let kind = CallKind::Observe;
        let known = self.backstage.simulated.world(|world, _| spelled(world, name));
        let group = known.as_deref().unwrap_or(name);
        let asked = self
            .backstage
            .call(kind, Some(group), "machines".to_owned(), errors::mishap, |world, _| look_up(world, name));
        let seen = asked.await?;
        self.backstage
            .distort(kind, Part::Instances, seen, group)
            .map_err(|_| Answer::json(200, &json!({"value": [{"properties": "of no use"}]})).into())
    }
}

fn wants_view(request: &Request) -> bool {
    request.parameter("$expand").is_some_and(|expand| expand.eq_ignore_ascii_case("instanceView"))
}

/// `'virtualMachineScaleSet/id' eq '/subscriptions/…/virtualMachineScaleSets/name'`
fn scale_set_of(filter: &str) -> Option<String> {
    let (left, right) = filter.split_once(" eq ")?;
    let named = left.trim().trim_matches('\'').eq_ignore_ascii_case("virtualMachineScaleSet/id");
    let name = right.trim().trim_matches('\'').rsplit('/').next().filter(|name| !name.is_empty());
    name.filter(|_| named).map(str::to_owned)
}

fn common(backstage: &Backstage, sight: &Sight, seen: &Seen, look: &Look, with_view: bool) -> Value {
    let state = match seen.phase {
        Phase::Requested | Phase::Creating => "Creating",
        Phase::Running | Phase::Standby => "Succeeded",
        Phase::Broken => "Failed",
        Phase::Deleting => "Deleting",
    };
    let mut properties = json!({"provisioningState": state, "timeCreated": backstage.timestamp(seen.since)});
    let name = flexible_name(sight.name(), &seen.id);
    let listed = |names: &std::collections::BTreeSet<String>| names.contains(&seen.id) || names.contains(&name);
    if listed(&look.protected) {
        properties["protectionPolicy"] = json!({"protectFromScaleIn": true, "protectFromScaleSetActions": false});
    }
    if with_view && !listed(&look.viewless) {
        properties["instanceView"] = view(seen, look, state);
    }
    let mut item = json!({"location": location(sight), "tags": sight.plan.tags, "properties": properties});
    item["sku"] = json!({"name": seen.instance_type, "tier": "Standard"});
    if let Some(zone) = zone(&seen.zone) {
        item["zones"] = json!([zone]);
    }
    item
}

fn view(seen: &Seen, look: &Look, state: &str) -> Value {
    let failed_extension = seen.failure.as_ref().filter(|(code, _)| code.starts_with("VMExtension"));
    let power = match seen.phase {
        Phase::Requested | Phase::Creating => None,
        Phase::Broken => look.power_of_failed.as_deref().or_else(|| failed_extension.map(|_| "running")),
        Phase::Running | Phase::Standby | Phase::Deleting => Some("running"),
    };
    let provisioning = match &seen.failure {
        Some((code, message)) => json!({
            "code": format!("ProvisioningState/failed/{code}"), "level": "Error",
            "displayStatus": "Provisioning failed", "message": message,
        }),
        None => json!({"code": format!("ProvisioningState/{}", state.to_ascii_lowercase()), "level": "Info"}),
    };
    let mut statuses = vec![provisioning];
    statuses.extend(power.map(|power| json!({"code": format!("PowerState/{power}"), "level": "Info"})));
    let mut view = json!({"statuses": statuses});
    if let Some((code, message)) = failed_extension {
        let status = json!({
            "code": format!("ProvisioningState/failed/{code}"), "level": "Error",
            "displayStatus": "Provisioning failed", "message": message,
        });
        view["extensions"] = json!([
            {"name": "billing", "statuses": [{"code": "ProvisioningState/succeeded", "level": "Info"}]},
            {"name": "vmssCSE", "type": "Microsoft.Azure.Extensions.CustomScript", "statuses": [status]},
        ]);
    }
    view
}
