//! Autoscale settings of Azure Monitor.

use headcount::clouds::simulated::{RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::{Value, json};

use super::super::core::lock;
use super::super::http_messages::{HttpResponse, Request};
use super::paging::page;
use super::router::ArmApi;

impl ArmApi {
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
