//! EKS managed node groups: the labels, taints and other settings that EKS gives to the nodes of a group that it
//! created.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_eks::types::Nodegroup;
use tokio::time::Instant;

use super::super::sdk::cache::{FAILED_CALL_TTL, FAILED_TTL, NODEGROUP_TTL};
use super::super::sdk::errors::refuses_caller;
use super::Launches;
use super::eks_contact::{DESCRIBE_NODEGROUP, NODEGROUP_PATIENCE};
use super::tags;
use super::volumes::is_bottlerocket;
use crate::cloud::{CloudError, ImageEvidence, ImageFamily, NodeImage, OperatingSystem, Taint, TaintEffect, Unread};
use crate::clouds::windows::{WINDOWS_BUILD_LABEL, windows_build};

/// The label with the name of the node group.
const NODEGROUP_LABEL: &str = "eks.amazonaws.com/nodegroup";

/// The managed node group that an Auto Scaling group belongs to, by the tags EKS gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodegroupKey {
    pub(super) cluster: String,
    pub(super) nodegroup: String,
}

impl NodegroupKey {
    /// Reads the tags.
    pub(super) fn of<'a>(tags: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let (mut cluster, mut nodegroup) = (None, None);
        for (key, value) in tags.filter(|(_, value)| !value.is_empty()) {
            match key {
                "eks:cluster-name" => cluster = Some(value.to_owned()),
                "eks:nodegroup-name" => nodegroup = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(Self { cluster: cluster?, nodegroup: nodegroup? })
    }
}

/// What EKS returns about the nodes of a managed node group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodegroupDetails {
    /// What EKS gives to every node, whatever any tag says.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    /// What the node group's tags state.
    pub(super) tagged_labels: BTreeMap<String, String>,
    pub(super) tagged_taints: Vec<Taint>,
    pub(super) resources: BTreeMap<String, String>,
    /// `None` if the image is the user's own.
    pub(super) operating_system: Option<OperatingSystem>,
    pub(super) bottlerocket: bool,
    /// `None` if the image is the user's own, or runs Windows.
    pub(super) image: Option<NodeImage>,
    pub(super) disk_gib: Option<u64>,
    /// The image is the user's own, so EKS does not limit the pods per node.
    pub(super) custom_image: bool,
    /// Why none of it could be read.
    pub(super) unread: Option<Unread>,
}

/// A managed node group that was read, or that could not be.
#[derive(Clone, Debug)]
pub(super) struct KnownNodegroup {
    details: Arc<NodegroupDetails>,
    /// Since when every attempt has failed, if it was never read.
    failing_since: Option<Instant>,
}

impl Launches {
    /// Describes a managed node group. If it cannot be read again, its last known details are used. If it was never
    /// read, a template waits for it as long as the error may pass, for [`NODEGROUP_PATIENCE`] at most: without its
    /// taints, the group would be scaled up for pods that its nodes reject. After that, or at once if it may not be
    /// read or is gone, the template does without it, as in the in-tree provider: a group without a template could
    /// never grow from zero.
    pub(super) async fn nodegroup(&self, key: &NodegroupKey) -> Arc<NodegroupDetails> {
        if let Some(known) = self.nodegroups.get(key) {
            return known.details;
        }
        let (cluster, nodegroup) = (&key.cluster, &key.nodegroup);
        let read = self.eks_contact.call(nodegroup, self.eks.describe_nodegroup(cluster, nodegroup)).await;
        let missing = || CloudError::not_found(DESCRIBE_NODEGROUP, nodegroup, "EKS returns no node group of this name");
        let (known, ttl) = match read.and_then(|read| read.ok_or_else(missing)) {
            Ok(read) => (KnownNodegroup { details: Arc::new(details(&read)), failing_since: None }, NODEGROUP_TTL),
            Err(error) => self.without_reading(key, &error),
        };
        self.nodegroups.put(key.clone(), known.clone(), ttl);
        known.details
    }

