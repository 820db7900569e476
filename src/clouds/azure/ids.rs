//! Provider IDs: `azure://` and the ARM ID of the VM.

use super::arm::Orchestration;
use crate::cloud::{GroupName, ProviderId};

const SCHEME: &str = "azure://";
const PLACEHOLDER: &str = "placeholder-";

/// The provider ID of a VM as its kubelet writes it: the ARM ID, with the resource group name in lower case. Kubernetes
/// lowers that name (kubernetes/kubernetes#74882), and the API returns it in any case.
pub(super) fn provider_id(arm_id: &str) -> ProviderId {
    let mut id = String::with_capacity(SCHEME.len() + arm_id.len());
    id.push_str(SCHEME);
    let mut is_resource_group = false;
    for (position, segment) in arm_id.split('/').enumerate() {
        if position > 0 {
            id.push('/');
        }
        if is_resource_group {
            id.push_str(&segment.to_ascii_lowercase());
        } else {
            id.push_str(segment);
        }
        is_resource_group = segment.eq_ignore_ascii_case("resourceGroups");
    }
    id.into()
}

/// The parts of a provider ID, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParsedId<'a> {
    pub(super) subscription: &'a str,
    pub(super) resource_group: &'a str,
    pub(super) machine: MachineName<'a>,
}

/// How an ID names a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineName<'a> {
    /// A VM of a uniform scale set: the scale set and the instance ID.
    Uniform(&'a str, &'a str),
    /// A VM with a name of its own, in a flexible scale set or in none.
    Standalone(&'a str),
}

impl<'a> MachineName<'a> {
    /// The name that the scale set knows the VM by.
    pub(super) fn in_set(self) -> &'a str {
        match self {
            Self::Uniform(_, instance) => instance,
            Self::Standalone(name) => name,
        }
    }
}

/// Parses an ID in any case; `None` if it does not have the form of an Azure ID.
pub(super) fn parse(id: &str) -> Option<ParsedId<'_>> {
    let scheme = id.get(..SCHEME.len()).filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME))?;
    let segments: Vec<&str> = id.get(scheme.len()..)?.split('/').collect();
    let ["", subscriptions, subscription, resource_groups, resource_group, providers, provider, rest @ ..] =
        segments.as_slice()
    else {
        return None;
    };
    let fixed = [
        (subscriptions, "subscriptions"),
        (resource_groups, "resourceGroups"),
        (providers, "providers"),
        (provider, "Microsoft.Compute"),
    ];
    let is = |segment: &str, expected: &str| segment.eq_ignore_ascii_case(expected);
    if !fixed.iter().all(|(segment, expected)| is(segment, expected)) {
        return None;
    }
    let machine = match rest {
        [sets, set, machines, machine] if is(sets, "virtualMachineScaleSets") && is(machines, "virtualMachines") => {
            (!set.is_empty() && !machine.is_empty()).then_some(MachineName::Uniform(set, machine))?
        }
        [machines, machine] if is(machines, "virtualMachines") => {
            (!machine.is_empty()).then_some(MachineName::Standalone(machine))?
        }
        _ => return None,
    };
    Some(ParsedId { subscription, resource_group, machine })
}

/// What the ID of a placeholder begins with, in the form that VMs of such a scale set have.
pub(super) fn placeholder_prefix(
    kind: Orchestration,
    subscription: &str,
    resource_group: &str,
    group: &GroupName,
) -> String {
    let machine = match kind {
        Orchestration::Uniform => format!("virtualMachineScaleSets/{group}/virtualMachines/{PLACEHOLDER}"),
        Orchestration::Flexible => format!("virtualMachines/{group}-{PLACEHOLDER}"),
    };
    provider_id(&format!(
        "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Compute/{machine}"
    ))
    .to_string()
}

/// The name of a scale set as a key: Azure compares these names without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScaleSetKey(String);

impl ScaleSetKey {
    pub(super) fn new(name: &str) -> Self {
        Self(name.to_ascii_lowercase())
    }
}

impl From<&GroupName> for ScaleSetKey {
    fn from(name: &GroupName) -> Self {
        Self::new(name.as_str())
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    const UNIFORM: &str = "/subscriptions/S-1/resourceGroups/MC_Group/providers/Microsoft.Compute/\
                           virtualMachineScaleSets/aks-Pool-vmss/virtualMachines/7";
    const FLEXIBLE: &str =
        "/subscriptions/S-1/resourcegroups/MC_Group/providers/Microsoft.Compute/virtualMachines/VM_a1";

    #[test]
    fn only_the_resource_group_is_lowered() {
        assert_eq!(
            provider_id(UNIFORM).as_str(),
            "azure:///subscriptions/S-1/resourceGroups/mc_group/providers/Microsoft.Compute/virtualMachineScaleSets/\
             aks-Pool-vmss/virtualMachines/7"
        );
        assert_eq!(
            provider_id(FLEXIBLE).as_str(),
            "azure:///subscriptions/S-1/resourcegroups/mc_group/providers/Microsoft.Compute/virtualMachines/VM_a1"
        );
    }

    #[test]
    fn both_forms_are_read_in_any_case() {
        let uniform = provider_id(UNIFORM).as_str().to_ascii_uppercase();
        let parsed = parse(&uniform).expect("of Azure's form");
        assert_eq!((parsed.subscription, parsed.resource_group), ("S-1", "MC_GROUP"));
        assert_eq!(parsed.machine, MachineName::Uniform("AKS-POOL-VMSS", "7"));
        let flexible = provider_id(FLEXIBLE);
        assert_eq!(parse(flexible.as_str()).map(|parsed| parsed.machine), Some(MachineName::Standalone("VM_a1")));
    }

    #[test]
    fn other_ids_are_not_read() {
        for id in [
            "",
            "azure://",
            "azure:///",
            "aazure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v",
            "kubemark:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v",
            "kwok://node",
            "aws:///us-east-1a/i-1",
            "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v",
            "azure://subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v",
            "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/",
            "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Network/virtualMachines/v",
            "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachineScaleSets/v",
            "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachineScaleSets//virtualMachines/1",
            "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v/x",
            "äzure:///ä",
        ] {
            assert_eq!(parse(id), None, "{id}");
        }
    }
}
