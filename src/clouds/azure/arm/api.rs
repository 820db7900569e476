//! All the calls that Headcount makes to Azure Resource Manager. They match the role in `deploy/azure-role.json`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::cloud::{Budget, CloudError, OperationHandle, Progress};
use crate::clouds::azure::throttle::Pace;

/// The permissions that Headcount needs, in the order of `ScaleSetApi`: the custom role. SKUs, usages
/// and operations belong to the subscription, node pools to the resource group of their cluster; everything else can be
/// granted for that of the scale sets.
pub const ROLE_ACTIONS: [&str; 10] = [
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    "Microsoft.Compute/locations/operations/read",
    "Microsoft.Compute/skus/read",
    // Optional: without it, a group is offered up to its own maximum, whatever the quotas leave.
    "Microsoft.Compute/locations/usages/read",
    // Only `headcount check` needs this.
    "Microsoft.Insights/autoscaleSettings/read",
    // Optional: without it, templates of AKS nodes lack what only their pool shows.
    "Microsoft.ContainerService/managedClusters/agentPools/read",
];

/// The permissions that `headcount verify` needs: the custom role in `deploy/azure-role-verify.json`.
pub const VERIFY_ROLE_ACTIONS: [&str; 8] = [
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    "Microsoft.Compute/locations/operations/read",
    "Microsoft.Compute/skus/read",
    // Of flexible scale sets only.
    "Microsoft.Compute/virtualMachines/delete",
];

/// The calls.
#[async_trait]
pub(in crate::clouds::azure) trait ScaleSetApi: Send + Sync {
    /// `virtualMachineScaleSets` LIST of the resource group, all pages. An item that cannot be decoded is
    /// returned by name and does not affect the others.
    async fn list_scale_sets(&self) -> Result<Vec<Result<ScaleSet, BadItem>>, CloudError>;

    /// `virtualMachineScaleSets` GET. `None` if no scale set has that name.
    async fn get_scale_set(&self, name: &str, purpose: ReadPurpose) -> Result<Option<ScaleSet>, CloudError>;

    /// `virtualMachineScaleSets/{name}/virtualMachines` LIST, all pages: uniform sets.
    async fn list_uniform_machines(&self, name: &str, query: MachineQuery) -> Result<MachineList, CloudError>;

    /// `virtualMachines` LIST, filtered by scale set, all pages: flexible sets.
    async fn list_flexible_machines(&self, scale_set_id: &str, query: MachineQuery) -> Result<MachineList, CloudError>;

    /// `virtualMachineScaleSets` PATCH of `sku.capacity`, with `If-Match` where there is an etag. Sends exactly one
    /// request.
    async fn set_capacity(
        &self,
        name: &str,
        etag: Option<&str>,
        to: u32,
    ) -> Result<Option<OperationHandle>, CloudError>;

    /// `virtualMachineScaleSets/{name}/delete` POST of instance IDs (uniform) or VM names (flexible). Sends exactly
    /// one request.
    async fn delete_machines(
        &self,
        name: &str,
        instance_ids: &[String],
        force: bool,
    ) -> Result<Option<OperationHandle>, CloudError>;

    /// `virtualMachines` DELETE: a VM of a flexible scale set, without the scale set. Only `headcount verify` does.
    async fn delete_machine(&self, name: &str) -> Result<(), CloudError>;

    /// Reads the state of an operation once.
    async fn poll(&self, handle: &OperationHandle) -> Result<Progress, CloudError>;

    /// Reads an operation that does not exist, to find out whether operations in this location may be read.
    async fn may_poll(&self, location: &str) -> Result<(), CloudError>;

    /// `skus` LIST, filtered by location, all pages, VM sizes only.
    async fn list_sizes(&self, location: &str) -> Result<Vec<Size>, CloudError>;

    /// `locations/{location}/usages` LIST, all pages.
    async fn list_usages(&self, location: &str) -> Result<Vec<Usage>, CloudError>;

    /// `autoscalesettings` LIST of the resource group (Azure Monitor), all pages.
    async fn list_autoscale_settings(&self) -> Result<Vec<AutoscaleSetting>, CloudError>;

    /// `agentPools` LIST of an AKS cluster, all pages.
    async fn list_agent_pools(&self, cluster: &AksCluster) -> Result<Vec<AgentPool>, CloudError>;

    /// How VM lists that no write waits for are spread over time.
    fn pace(&self) -> Option<&Pace> {
        None
    }

    /// How long no scale-up of a scale set is sent, because Azure has asked for a pause in its reads or writes.
    fn paused_for(&self, _scale_set: &str) -> Option<Duration> {
        None
    }

    /// What remains of the budgets that Azure reports in its responses.
    fn budgets(&self) -> Vec<Budget> {
        Vec::new()
    }
}

/// An item of a list that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::azure) struct BadItem {
    /// Its name, if that can be read.
    pub(in crate::clouds::azure) name: Option<String>,
    /// Why it cannot be decoded.
    pub(in crate::clouds::azure) reason: String,
}

