//! What a scale set shows of changes that nobody asked for: VMs that Azure adds, replaces or removes by itself.

use super::super::arm::{OwnChanges, RepairAction, ScaleSet};
use crate::cloud::text::shell_word;
use crate::cloud::{AdverseKind, AdverseSetting, GroupName};

/// The settings of one scale set.
pub(super) fn of(group: &GroupName, set: &ScaleSet, resource_group: &str) -> Vec<AdverseSetting> {
    let OwnChanges { repairs, zone_balance, os_upgrades, surge, spot_restore, resilient_creation, resilient_deletion } =
        set.own_changes;
    let upgrade = "upgradePolicy";
    let rows = [
        (
            repairs == Some(RepairAction::Replace),
            "automatic repairs are on: Azure deletes VMs whose application is unhealthy and creates others, without \
             draining their nodes; the Cluster Autoscaler sees nodes go that it did not name",
            "automaticRepairsPolicy.enabled=false".to_owned(),
        ),
        (
            repairs == Some(RepairAction::Keep),
            "automatic repairs are on: Azure restarts or reimages VMs whose application is unhealthy, without draining \
             their nodes; the Cluster Autoscaler sees nodes become unready",
            "automaticRepairsPolicy.enabled=false".to_owned(),
        ),
        (
            zone_balance,
            "automatic zone balance is on: Azure creates VMs in one zone and then deletes VMs in another, without \
             draining their nodes; the Cluster Autoscaler sees more nodes than its target, then nodes go that it did \
             not name",
            "resiliencyPolicy.automaticZoneRebalancingPolicy.enabled=false".to_owned(),
        ),
        (
            os_upgrades,
            "automatic OS upgrades are on: Azure replaces the OS disks of VMs without draining their nodes; the \
             Cluster Autoscaler sees nodes become unready",
            format!("{upgrade}.automaticOSUpgradePolicy.enableAutomaticOSUpgrade=false"),
        ),
        (
            surge,
            "rolling upgrades have surge (maxSurge): Azure adds new VMs, then deletes old ones without draining their \
             nodes; the Cluster Autoscaler sees more nodes than its target, then nodes go that it did not name",
            format!("{upgrade}.rollingUpgradePolicy.maxSurge=false"),
        ),
        (
            spot_restore,
            "try-restore is on (spotRestorePolicy): Azure brings evicted VMs back when it has room; the Cluster \
             Autoscaler sees nodes appear that it has given up, and has replaced",
            "spotRestorePolicy.enabled=false".to_owned(),
        ),
        (
            resilient_creation,
            "resilient VM creation is on: Azure retries failed VMs by itself; the Cluster Autoscaler sees VMs come \
             late, after it has turned to another group",
            "resiliencyPolicy.resilientVMCreationPolicy.enabled=false".to_owned(),
        ),
        (
            resilient_deletion,
            "resilient VM deletion is on: Azure retries failed deletions by itself; the Cluster Autoscaler sees nodes \
             go whose deletion was reported as failed",
            "resiliencyPolicy.resilientVMDeletionPolicy.enabled=false".to_owned(),
        ),
    ];
    let update = format!(
        "az vmss update --resource-group {} --name {} --set",
        shell_word(resource_group),
        shell_word(&set.name)
    );
    let found = rows.into_iter().filter(|(is_on, ..)| *is_on).map(|(_, effect, change)| AdverseSetting {
        group: group.clone(),
        kind: AdverseKind::Replaces,
        effect: effect.to_owned(),
        advice: format!("{update} {change}"),
    });
    found.collect()
}
