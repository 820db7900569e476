//! The machines of scale sets: uniform ones are below their set, flexible ones are resources of their own.

use std::time::Duration;

use headcount::clouds::simulated::{CallKind, Phase};
use serde_json::{Value, json};

use super::super::core::{EmulatorCore, ReadScope};
use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::super::shown::{ShownGroup, ShownInstance, look_up, spelled};
use super::behavior::{Etags, GroupDetails};
use super::errors::{self, error};
use super::headers::timestamp;
use super::paging::page;
use super::router::ArmApi;
use super::scale_sets::{id, location, zone};

/// The name of a flexible machine; it does not contain its number.
pub(super) fn flexible_name(scale_set: &str, instance: &str) -> String {
    let mixed = instance.bytes().fold(0x9e37_79b9_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{scale_set}_{mixed:08x}")
}

impl ArmApi {
    pub(super) async fn list_uniform_machines(&self, request: &Request, name: &str) -> HandlerResult {
        let Some(group) = self.see(name).await? else { return Ok(errors::no_scale_set(name)) };
        let (details, behavior) = (self.group_details(group.name()), self.behavior());
        if details.flexible {
            let message = "Operation 'VirtualMachineScaleSetVMs.LIST' is not allowed on a flexible scale set.";
            return Ok(error(409, "OperationNotAllowed", message));
        }
        let with_view = wants_view(request);
        let machine = |instance: &ShownInstance| {
            let rest = format!("virtualMachineScaleSets/{}/virtualMachines/{}", group.name(), instance.id);
            let mut item = common(&self.core, &group, instance, &details, with_view);
            item["id"] = (behavior.id_spelling)(&id(behavior.upper_case_in_lists, &rest)).into();
            item["name"] = format!("{}_{}", group.name(), instance.id).into();
            item["instanceId"] = instance.id.as_str().into();
            item["type"] = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines".into();
            // An item has the etag of its scale set.
            if behavior.etags == Etags::Everywhere {
                item["etag"] = group.etag.as_deref().into();
            }
            item["properties"]["latestModelApplied"] = true.into();
            item
        };
        let items: Vec<Value> = listed(&group, &details).iter().map(machine).collect();
        Ok(page(request, &items, &behavior))
    }

    pub(super) async fn list_flexible_machines(&self, request: &Request) -> HandlerResult {
        let filter = request.parameter("$filter").unwrap_or_default();
        let with_view = wants_view(request);
        if filter.is_empty() && with_view {
            let message = "$expand=instanceView is supported only with a filter by virtual machine scale set.";
            return Ok(error(400, "InvalidParameter", message));
        }
        let of: Vec<String> = if filter.is_empty() {
            self.core.simulated.world(|world, _| world.groups().map(|group| group.name().to_owned()).collect())
        } else {
            match scale_set_of(&filter) {
                Some(name) => vec![name],
                None => return Ok(error(400, "InvalidParameter", &format!("The filter {filter} is not supported."))),
            }
        };
        let (mut items, behavior) = (Vec::new(), self.behavior());
        for name in of {
            let Some(group) = self.see(&name).await? else { continue };
            let details = self.group_details(group.name());
            // The machines of uniform sets are not resources of their own.
            let instances = if details.flexible { listed(&group, &details) } else { Vec::new() };
            for instance in &instances {
                let name = flexible_name(group.name(), &instance.id);
                let mut item = common(&self.core, &group, instance, &details, with_view);
                let set = format!("virtualMachineScaleSets/{}", group.name());
                let own = id(behavior.upper_case_in_lists, &format!("virtualMachines/{name}"));
                item["id"] = (behavior.id_spelling)(&own).into();
                item["name"] = name.into();
                item["type"] = "Microsoft.Compute/virtualMachines".into();
                item["properties"]["virtualMachineScaleSet"] = json!({"id": id(behavior.upper_case_in_lists, &set)});
                item["properties"]["hardwareProfile"] = json!({"vmSize": instance.instance_type});
                items.push(item);
            }
        }
        Ok(page(request, &items, &behavior))
    }

    /// A scale set with its machines, with its read faults.
    async fn see(&self, name: &str) -> Result<Option<ShownGroup>, super::super::http_messages::Interruption> {
        let kind = CallKind::Observe;
        let known = self.core.simulated.world(|world, _| spelled(world, name));
        let group = known.as_deref().unwrap_or(name);
        let asked = self
            .core
            .call(kind, Some(group), "machines".to_owned(), errors::call_fault, |world, _| look_up(world, name));
        let instance = asked.await?;
        tokio::time::sleep(self.behavior().page_time).await;
        self.core
            .apply_read_fault(kind, ReadScope::Instances, instance, group)
            .map_err(|_| HttpResponse::json(200, &json!({"value": [{"properties": "of no use"}]})).into())
    }
}

/// The instances that a list shows: it may lag behind by minutes (azure-sdk-for-net #36946).
fn listed(group: &ShownGroup, details: &GroupDetails) -> Vec<ShownInstance> {
    let others = group.instances.iter().filter(|one| !details.still_listed.contains(&one.id)).cloned();
    let first = |list: &[String]| list.first().cloned().unwrap_or_default();
    let still = details.still_listed.iter().map(|id| ShownInstance {
        id: id.clone(),
        zone: first(&group.plan.zones),
        instance_type: first(&group.plan.instance_types),
        phase: Phase::Running,
        since: Duration::ZERO,
        failure: None,
    });
    still.chain(others).collect()
}

/// Unique for each machine, whatever it is called.
fn vm_id(group: &ShownGroup, instance: &ShownInstance) -> String {
    format!("{:08x}-83d2-4e0f-b1a6-{:>012}", group.generation, instance.id)
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

fn common(
    core: &EmulatorCore,
    group: &ShownGroup,
    instance: &ShownInstance,
    details: &GroupDetails,
    with_view: bool,
) -> Value {
    let state = match instance.phase {
        Phase::Requested | Phase::Creating => "Creating",
        Phase::Running | Phase::Standby => "Succeeded",
        Phase::Broken => "Failed",
        Phase::Deleting => "Deleting",
    };
    let name = flexible_name(group.name(), &instance.id);
    let shown_as = [&instance.id, &name].into_iter().find_map(|known| details.shown_as.get(known)).copied();
    let state = shown_as.map_or(state, |(state, _)| state);
    let mut properties = json!({"provisioningState": state, "vmId": vm_id(group, instance), "timeCreated": timestamp(core.time(instance.since) - details.created_ago)});
    let listed = |names: &std::collections::BTreeSet<String>| names.contains(&instance.id) || names.contains(&name);
    if listed(&details.protected) {
        properties["protectionPolicy"] = json!({"protectFromScaleIn": true, "protectFromScaleSetActions": false});
    }
    if with_view && !listed(&details.viewless) {
        properties["instanceView"] = view(instance, details, state, shown_as.map(|(_, power)| power));
    }
    let mut item = json!({"location": location(group), "tags": group.plan.tags, "properties": properties});
    item["sku"] = json!({"name": instance.instance_type, "tier": "Standard"});
    if let Some(zone) = zone(&instance.zone) {
        item["zones"] = json!([zone]);
    }
    item
}

fn view(
    instance: &ShownInstance,
    details: &GroupDetails,
    state: &str,
    other_power: Option<Option<&'static str>>,
) -> Value {
    let failed_extension = instance.failure.as_ref().filter(|(code, _)| code.starts_with("VMExtension"));
    let power = match instance.phase {
        Phase::Requested | Phase::Creating => None,
        Phase::Broken => details.power_of_failed.as_deref().or_else(|| failed_extension.map(|_| "running")),
        Phase::Running | Phase::Standby | Phase::Deleting => Some("running"),
    };
    let power = other_power.unwrap_or(power);
    let provisioning = match &instance.failure {
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
