//! Settings of scale sets that work against the Cluster Autoscaler: autoscale settings of Azure Monitor.

use super::Azure;
use super::arm::AutoscaleSetting;
use crate::cloud::text::shell_word;
use crate::cloud::{AdverseSetting, AdverseSettings, GroupName};

impl Azure {
    /// Reads the autoscale settings of the resource group. Settings in other resource groups are not found.
    pub(super) async fn all_adverse_settings(&self) -> AdverseSettings {
        match self.api.list_autoscale_settings().await {
            Ok(settings) => {
                let found = settings.iter().filter_map(|setting| self.scaled_by(setting)).collect();
                AdverseSettings { found, ..AdverseSettings::default() }
            }
            Err(error) => AdverseSettings { unread: vec![error], ..AdverseSettings::default() },
        }
    }

    fn scaled_by(&self, setting: &AutoscaleSetting) -> Option<AdverseSetting> {
        let group = self.target(&setting.target).filter(|_| setting.enabled)?;
        let name = &setting.name;
        Some(AdverseSetting {
            group,
            effect: format!("its size is also set by the autoscale setting {name}"),
            advice: format!(
                "switch it off: az monitor autoscale update --resource-group {} --name {} --enabled false",
                shell_word(&self.settings.resource_group),
                shell_word(name)
            ),
        })
    }

    /// The group that an ARM ID belongs to.
    fn target(&self, id: &str) -> Option<GroupName> {
        let lower = id.to_ascii_lowercase();
        let Self { subscription, settings, .. } = self;
        let scope = format!("/subscriptions/{subscription}/resourcegroups/{}/", settings.resource_group);
        let rest = lower.strip_prefix(&scope.to_ascii_lowercase())?;
        let name = rest.strip_prefix("providers/microsoft.compute/virtualmachinescalesets/")?;
        self.served_name(name.trim_end_matches('/'))
    }
}
