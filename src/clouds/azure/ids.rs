//! Provider IDs: `azure://` and the ARM ID of the machine.

use super::arm::Orchestration;
use crate::cloud::{GroupName, ProviderId};

const SCHEME: &str = "azure://";
const PLACEHOLDER: &str = "placeholder-";

/// The ID the kubelet of a machine has: the ARM ID as it is, but for the name of the resource group, which Kubernetes
/// lowers (kubernetes/kubernetes#74882) and the API answers in any case.
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

/// What an ID of Azure's form names, as it is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParsedId<'a> {
    pub(super) subscription: &'a str,
    pub(super) resource_group: &'a str,
    pub(super) machine: MachineName<'a>,
}

/// A machine, as its ID names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineName<'a> {
    /// A machine of a uniform scale set: the set, and the instance ID.
    Uniform(&'a str, &'a str),
    /// A machine with a name of its own, of a flexible scale set or of none.
    Standalone(&'a str),
}

/// Reads an ID in any case; `None` where it is not of Azure's form.
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

/// The ID of a machine that does not exist, in the form that the machines of this kind of scale set have.
pub(super) fn placeholder(
    kind: Orchestration,
    subscription: &str,
    resource_group: &str,
    group: &GroupName,
    label: &str,
) -> ProviderId {
    let machine = match kind {
        Orchestration::Uniform => format!("virtualMachineScaleSets/{group}/virtualMachines/{PLACEHOLDER}{label}"),
        Orchestration::Flexible => format!("virtualMachines/{group}-{PLACEHOLDER}{label}"),
    };
    provider_id(&format!(
        "/subscriptions/{subscription}/resourceGroups/{resource_group}/providers/Microsoft.Compute/{machine}"
    ))
}

/// Under which key a thing is remembered that Azure names in any case.
pub(super) fn fold(text: &str) -> String {
    text.to_ascii_lowercase()
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