/// The parts of a scale set that Headcount uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct ScaleSet {
    /// ARM ID, as the API returns it.
    pub(in crate::clouds::azure) id: String,
    pub(in crate::clouds::azure) name: String,
    /// `properties.uniqueId`: another one under the same name is another scale set.
    pub(in crate::clouds::azure) unique_id: Option<String>,
    pub(in crate::clouds::azure) location: String,
    pub(in crate::clouds::azure) zones: Vec<String>,
    pub(in crate::clouds::azure) tags: BTreeMap<String, String>,
    /// `sku.name`; `Mix` if the sizes are in `mixed_sizes`.
    pub(in crate::clouds::azure) size: Option<String>,
    /// `sku.capacity`; an unknown capacity is not 0.
    pub(in crate::clouds::azure) capacity: Option<u32>,
    pub(in crate::clouds::azure) etag: Option<String>,
    /// `properties.provisioningState`
    pub(in crate::clouds::azure) provisioning_state: Option<String>,
    pub(in crate::clouds::azure) orchestration: Orchestration,
    /// `properties.skuProfile.vmSizes`
    pub(in crate::clouds::azure) mixed_sizes: Vec<String>,
    /// `properties.singlePlacementGroup`
    pub(in crate::clouds::azure) has_single_placement_group: bool,
    /// `properties.hostGroup` is set.
    pub(in crate::clouds::azure) has_host_group: bool,
    /// `virtualMachineProfile.capacityReservation` names a group of reservations.
    pub(in crate::clouds::azure) has_reservation: bool,
    pub(in crate::clouds::azure) overprovision: bool,
    pub(in crate::clouds::azure) own_changes: OwnChanges,
    /// `virtualMachineProfile.priority` is `Spot` or `Low`.
    pub(in crate::clouds::azure) spot: bool,
    /// `properties.priorityMixPolicy` is set: some of its VMs are regular ones although it is a spot scale set.
    pub(in crate::clouds::azure) mixes_priorities: bool,
    /// `osProfile.windowsConfiguration` is set.
    pub(in crate::clouds::azure) windows: bool,
    /// `storageProfile.osDisk.diskSizeGB`
    pub(in crate::clouds::azure) os_disk_gb: Option<u32>,
    /// `storageProfile.osDisk.diffDiskSettings.option` is `Local`: an ephemeral OS disk.
    pub(in crate::clouds::azure) ephemeral_os_disk: bool,
    /// `storageProfile.osDisk.managedDisk.storageAccountType`
    pub(in crate::clouds::azure) storage_account_type: Option<String>,
    /// `storageProfile.imageReference.id`
    pub(in crate::clouds::azure) image: Option<String>,
    /// `storageProfile.imageReference`: publisher, offer and sku, or the ID in a gallery of others.
    pub(in crate::clouds::azure) image_name: Option<String>,
    /// `hardwareProfile.vmSizeProperties.vCPUsAvailable`: fewer than the size has.
    pub(in crate::clouds::azure) cpus_available: Option<u32>,
    /// `hardwareProfile.vmSizeProperties.vCPUsPerCore` is 1: the cores have one thread each.
    pub(in crate::clouds::azure) has_one_thread_per_core: bool,
    /// The number of IPv4 configurations of the network interface that has the most.
    pub(in crate::clouds::azure) addresses: Option<u32>,
    /// `virtualMachineProfile.securityProfile.securityType`
    pub(in crate::clouds::azure) security_type: Option<String>,
}

/// `properties.orchestrationMode`; scale sets that predate it are uniform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) enum Orchestration {
    #[default]
    Uniform,
    Flexible,
}

/// Why a scale set is read, or its VMs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clouds::azure) enum ReadPurpose {
    /// To find out what has changed: it can wait while a budget is low.
    Refresh,
    /// A write needs it, or a read that has begun.
    Write,
}

/// How VMs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clouds::azure) struct MachineQuery {
    /// With instance view: power states and the reasons of failures. Such a list is slow, and fails when a zone does.
    pub(in crate::clouds::azure) with_view: bool,
    pub(in crate::clouds::azure) purpose: ReadPurpose,
}

/// The VMs of a scale set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct MachineList {
    pub(in crate::clouds::azure) machines: Vec<VirtualMachine>,
    /// VMs that were left out because they have no ID.
    pub(in crate::clouds::azure) without_id: u32,
}

/// The parts of a VM that Headcount uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct VirtualMachine {
    /// ARM ID, as the API returns it; never empty.
    pub(in crate::clouds::azure) id: String,
    /// What a deletion names the VM by: its name (flexible) or instance ID (uniform).
    pub(in crate::clouds::azure) delete_by: String,
    /// `properties.vmId`: another one under the same ID is another VM.
    pub(in crate::clouds::azure) vm_id: Option<String>,
    pub(in crate::clouds::azure) provisioning_state: Option<String>,
    /// `properties.timeCreated`
    pub(in crate::clouds::azure) created: Option<SystemTime>,
    /// Codes of the instance view's statuses, such as `PowerState/running`; `None` without an instance view.
    pub(in crate::clouds::azure) statuses: Option<Vec<InstanceViewStatus>>,
    /// Extensions whose instance view has an error: name and message.
    pub(in crate::clouds::azure) failed_extensions: Vec<InstanceViewStatus>,
}

