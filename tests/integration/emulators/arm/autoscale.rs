//! Autoscale settings of Azure Monitor.

use headcount::clouds::simulated::{RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::{Value, json};

use super::super::backstage::lock;
use super::super::exchange::{Answer, Request};
use super::front::Window;
use super::paging::page;

impl Window {
    pub(super) fn list_autoscale_settings(&self, request: &Request) -> Answer {
        let scope = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers");
        let looks = lock(&self.looks).clone();
        let all = looks.iter().filter_map(|(set, look)| Some((set, look.autoscale.as_ref()?)));
        let settings = all.map(|(set, name)| {
            let target = format!("{scope}/Microsoft.Compute/virtualMachineScaleSets/{set}");
            json!({"name": name, "properties": {"enabled": true, "targetResourceUri": target, "profiles": []}})
        });
        page(request, &settings.collect::<Vec<Value>>(), self.habits().page)
    }
}
