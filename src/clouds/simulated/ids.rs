//! The two forms of provider IDs that simulated instances have.

use super::plan::GroupStyle;
use crate::cloud::{GroupName, ProviderId, Recognition};

/// The subscription of simulated scale sets.
pub const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";
/// The resource group of simulated scale sets.
pub const RESOURCE_GROUP: &str = "demo";

const AWS_SCHEME: &str = "aws:///";
const AZURE_SCHEME: &str = "azure:///";

/// The provider ID that the kubelet of an instance reports.
pub(super) fn provider_id(style: GroupStyle, group: &str, zone: &str, instance: &str) -> ProviderId {
    match style {
        GroupStyle::AutoScaling => format!("{AWS_SCHEME}{zone}/{instance}").into(),
        GroupStyle::ScaleSet => format!(
            "{AZURE_SCHEME}subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/\
             virtualMachineScaleSets/{group}/virtualMachines/{instance}"
        )
        .into(),
    }
}

/// What an ID of the same form begins with, for an instance that does not exist. Its label follows.
pub(super) fn placeholder_prefix(style: GroupStyle, group: &str, zone: &str) -> String {
    let instance = match style {
        GroupStyle::AutoScaling => format!("i-placeholder-{group}-"),
        GroupStyle::ScaleSet => "placeholder-".to_owned(),
    };
    provider_id(style, group, zone, &instance).to_string()
}

/// Whether an ID belongs to a simulated source.
pub(super) fn recognise(id: &str) -> Recognition {
    let lower = id.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix(AWS_SCHEME) {
        return match rest.split_once('/') {
            Some((_, instance)) if instance.starts_with("i-") && !instance.contains('/') => Recognition::Ours,
            _ => Recognition::Foreign,
        };
    }
    if !lower.starts_with(AZURE_SCHEME) {
        return Recognition::Foreign;
    }
    let segments: Vec<&str> = id[AZURE_SCHEME.len()..].split('/').collect();
    let [a, subscription, b, resource_group, c, d, e, group, f, instance] = segments[..] else {
        return Recognition::Foreign;
    };
    let fixed = [
        (a, "subscriptions"),
        (subscription, SUBSCRIPTION),
        (b, "resourceGroups"),
        (resource_group, RESOURCE_GROUP),
        (c, "providers"),
        (d, "Microsoft.Compute"),
        (e, "virtualMachineScaleSets"),
        (f, "virtualMachines"),
    ];
    let ours = fixed.iter().all(|(segment, expected)| segment.eq_ignore_ascii_case(expected));
    if ours && !group.is_empty() && !instance.is_empty() {
        Recognition::OursInGroup(GroupName::from(group))
    } else {
        Recognition::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_recognised_in_any_case() {
        let aws = provider_id(GroupStyle::AutoScaling, "web", "us-east-1a", "i-0123456789abcdef0");
        assert_eq!(aws.as_str(), "aws:///us-east-1a/i-0123456789abcdef0");
        assert_eq!(recognise(&aws.as_str().to_ascii_uppercase()), Recognition::Ours);
        let azure = provider_id(GroupStyle::ScaleSet, "aks-pool", "eastus-1", "7");
        assert_eq!(recognise(azure.as_str()), Recognition::OursInGroup("aks-pool".into()));
        assert_eq!(recognise(&azure.as_str().replace("/demo/", "/DEMO/")), Recognition::OursInGroup("aks-pool".into()));
    }

    #[test]
    fn placeholders_have_the_form_of_instances() {
        assert_eq!(
            recognise(&(placeholder_prefix(GroupStyle::AutoScaling, "web", "us-east-1a") + "x-1")),
            Recognition::Ours
        );
        assert_eq!(
            recognise(&(placeholder_prefix(GroupStyle::ScaleSet, "pool", "eastus-1") + "x-1")),
            Recognition::OursInGroup("pool".into())
        );
    }

    #[test]
    fn other_ids_are_foreign() {
        let other_group = "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/other/providers/\
                           Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/1";
        for id in
            ["", "aws:///us-east-1a", "aws:///us-east-1a/fargate-x", "eks-hybrid:///a/b", "gce://p/z/i", other_group]
        {
            assert_eq!(recognise(id), Recognition::Foreign, "{id}");
        }
    }
}