/// A status of an instance view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct InstanceViewStatus {
    pub(in crate::clouds::azure) code: String,
    pub(in crate::clouds::azure) message: Option<String>,
}

/// The parts of a VM size in the SKU list that Headcount uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct Size {
    pub(in crate::clouds::azure) name: String,
    /// The family whose quota it counts against.
    pub(in crate::clouds::azure) family: Option<String>,
    /// Capabilities by name, values as written.
    pub(in crate::clouds::azure) capabilities: BTreeMap<String, String>,
}

/// A quota of a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct Usage {
    /// `name.value`: a VM family, `cores` or `lowPriorityCores`.
    pub(in crate::clouds::azure) name: String,
    pub(in crate::clouds::azure) used: u64,
    pub(in crate::clouds::azure) limit: u64,
}

/// The parts of an Azure Monitor autoscale setting that Headcount uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct AutoscaleSetting {
    pub(in crate::clouds::azure) name: String,
    /// ARM ID of the resource that it scales.
    pub(in crate::clouds::azure) target: String,
    pub(in crate::clouds::azure) enabled: bool,
}

/// What lets Azure add, replace or remove VMs of a scale set by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct OwnChanges {
    /// `properties.automaticRepairsPolicy`, if it is enabled.
    pub(in crate::clouds::azure) repairs: Option<RepairAction>,
    /// `properties.resiliencyPolicy.automaticZoneRebalancingPolicy.enabled`
    pub(in crate::clouds::azure) zone_balance: bool,
    /// `properties.upgradePolicy.automaticOSUpgradePolicy.enableAutomaticOSUpgrade`
    pub(in crate::clouds::azure) os_upgrades: bool,
    /// `properties.upgradePolicy.mode` is `Rolling`, and `rollingUpgradePolicy.maxSurge` is set.
    pub(in crate::clouds::azure) surge: bool,
    /// `properties.spotRestorePolicy.enabled`
    pub(in crate::clouds::azure) spot_restore: bool,
    /// `properties.resiliencyPolicy.resilientVMCreationPolicy.enabled`
    pub(in crate::clouds::azure) resilient_creation: bool,
    /// `properties.resiliencyPolicy.resilientVMDeletionPolicy.enabled`
    pub(in crate::clouds::azure) resilient_deletion: bool,
}

/// What automatic repairs do with an unhealthy VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clouds::azure) enum RepairAction {
    /// Delete it and create another one: the default.
    Replace,
    /// Keep it, with another disk or after a restart.
    Keep,
}

/// An AKS cluster, as the tags of its scale sets name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::clouds::azure) struct AksCluster {
    /// The resource group of the cluster itself, not of its nodes.
    pub(in crate::clouds::azure) resource_group: String,
    pub(in crate::clouds::azure) name: String,
}

/// The parts of an AKS node pool that Headcount uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct AgentPool {
    pub(in crate::clouds::azure) name: String,
    /// `properties.enableAutoScaling`
    pub(in crate::clouds::azure) is_autoscaled: bool,
    /// `properties.mode`: `System` or `User`.
    pub(in crate::clouds::azure) mode: Option<String>,
    /// `properties.osSKU`: `Ubuntu`, `Ubuntu2404`.
    pub(in crate::clouds::azure) os_sku: Option<String>,
    /// `properties.enableFIPS`
    pub(in crate::clouds::azure) has_fips: bool,
    /// `properties.nodeLabels`
    pub(in crate::clouds::azure) labels: BTreeMap<String, String>,
    /// `properties.nodeTaints`: `key=value:Effect`.
    pub(in crate::clouds::azure) taints: Vec<String>,
    /// `properties.maxPods`
    pub(in crate::clouds::azure) max_pods: Option<u32>,
    /// `properties.kubeletDiskType: Temporary`: the pods' ephemeral storage is on the VM's temporary disk.
    pub(in crate::clouds::azure) is_on_temporary_disk: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(role: &str, expected: &[&str]) {
        let role: serde_json::Value = serde_json::from_str(role).expect("valid JSON");
        let actions = role["Actions"].as_array().expect("actions").iter();
        let actions: Vec<_> = actions.map(|action| action.as_str().expect("text")).collect();
        assert_eq!(actions, expected);
        for nothing in ["NotActions", "DataActions", "NotDataActions"] {
            assert_eq!(role[nothing].as_array().map(Vec::len), Some(0), "{nothing}");
        }
    }

    #[test]
    fn the_role_allows_exactly_the_calls_that_are_made() {
        allows(include_str!("../../../../deploy/azure-role.json"), &ROLE_ACTIONS);
        allows(include_str!("../../../../deploy/azure-role-verify.json"), &VERIFY_ROLE_ACTIONS);
    }
}
