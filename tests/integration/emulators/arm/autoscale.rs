//! Autoscale settings of Azure Monitor, and the node pools of AKS.

use headcount::clouds::simulated::{RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::{Value, json};

use super::super::core::lock;
use super::super::http_messages::{HttpResponse, Request};
use super::super::shown::ShownGroup;
use super::paging::page;
use super::router::ArmApi;

impl ArmApi {
    /// The pools that the tags of scale sets name, of whatever cluster.
    pub(super) fn list_agent_pools(&self, request: &Request) -> HttpResponse {
        let plans = self.core.simulated.world(|world, _| world.groups().map(ShownGroup::of).collect::<Vec<_>>());
        let pools = plans.iter().filter_map(|group| {
            let name = group.plan.tags.get("aks-managed-poolName")?;
            let details = self.group_details(group.name());
            let is_autoscaled = details.aks_autoscales;
            let mut properties = json!({"count": group.capacity, "enableAutoScaling": is_autoscaled, "mode": "User"});
            properties.as_object_mut().expect("an object").extend(details.aks_pool);
            let kind = "Microsoft.ContainerService/managedClusters/agentPools";
            Some(json!({"name": name, "type": kind, "properties": properties}))
        });
        page(request, &pools.collect::<Vec<Value>>(), &self.behavior())
    }

    pub(super) fn list_autoscale_settings(&self, request: &Request) -> HttpResponse {
        let scope = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers");
        let group_details = lock(&self.group_details).clone();
        let all = group_details.iter().filter_map(|(set, details)| Some((set, details.autoscale.as_ref()?)));
        let settings = all.map(|(set, name)| {
            let target = format!("{scope}/Microsoft.Compute/virtualMachineScaleSets/{set}");
            json!({"name": name, "properties": {"enabled": true, "targetResourceUri": target, "profiles": []}})
        });
        page(request, &settings.collect::<Vec<Value>>(), &self.behavior())
    }
}
