//! `groups:`, what the configuration says of single node groups.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::error::ConfigError;
use super::file::{self, Text};
use super::scalar;
use super::yaml::{checked, optional};
use crate::cloud::Taint;

/// What to say of the node groups whose ID matches. Where several rules match, later ones win value by value.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GroupRule {
    /// The ID as served, or a pattern of it: `*` is any text, `?` any letter.
    pub matches: String,
    /// Resources of a node, quantities as written; each replaces what the cloud says.
    pub capacity: BTreeMap<String, String>,
    /// Labels of a node, in addition or instead.
    pub labels: BTreeMap<String, String>,
    /// Taints of a node.
    pub taints: Vec<Taint>,
    /// What a node keeps for itself.
    pub reserved: Option<Reserved>,
    /// How the Cluster Autoscaler treats the group.
    pub options: Options,
}

/// What a node keeps for kubelet and system.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Reserved {
    /// The rule to compute it by.
    pub profile: Option<Profile>,
    /// The kubelet's `maxPods`.
    pub max_pods: Option<u32>,
    /// The kubelet's `kubeReserved`, by resource.
    pub kube_reserved: BTreeMap<String, String>,
    /// The kubelet's `systemReserved`, by resource.
    pub system_reserved: BTreeMap<String, String>,
    /// The kubelet's `evictionHard`, by signal (`memory.available`, `nodefs.available`).
    pub eviction_hard: BTreeMap<String, String>,
}

/// Rules for what a node reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// `eks`
    Eks,
    /// `aks`, from 1.29 on
    Aks,
    /// `aks-legacy`, before 1.29
    AksLegacy,
    /// `kubeadm`
    Kubeadm,
    /// `openshift`
    Openshift,
}

impl Profile {
    const ALL: [Self; 5] = [Self::Eks, Self::Aks, Self::AksLegacy, Self::Kubeadm, Self::Openshift];

    /// The name it has in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eks => "eks",
            Self::Aks => "aks",
            Self::AksLegacy => "aks-legacy",
            Self::Kubeadm => "kubeadm",
            Self::Openshift => "openshift",
        }
    }

    fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|profile| profile.as_str() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            format!("{name:?} is not a profile; write one of {known}")
        })
    }
}

/// `NodeGroupAutoscalingOptions`; the Cluster Autoscaler's own flags decide what is absent.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Options {
    /// From 0 to 1.
    pub scale_down_utilization_threshold: Option<f64>,
    /// From 0 to 1.
    pub scale_down_gpu_utilization_threshold: Option<f64>,
    /// How long a node must be unneeded before it is removed.
    pub scale_down_unneeded_time: Option<Duration>,
    /// How long an unready node must be unneeded before it is removed.
    pub scale_down_unready_time: Option<Duration>,
    /// How long an instance may take to become a node.
    pub max_node_provision_time: Option<Duration>,
    /// Whether the group is scaled to its maximum at once, or to zero.
    pub zero_or_max_node_scaling: Option<bool>,
    /// Whether the pods of daemon sets are left out of a node's utilization.
    pub ignore_daemon_sets_utilization: Option<bool>,
}

/// Checks one entry of `groups:`.
pub(super) fn rule(group: file::Group, path: &Path) -> Result<GroupRule, ConfigError> {
    let matches = checked(&group.matches, path, |text: &String| match text.trim() {
        "" => Err("the pattern is empty; write a group's ID, or a pattern such as gpu-*".to_owned()),
        pattern => Ok(pattern.to_owned()),
    })?;
    Ok(GroupRule {
        matches,
        capacity: quantities(group.capacity, path)?,
        labels: group.labels,
        taints: group
            .taints
            .iter()
            .map(|taint| checked(taint, path, |text| scalar::taint(text)))
            .collect::<Result<_, _>>()?,
        reserved: group.reserved.map(|reserved| self::reserved(reserved, path)).transpose()?,
        options: options(&group.options, path)?,
    })
}

fn reserved(reserved: file::Reserved, path: &Path) -> Result<Reserved, ConfigError> {
    let max_pods = |value: &u32| match *value {
        0 => Err("a node that may run no pod is of no use; write a maxPods of at least 1".to_owned()),
        pods => Ok(pods),
    };
    Ok(Reserved {
        profile: optional(reserved.profile.as_ref(), path, |name| Profile::parse(name))?,
        max_pods: optional(reserved.max_pods.as_ref(), path, max_pods)?,
        kube_reserved: quantities(reserved.kube_reserved, path)?,
        system_reserved: quantities(reserved.system_reserved, path)?,
        eviction_hard: quantities(reserved.eviction_hard, path)?,
    })
}

fn options(options: &file::Options, path: &Path) -> Result<Options, ConfigError> {
    let share = |value: &Option<Spanned<f64>>| optional(value.as_ref(), path, |share| scalar::share(*share));
    let duration = |value: &Option<Text>| optional(value.as_ref(), path, |text| scalar::duration(text));
    Ok(Options {
        scale_down_utilization_threshold: share(&options.scale_down_utilization_threshold)?,
        scale_down_gpu_utilization_threshold: share(&options.scale_down_gpu_utilization_threshold)?,
        scale_down_unneeded_time: duration(&options.scale_down_unneeded_time)?,
        scale_down_unready_time: duration(&options.scale_down_unready_time)?,
        max_node_provision_time: duration(&options.max_node_provision_time)?,
        zero_or_max_node_scaling: options.zero_or_max_node_scaling,
        ignore_daemon_sets_utilization: options.ignore_daemon_sets_utilization,
    })
}

fn quantities(map: BTreeMap<String, Text>, path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    map.into_iter().map(|(name, text)| Ok((name, checked(&text, path, |text| scalar::quantity(text))?))).collect()
}
