//! From a group and its launch spec to a node, in memory and in bytes.

use std::collections::BTreeMap;
use std::fmt::Display;

use prost::Message as _;
use prost::bytes::Bytes;

use super::capacity::{self, NodeResources, Resources};
use super::error::TemplateError;
use super::labels::{self, Labels};
use super::node::{Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta, Quantity, Taint};
use super::overrides::GroupOverrides;
use super::reserved::profile_name;
use super::resource_slices::ResourceSlices;
use super::spread::Spreads;
use crate::cloud::{Family, GroupHints, ImageFamily, LaunchSpec, ReservedProfile, Unread};
use crate::instance_types::{self, Catalog, Provenance, WithProvenance};
use crate::prices::{Offer, family_of, is_spot};

/// The hostname is a label's value, so it has at most 63 characters; the suffix needs 18 of them.
const NAME_STEM_MAX: usize = 45;

/// What a template is built from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The group's ID, as served.
    pub group: &'a str,
    /// The group's name in its cloud, which stays the same whatever ID it is served under.
    pub name: &'a str,
    /// The group's cloud.
    pub family: Family,
    /// The settings in the group's tags.
    pub hints: &'a GroupHints,
    /// What the group launches.
    pub launch: &'a LaunchSpec,
    /// The known figures of instance types.
    pub catalog: &'a Catalog,
    /// The configuration's settings for the group.
    pub overrides: &'a GroupOverrides,
}

/// The node that the Cluster Autoscaler expects a scale-up of the group to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTemplate {
    /// The node.
    pub node: Node,
    /// The node as protobuf (k8s.io core/v1 Node). The same input produces the same bytes.
    pub bytes: Bytes,
    /// The devices of the node as protobuf (k8s.io resource/v1 ResourceSlice), one for each slice.
    pub resource_slices: Vec<Bytes>,
    /// Every value of the node that was decided, in order of path.
    pub values: Vec<Value>,
    /// How a node of the group is bought: the first of several instance types.
    pub offer: Offer,
    /// How much the group's instance types differ, by resource.
    pub spreads: Spreads,
    /// Labels and taints that it lacks because they could not be read.
    pub unread: Option<Unread>,
}

/// One value of a template, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// `reserved.profile`, `capacity.memory`, `allocatable.cpu`, `labels.kubernetes.io/arch`, `taints.gpu:NoSchedule`.
    pub path: String,
    /// The value, as Kubernetes writes it.
    pub value: String,
    /// Where it comes from.
    pub provenance: Provenance,
    /// The next most trusted value, and where it comes from.
    pub runner_up: Option<(String, Provenance)>,
}

/// Builds the template of a group.
pub fn build(input: &Input<'_>) -> Result<NodeTemplate, TemplateError> {
    let profile = profile(input);
    let NodeResources { capacity, allocatable, architecture, spreads } =
        capacity::node_resources(input, profile.value)?;
    let name = node_name(input.group);
    let labels = labels::labels(input, &name, architecture.as_ref())?;
    let taints = labels::taints(input);

    let mut values = vec![value("reserved", "profile", &profile.map(profile_name))];
    values.extend(capacity.iter().map(|(name, quantity)| value("capacity", name, quantity)));
    values.extend(allocatable.iter().map(|(name, quantity)| value("allocatable", name, quantity)));
    values.extend(labels.iter().map(|(key, label)| value("labels", key, label)));
    values.extend(taints.iter().map(|taint| {
        let name = format!("{}:{}", taint.value.key, taint.value.effect.as_str());
        value("taints", &name, &taint.clone().map(|taint| taint.value))
    }));

    let slices = ResourceSlices::of(input);
    values.extend(slices.values());
    let resource_slices = slices.encode(&name);

    let offer = offer(input, &labels);
    let taints = taints.into_iter().map(|WithProvenance { value: taint, .. }| Taint {
        key: Some(taint.key),
        value: Some(taint.value),
        effect: Some(taint.effect.as_str().to_owned()),
    });
    let node = Node {
        metadata: Some(ObjectMeta {
            name: Some(name),
            labels: labels.into_iter().map(|(key, label)| (key, label.value)).collect(),
            annotations: BTreeMap::new(),
        }),
        spec: Some(NodeSpec { taints: taints.collect() }),
        status: Some(NodeStatus {
            capacity: quantities(&capacity),
            allocatable: quantities(&allocatable),
            conditions: conditions(),
        }),
    };
    let unread = input.launch.unread.clone();
    Ok(NodeTemplate { bytes: node.encode_to_vec().into(), node, resource_slices, values, offer, spreads, unread })
}

