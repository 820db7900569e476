//! A group's launch settings, before anything that they refer to is looked up.

use std::collections::BTreeMap;

use aws_sdk_autoscaling::types::{AutoScalingGroup, LaunchTemplateOverrides, LaunchTemplateSpecification};
use aws_sdk_ec2::types::InstanceRequirementsRequest;

use super::super::sdk::api::TemplateKey;
use super::nodegroups::NodegroupKey;
use super::requirements;
use super::tags::EKSCTL;
use super::{launch_fingerprint, tags};

/// Each of these tags shows that a group's nodes are EKS nodes. `kubernetes.io/cluster/…` does not: kops and others set
/// it as well.
const EKS_TAGS: [&str; 2] = ["eks:cluster-name", "eks:nodegroup-name"];
/// The names of eksctl's tags that eksctl also sets as labels on the nodes.
const EKSCTL_LABELS: [&str; 2] = ["cluster-name", "nodegroup-name"];

/// What a group's own description says about its launches.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::clouds::aws) struct LaunchSettings {
    /// The [`crate::cloud::GroupReading::launch_fingerprint`] of the same description.
    pub(in crate::clouds::aws) launch_fingerprint: u64,
    /// The account that the group is in, as its ARN says.
    pub(in crate::clouds::aws) account: Option<String>,
    pub(super) method: LaunchMethod,
    /// Sorted, without duplicates.
    pub(super) zones: Vec<String>,
    pub(super) nodegroup: Option<NodegroupKey>,
    /// Whether the group's tags show that its nodes are EKS nodes.
    pub(super) eks: bool,
    /// Whether the group's mixed instances policy launches spot instances only.
    pub(super) is_spot: bool,
    /// The labels that eksctl sets on the nodes, known from its tags on the group.
    pub(super) labels: BTreeMap<String, String>,
}

impl LaunchSettings {
    /// The cluster and the name of the EKS managed node group, if it is one.
    pub(in crate::clouds::aws) fn managed_nodegroup(&self) -> Option<(String, String)> {
        self.nodegroup.clone().map(|key| (key.cluster, key.nodegroup))
    }
}

/// What a group launches instances from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LaunchMethod {
    /// A launch configuration.
    Configuration(String),
    /// A launch template, with one option per override. A group without a mixed instances policy has one option, which
    /// overrides nothing.
    Template(Vec<LaunchOption>),
    /// Neither.
    Missing,
}

/// A launch template, and the overrides of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LaunchOption {
    pub(super) template: Option<TemplateVersion>,
    pub(super) instance_type: Option<String>,
    pub(super) requirements: Option<InstanceRequirementsRequest>,
    pub(super) image: Option<String>,
}

/// A version of a launch template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TemplateVersion {
    pub(super) key: TemplateKey,
    pub(super) version: String,
}

impl TemplateVersion {
    fn of(specification: &LaunchTemplateSpecification) -> Option<Self> {
        let id = specification.launch_template_id.clone().map(TemplateKey::Id);
        let key = id.or_else(|| specification.launch_template_name.clone().map(TemplateKey::Name))?;
        // No version means the default one (#1728).
        let version = specification.version.clone().filter(|version| !version.is_empty());
        Some(Self { key, version: version.unwrap_or_else(|| "$Default".to_owned()) })
    }

    /// Whether the version is a number, which always means the same version.
    pub(super) fn is_fixed(&self) -> bool {
        !self.version.starts_with('$')
    }
}

impl LaunchSettings {
    /// The zones that the group launches in.
    pub(in crate::clouds::aws) fn zones(&self) -> &[String] {
        &self.zones
    }

    /// Reads a group.
    pub(in crate::clouds::aws) fn of(group: &AutoScalingGroup) -> Self {
        let mut zones = group.availability_zones().to_vec();
        zones.sort();
        zones.dedup();
        let tags = || group.tags().iter().filter_map(tags::pair);
        let is_label = |key: &str| EKSCTL_LABELS.iter().any(|name| key.strip_prefix(EKSCTL) == Some(*name));
        let labels = tags().filter(|(key, value)| is_label(key) && !value.is_empty());
        Self {
            launch_fingerprint: launch_fingerprint(group),
            account: group.auto_scaling_group_arn().and_then(account).map(str::to_owned),
            method: LaunchMethod::of(group),
            zones,
            nodegroup: NodegroupKey::of(tags()),
            is_spot: is_spot(group),
            eks: tags().any(|(key, _)| EKS_TAGS.contains(&key) || key.starts_with(EKSCTL)),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }
}

/// The account in an ARN.
fn account(arn: &str) -> Option<&str> {
    arn.split(':').nth(4).filter(|account| !account.is_empty())
}

/// Whether the mixed instances policy launches no on-demand instances. Without these settings, all instances are on
/// demand.
pub(super) fn is_spot(group: &AutoScalingGroup) -> bool {
    let policy = group.mixed_instances_policy.as_ref().and_then(|policy| policy.instances_distribution.as_ref());
    policy.is_some_and(|policy| {
        policy.on_demand_base_capacity.unwrap_or_default() == 0
            && policy.on_demand_percentage_above_base_capacity == Some(0)
    })
}

impl LaunchMethod {
    fn of(group: &AutoScalingGroup) -> Self {
        let mixed = group.mixed_instances_policy.as_ref().and_then(|policy| policy.launch_template.as_ref());
        let base = mixed.and_then(|mixed| mixed.launch_template_specification.as_ref());
        let base = base.or(group.launch_template.as_ref()).and_then(TemplateVersion::of);
        match (mixed, base, &group.launch_configuration_name) {
            (Some(mixed), base, _) if !mixed.overrides().is_empty() => {
                Self::Template(mixed.overrides().iter().map(|over| LaunchOption::of(over, base.as_ref())).collect())
            }
            (_, Some(base), _) => {
                Self::Template(vec![LaunchOption { template: Some(base), ..LaunchOption::default() }])
            }
            (_, None, Some(configuration)) => Self::Configuration(configuration.clone()),
            (_, None, None) => Self::Missing,
        }
    }
}

impl LaunchOption {
    fn of(over: &LaunchTemplateOverrides, base: Option<&TemplateVersion>) -> Self {
        let own = over.launch_template_specification.as_ref().and_then(TemplateVersion::of);
        Self {
            template: own.or_else(|| base.cloned()),
            instance_type: over.instance_type.clone(),
            requirements: over.instance_requirements.as_ref().map(requirements::of_group),
            image: over.image_id.clone(),
        }
    }
}
