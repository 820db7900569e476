//! Decodes what lets Azure add, replace or remove VMs of a scale set by itself.

use serde::Deserialize;

use super::super::api::{OwnChanges, RepairAction};

/// The policies of a scale set's properties, as returned.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawOwnChanges {
    automatic_repairs_policy: Option<RawRepairs>,
    upgrade_policy: Option<RawUpgrade>,
    spot_restore_policy: Option<RawPolicy>,
    resiliency_policy: Option<RawResiliency>,
}

/// A policy that is on or off.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPolicy {
    enabled: Option<bool>,
}

impl RawPolicy {
    fn is_on(policy: Option<Self>) -> bool {
        policy.and_then(|policy| policy.enabled).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRepairs {
    enabled: Option<bool>,
    repair_action: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawUpgrade {
    mode: Option<String>,
    rolling_upgrade_policy: Option<RawRolling>,
    #[serde(rename = "automaticOSUpgradePolicy")]
    automatic_os_upgrade_policy: Option<RawOsUpgrade>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRolling {
    max_surge: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawOsUpgrade {
    #[serde(rename = "enableAutomaticOSUpgrade")]
    enabled: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawResiliency {
    #[serde(rename = "resilientVMCreationPolicy")]
    creation: Option<RawPolicy>,
    #[serde(rename = "resilientVMDeletionPolicy")]
    deletion: Option<RawPolicy>,
    automatic_zone_rebalancing_policy: Option<RawPolicy>,
}

impl From<RawOwnChanges> for OwnChanges {
    fn from(raw: RawOwnChanges) -> Self {
        let repairs = raw.automatic_repairs_policy.filter(|repairs| repairs.enabled == Some(true));
        let upgrade = raw.upgrade_policy.unwrap_or_default();
        let is_rolling = upgrade.mode.is_some_and(|mode| mode.eq_ignore_ascii_case("Rolling"));
        let resiliency = raw.resiliency_policy.unwrap_or_default();
        Self {
            // Without an action, Azure replaces the VM.
            repairs: repairs.map(|repairs| match repairs.repair_action.as_deref() {
                Some(action) if !action.eq_ignore_ascii_case("Replace") => RepairAction::Keep,
                _ => RepairAction::Replace,
            }),
            zone_balance: RawPolicy::is_on(resiliency.automatic_zone_rebalancing_policy),
            os_upgrades: upgrade.automatic_os_upgrade_policy.and_then(|policy| policy.enabled).unwrap_or_default(),
            surge: is_rolling && upgrade.rolling_upgrade_policy.is_some_and(|rolling| rolling.max_surge == Some(true)),
            spot_restore: RawPolicy::is_on(raw.spot_restore_policy),
            resilient_creation: RawPolicy::is_on(resiliency.creation),
            resilient_deletion: RawPolicy::is_on(resiliency.deletion),
        }
    }
}
