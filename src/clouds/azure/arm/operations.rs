//! The names of the calls in logs and errors: the operation IDs of Azure's API specification.

/// The names of all calls.
pub(in crate::clouds::azure) const ALL: [&str; 12] = [
    LIST_SCALE_SETS,
    GET_SCALE_SET,
    LIST_UNIFORM_MACHINES,
    LIST_FLEXIBLE_MACHINES,
    UPDATE_SCALE_SET,
    DELETE_INSTANCES,
    GET_OPERATION,
    LIST_SKUS,
    LIST_USAGES,
    LIST_AUTOSCALE_SETTINGS,
    LIST_AGENT_POOLS,
    DELETE_MACHINE,
];

/// Lists the scale sets of the resource group.
pub(in crate::clouds::azure) const LIST_SCALE_SETS: &str = "VirtualMachineScaleSets_List";
/// Reads one scale set.
pub(in crate::clouds::azure) const GET_SCALE_SET: &str = "VirtualMachineScaleSets_Get";
/// Lists the VMs of a uniform scale set.
pub(in crate::clouds::azure) const LIST_UNIFORM_MACHINES: &str = "VirtualMachineScaleSetVMs_List";
/// Lists the VMs of a flexible scale set.
pub(in crate::clouds::azure) const LIST_FLEXIBLE_MACHINES: &str = "VirtualMachines_List";
/// Sets the capacity of a scale set.
pub(in crate::clouds::azure) const UPDATE_SCALE_SET: &str = "VirtualMachineScaleSets_Update";
/// Deletes VMs of a scale set.
pub(in crate::clouds::azure) const DELETE_INSTANCES: &str = "VirtualMachineScaleSets_DeleteInstances";
/// Reads the state of an operation.
pub(in crate::clouds::azure) const GET_OPERATION: &str = "Operations_Get";
/// Lists the VM sizes of a location.
pub(in crate::clouds::azure) const LIST_SKUS: &str = "ResourceSkus_List";
/// Lists the quotas of a location.
pub(in crate::clouds::azure) const LIST_USAGES: &str = "Usage_List";
/// Lists the autoscale settings of the resource group.
pub(in crate::clouds::azure) const LIST_AUTOSCALE_SETTINGS: &str = "AutoscaleSettings_ListByResourceGroup";
/// Lists the node pools of an AKS cluster.
pub(in crate::clouds::azure) const LIST_AGENT_POOLS: &str = "AgentPools_List";
/// Deletes a VM by itself. Only `headcount verify` does.
pub(in crate::clouds::azure) const DELETE_MACHINE: &str = "VirtualMachines_Delete";