    /// What is known of a managed node group that cannot be read, and for how long that counts.
    fn without_reading(&self, key: &NodegroupKey, error: &CloudError) -> (KnownNodegroup, Duration) {
        let (cluster, nodegroup) = (&key.cluster, &key.nodegroup);
        let before = self.nodegroups.get_expired(key);
        if let Some(known) = before.clone().filter(|known| known.details.unread.is_none()) {
            tracing::warn!(%cluster, %nodegroup, %error, "managed node group cannot be read; using its last known \
                labels and taints");
            return (known, FAILED_TTL);
        }
        let now = Instant::now();
        let failing_since = before.as_ref().and_then(|known| known.failing_since);
        let failing_since = failing_since.into_iter().chain(self.eks_contact.silent_since()).min().unwrap_or(now);
        let was_given_up = before.and_then(|known| known.details.unread.clone()).is_some_and(|one| !one.is_momentary);
        let may_pass = error.may_pass() || refuses_caller(error);
        let is_momentary = may_pass && !was_given_up && now.duration_since(failing_since) < NODEGROUP_PATIENCE;
        if is_momentary || was_given_up {
            tracing::debug!(%cluster, %nodegroup, %error, "managed node group cannot be read at the moment");
        } else {
            tracing::warn!(%cluster, %nodegroup, %error, "managed node group cannot be read with \
                eks:DescribeNodegroup; its template has only the labels and taints of tags and user data");
        }
        let unread =
            Unread { what: format!("managed node group {nodegroup}"), reason: error.to_string(), is_momentary };
        let details = Arc::new(NodegroupDetails {
            // EKS gives every node the name of its node group.
            labels: BTreeMap::from([(NODEGROUP_LABEL.to_owned(), nodegroup.clone())]),
            unread: Some(unread),
            ..NodegroupDetails::default()
        });
        let ttl = if is_momentary { FAILED_CALL_TTL } else { FAILED_TTL };
        (KnownNodegroup { details, failing_since: Some(failing_since) }, ttl)
    }
}

/// Reads a managed node group. The in-tree provider adds `diskSize`, `amiType` and `k8sVersion` as labels, which no
/// real node has, and drops taints without a value (#4998); this does neither.
pub(super) fn details(nodegroup: &Nodegroup) -> NodegroupDetails {
    let ami = nodegroup.ami_type.as_ref().map_or("", |ami| ami.as_str());
    let tags = nodegroup.tags.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let hints = tags::hints(tags, &mut Vec::new());
    let own = nodegroup.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    let mut labels: BTreeMap<String, String> = own.collect();
    if let Some(name) = &nodegroup.nodegroup_name {
        labels.insert(NODEGROUP_LABEL.to_owned(), name.clone());
    }
    if let Some(capacity_type) = &nodegroup.capacity_type {
        labels.insert("eks.amazonaws.com/capacityType".to_owned(), capacity_type.as_str().to_owned());
    }
    let operating_system = operating_system(ami);
    if let Some(build) = windows_build(ami).filter(|_| operating_system == Some(OperatingSystem::Windows)) {
        labels.insert(WINDOWS_BUILD_LABEL.to_owned(), build.to_owned());
    }
    let mut taints: Vec<Taint> = nodegroup.taints().iter().filter_map(taint).collect();
    taints.sort();
    NodegroupDetails {
        labels,
        taints,
        tagged_labels: hints.labels,
        tagged_taints: hints.taints,
        resources: hints.resources,
        operating_system,
        bottlerocket: is_bottlerocket(ami),
        image: ImageFamily::of_ami_type(ami, nodegroup.version.as_deref())
            .map(|family| NodeImage { family, evidence: ImageEvidence::NodeGroup }),
        disk_gib: nodegroup.disk_size.and_then(|gib| u64::try_from(gib).ok()).filter(|gib| *gib > 0),
        custom_image: ami == "CUSTOM",
        unread: None,
    }
}

/// What images of this type run: `AL2_…`, `AL2023_…`, `BOTTLEROCKET_…`, `WINDOWS_…`. `CUSTOM` may be either.
fn operating_system(ami: &str) -> Option<OperatingSystem> {
    match ami {
        _ if ami.starts_with("WINDOWS") => Some(OperatingSystem::Windows),
        _ if ami.starts_with("AL2") || is_bottlerocket(ami) => Some(OperatingSystem::Linux),
        _ => None,
    }
}