fn offer(input: &Input<'_>, labels: &Labels) -> Offer {
    let label = |key: &str| labels.get(key).map(|label| label.value.as_str());
    let type_name = input.launch.types.first().cloned().unwrap_or_default();
    Offer {
        // A simulated source has groups of both clouds.
        family: family_of(&type_name).unwrap_or(input.family),
        type_name,
        region: Some(input.launch.region.clone()).filter(|region| !region.is_empty()),
        zone: label("topology.kubernetes.io/zone").map(str::to_owned),
        is_spot: input.launch.is_spot || is_spot(label),
    }
}

/// The rule by which nodes reserve resources. The configuration's wins over the cloud's. Nodes that no cloud service
/// sets up follow OpenShift's rule if their image is of OpenShift, and else that of a plain kubelet.
fn profile(input: &Input<'_>) -> WithProvenance<ReservedProfile> {
    let given = input.overrides.reserved.profile.map(|profile| (profile, Provenance::GroupOverride));
    let images = input.launch.image.iter().chain(&input.launch.images);
    let is_of_openshift = images.map(|image| image.family).any(|family| family == ImageFamily::RedHatCoreOs);
    let of_image = is_of_openshift.then_some(ReservedProfile::OpenShift);
    let of_cloud = input.launch.reserved.or(of_image).map(|profile| (profile, Provenance::Group));
    let default = (ReservedProfile::Kubeadm, Provenance::Default);
    let candidates = given.into_iter().chain(of_cloud).chain(std::iter::once(default.clone()));
    WithProvenance::first(candidates).unwrap_or_else(|| WithProvenance::new(default.0, default.1))
}

fn value<T: Display>(part: &str, name: &str, sourced: &WithProvenance<T>) -> Value {
    Value {
        path: format!("{part}.{name}"),
        value: sourced.value.to_string(),
        provenance: sourced.provenance.clone(),
        runner_up: sourced.runner_up.as_ref().map(|(value, provenance)| (value.to_string(), provenance.clone())),
    }
}

fn quantities(resources: &Resources) -> BTreeMap<String, Quantity> {
    let quantity =
        |resource: &WithProvenance<instance_types::Quantity>| Quantity { string: Some(resource.value.to_string()) };
    resources.iter().map(|(name, resource)| (name.clone(), quantity(resource))).collect()
}

/// The conditions of a healthy node.
fn conditions() -> Vec<NodeCondition> {
    let condition = |kind: &str, status: &str, reason: &str| NodeCondition {
        r#type: Some(kind.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
    };
    vec![
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        condition("NetworkUnavailable", "False", "RouteCreated"),
        condition("Ready", "True", "KubeletReady"),
    ]
}

/// `<group>-template-<hash>`: the same every time, because a label that changes would make two templates of one group
/// differ.
fn node_name(group: &str) -> String {
    let stem = group.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let stem: String = stem.take(NAME_STEM_MAX).collect();
    let stem = stem.trim_matches('-');
    let suffix = stable_hash(group) & 0xffff_ffff;
    format!("{}-template-{suffix:08x}", if stem.is_empty() { "group" } else { stem })
}

/// FNV-1a: the same in every process and release, which the standard library's hash does not promise.
pub(super) fn stable_hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
