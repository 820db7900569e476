//! Settings of scale sets that work against the Cluster Autoscaler: what else sets their size, and what lets Azure add,
//! replace or remove VMs by itself.

mod by_itself;

use std::collections::{BTreeMap, BTreeSet};

use super::Azure;
use super::arm::{AksCluster, AutoscaleSetting, ScaleSet};
use super::node_pools::{CLUSTERS_MAX, named_by, pool_named};
use crate::cloud::text::shell_word;
use crate::cloud::{AdverseKind, AdverseSetting, AdverseSettings, GroupName};

impl Azure {
    /// Reads the scale sets, the autoscale settings of the resource group and the node pools of AKS. Autoscale settings
    /// in other resource groups are not found.
    pub(super) async fn all_adverse_settings(&self) -> AdverseSettings {
        let mut settings = AdverseSettings::default();
        match self.api.list_autoscale_settings().await {
            Ok(autoscale) => settings.found.extend(autoscale.iter().filter_map(|setting| self.scaled_by(setting))),
            Err(error) => settings.unread.push(error),
        }
        let sets = match self.api.list_scale_sets().await {
            Ok(sets) => sets.into_iter().flatten(),
            Err(error) => {
                settings.unread.push(error);
                return settings;
            }
        };
        let served = sets.filter_map(|set| Some((self.served_name(&set.name)?, set)));
        let served: BTreeMap<GroupName, ScaleSet> = served.collect();
        self.scaled_by_aks(&served, &mut settings).await;
        for (group, set) in &served {
            settings.found.extend(by_itself::of(group, set, &self.settings.resource_group));
        }
        settings
    }

    fn scaled_by(&self, setting: &AutoscaleSetting) -> Option<AdverseSetting> {
        let group = self.target(&setting.target).filter(|_| setting.enabled)?;
        let name = &setting.name;
        Some(AdverseSetting {
            group,
            kind: AdverseKind::Resizes,
            effect: format!(
                "its size is also set by the autoscale setting {name}; the Cluster Autoscaler sees targets that it did \
                 not set, and Azure chooses the VMs to delete"
            ),
            advice: format!(
                "switch it off: az monitor autoscale update --resource-group {} --name {} --enabled false",
                shell_word(&self.settings.resource_group),
                shell_word(name)
            ),
        })
    }

    /// Finds the pools that the autoscaler of AKS also scales.
    async fn scaled_by_aks(&self, served: &BTreeMap<GroupName, ScaleSet>, settings: &mut AdverseSettings) {
        let pools: Vec<(&GroupName, AksCluster, &str)> = served
            .iter()
            .filter_map(|(group, set)| named_by(set).map(|(cluster, pool)| (group, cluster, pool)))
            .collect();
        let clusters: BTreeSet<&AksCluster> = pools.iter().map(|(_, cluster, _)| cluster).collect();
        for cluster in clusters.into_iter().take(CLUSTERS_MAX) {
            let listed = match self.api.list_agent_pools(cluster).await {
                Ok(listed) => listed,
                Err(error) => {
                    settings.unread.push(error);
                    continue;
                }
            };
            let is_autoscaled = |pool: &str| pool_named(&listed, pool).is_some_and(|listed| listed.is_autoscaled);
            let of_cluster = pools.iter().filter(|(_, of, pool)| of == cluster && is_autoscaled(pool));
            settings.found.extend(of_cluster.map(|(group, _, pool)| scaled_by_aks(group, cluster, pool)));
        }
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

fn scaled_by_aks(group: &GroupName, cluster: &AksCluster, pool: &str) -> AdverseSetting {
    AdverseSetting {
        group: group.clone(),
        kind: AdverseKind::Resizes,
        effect: format!(
            "its size is also set by the autoscaler of AKS (enableAutoScaling of node pool {pool}); the Cluster \
             Autoscaler sees targets that it did not set, and nodes go that it did not name"
        ),
        advice: format!(
            "switch it off: az aks nodepool update --resource-group {} --cluster-name {} --name {} \
             --disable-cluster-autoscaler",
            shell_word(&cluster.resource_group),
            shell_word(&cluster.name),
            shell_word(pool)
        ),
    }
}