fn taint(taint: &aws_sdk_eks::types::Taint) -> Option<Taint> {
    let effect = match taint.effect.as_ref()?.as_str() {
        "NO_SCHEDULE" => TaintEffect::NoSchedule,
        "NO_EXECUTE" => TaintEffect::NoExecute,
        "PREFER_NO_SCHEDULE" => TaintEffect::PreferNoSchedule,
        other => {
            tracing::warn!(effect = other, "taint of a managed node group has an unknown effect; ignoring the taint");
            return None;
        }
    };
    Some(Taint { key: taint.key.clone()?, value: taint.value.clone().unwrap_or_default(), effect })
}

#[cfg(test)]
mod tests {
    use aws_sdk_eks::types as eks;

    use super::*;

    fn eks_taint(key: &str, value: Option<&str>, effect: &str) -> eks::Taint {
        let builder = eks::Taint::builder().key(key).set_value(value.map(str::to_owned));
        builder.effect(eks::TaintEffect::from(effect)).build()
    }

    #[test]
    fn labels_taints_and_resources_of_a_managed_node_group() {
        let nodegroup = Nodegroup::builder()
            .nodegroup_name("workers")
            .capacity_type(eks::CapacityTypes::Spot)
            .ami_type(eks::AmiTypes::BottlerocketX8664)
            .disk_size(80)
            .labels("L1", "v1")
            .labels("L2", "from-eks")
            .tags("k8s.io/cluster-autoscaler/node-template/label/L2", "from-tag")
            .tags("k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage", "80Gi")
            .tags("k8s.io/cluster-autoscaler/node-template/taint/tagged", "x:NoSchedule")
            .tags("k8s.io/cluster-autoscaler/node-template/taint/a", "other:NoSchedule")
            .taints(eks_taint("a", Some("1"), "NO_SCHEDULE"))
            .taints(eks_taint("b", None, "NO_EXECUTE"))
            .taints(eks_taint("c", Some(""), "PREFER_NO_SCHEDULE"))
            .taints(eks_taint("d", Some("x"), "SOMETHING_NEW"))
            .build();
        let details = details(&nodegroup);
        let label = |key: &str| details.labels.get(key).map(String::as_str);
        assert_eq!(label("eks.amazonaws.com/nodegroup"), Some("workers"));
        assert_eq!(label("eks.amazonaws.com/capacityType"), Some("SPOT"));
        assert_eq!((label("L1"), label("L2"), details.labels.len()), (Some("v1"), Some("from-eks"), 4));
        assert_eq!(details.tagged_labels.get("L2").map(String::as_str), Some("from-tag"));
        assert_eq!(details.resources.get("ephemeral-storage").map(String::as_str), Some("80Gi"));
        let shown = |taints: &[Taint]| -> Vec<String> {
            taints.iter().map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect.as_str())).collect()
        };
        assert_eq!(shown(&details.taints), ["a=1:NoSchedule", "b=:NoExecute", "c=:PreferNoSchedule"]);
        let mut tagged = shown(&details.tagged_taints);
        tagged.sort();
        assert_eq!(tagged, ["a=other:NoSchedule", "tagged=x:NoSchedule"]);
        let linux = Some(OperatingSystem::Linux);
        assert_eq!((details.operating_system, details.bottlerocket, details.disk_gib), (linux, true, Some(80)));
        assert!(
            !details.custom_image
                && super::details(&Nodegroup::builder().ami_type("CUSTOM".into()).build()).custom_image
        );
    }

    #[test]
    fn the_type_of_its_image_shows_the_operating_system_unless_the_image_is_the_users() {
        for (ami, system) in [
            ("AL2_x86_64", Some(OperatingSystem::Linux)),
            ("AL2023_ARM_64_STANDARD", Some(OperatingSystem::Linux)),
            ("BOTTLEROCKET_x86_64", Some(OperatingSystem::Linux)),
            ("WINDOWS_CORE_2022_x86_64", Some(OperatingSystem::Windows)),
            ("CUSTOM", None),
            ("", None),
        ] {
            assert_eq!(operating_system(ami), system, "{ami}");
        }
    }

    #[test]
    fn a_managed_node_group_needs_both_tags() {
        let tags = [("eks:cluster-name", "c"), ("eks:nodegroup-name", "n"), ("x", "y")];
        let key = NodegroupKey { cluster: "c".into(), nodegroup: "n".into() };
        assert_eq!(NodegroupKey::of(tags.into_iter()), Some(key));
        assert_eq!(NodegroupKey::of(tags.into_iter().take(1)), None);
    }
}
