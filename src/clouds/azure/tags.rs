//! Reads the tags of a scale set. ARM keeps the case of tag names and compares them without regard to case.

use std::collections::BTreeMap;

use crate::cloud::{GroupHints, SET_ASIDE_TAG, SET_ASIDE_VALUE};
use crate::clouds::node_tag::NodeTag;

// Tag names cannot contain a slash, so these are the tag names of other clouds with underscores.
const NODE_TEMPLATE: &str = "k8s.io_cluster-autoscaler_node-template_";
/// Tags of AKS; the first is the newer one.
const AKS_POOL: [&str; 2] = ["aks-managed-poolName", "poolName"];
const AKS: [&str; 2] = ["aks-managed-", "kubernetes.azure.com"];
/// The cluster and its own resource group.
const AKS_CLUSTER: &str = "aks-managed-cluster-name";
const AKS_CLUSTER_GROUP: &str = "aks-managed-cluster-rg";
/// The Kubernetes version of the pool, such as `Kubernetes:1.30.7`.
const AKS_ORCHESTRATOR: [&str; 2] = ["aks-managed-orchestrator", "orchestrator"];
/// Set if the pods of the pool have addresses in an overlay network.
const AKS_OVERLAY: &str = "aks-managed-azure-cni-overlay";

/// The value of a tag. The case of the name does not matter.
pub(super) fn value<'a>(tags: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The AKS node pool of the scale set.
pub(super) fn aks_pool(tags: &BTreeMap<String, String>) -> Option<&str> {
    AKS_POOL.iter().find_map(|name| value(tags, name)).filter(|pool| !pool.is_empty())
}

/// The AKS cluster of the scale set: its resource group and its name.
pub(super) fn aks_cluster(tags: &BTreeMap<String, String>) -> Option<(&str, &str)> {
    let tag = |name| value(tags, name).filter(|value| !value.is_empty());
    Some((tag(AKS_CLUSTER_GROUP)?, tag(AKS_CLUSTER)?))
}

/// Whether AKS created the scale set.
pub(super) fn is_of_aks(tags: &BTreeMap<String, String>) -> bool {
    aks_pool(tags).is_some() || tags.keys().any(|key| starts_as_of_aks(key))
}

fn starts_as_of_aks(key: &str) -> bool {
    AKS.iter().any(|start| strip_prefix(key, start).is_some())
}

/// The Kubernetes minor version of an AKS pool: 30 for `Kubernetes:1.30.7`.
pub(super) fn aks_minor_version(tags: &BTreeMap<String, String>) -> Option<u32> {
    let version = AKS_ORCHESTRATOR.iter().find_map(|name| value(tags, name))?;
    let version = version.rsplit(':').next()?.strip_prefix("1.")?;
    version.split('.').next()?.parse().ok()
}

/// Whether the pods of an AKS pool have addresses in an overlay network.
pub(super) fn has_overlay(tags: &BTreeMap<String, String>) -> bool {
    value(tags, AKS_OVERLAY).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The tag of a scale set whose VMs have one thread in each core.
pub(super) const DISABLES_HYPERTHREADING: &str = "platformsettings.host_environment.disablehyperthreading";

/// Whether a change of this tag changes new nodes.
pub(super) fn shapes_nodes(key: &str) -> bool {
    let named = || AKS_POOL.iter().chain(&AKS_ORCHESTRATOR).any(|name| key.eq_ignore_ascii_case(name));
    let shapes_cpus = key.eq_ignore_ascii_case(DISABLES_HYPERTHREADING);
    strip_prefix(key, NODE_TEMPLATE).is_some() || starts_as_of_aks(key) || shapes_cpus || named()
}

/// Reads the `node-template` tags. Invalid tags are ignored and named in `remarks`.
///
/// The in-tree provider also turns every tag into a label; no real node has those labels.
pub(super) fn hints(tags: &BTreeMap<String, String>, remarks: &mut Vec<String>) -> GroupHints {
    let is_set_aside = self::value(tags, SET_ASIDE_TAG) == Some(SET_ASIDE_VALUE);
    let mut hints = GroupHints { is_set_aside, ..GroupHints::default() };
    for (key, value) in tags {
        let Some((kind, name)) = strip_prefix(key, NODE_TEMPLATE).and_then(|rest| rest.split_once('_')) else {
            continue;
        };
        let kind = &*kind.to_ascii_lowercase();
        let name = &*match kind {
            "autoscaling-options" => name.to_owned(),
            // The in-tree provider decodes this escape differently in resource names.
            "resources" => decode(name, "/"),
            _ => decode(name, "_"),
        };
        // A scale set cannot have two tags of one name, so one tag holds all taints of a key:
        // `a:NoSchedule,b:NoExecute` (#4946).
        let taints = value.split(',').map(str::trim).collect();
        NodeTag { key, kind, name, value, taints }.add_to(&mut hints, remarks);
    }
    hints.taints.sort();
    hints
}

/// `_` stands for a slash, and `~2` for `escaped`.
fn decode(name: &str, escaped: &str) -> String {
    name.replace('_', "/").replace("~2", escaped)
}

fn strip_prefix<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    key.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(prefix))?;
    key.get(prefix.len()..)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Taint, TaintEffect};

    fn read(tags: &[(&str, &str)]) -> (GroupHints, Vec<String>) {
        let mut remarks = Vec::new();
        let tags = tags.iter().map(|(key, value)| (key.replace("~~", NODE_TEMPLATE), (*value).to_owned()));
        (hints(&tags.collect(), &mut remarks), remarks)
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn underscores_of_a_label_become_slashes_and_its_escapes_underscores() {
        let (hints, remarks) = read(&[
            ("~~label_foo", "bar"),
            ("~~label_spam_egg", "x"),
            ("~~label_foo~2bar", ""),
            ("K8S.io_Cluster-Autoscaler_Node-Template_Label_Case", "kept"),
            ("fizz", "buzz"),
            ("poolName", "pool"),
            ("x~~label_no", "no"),
        ]);
        assert_eq!(hints.labels, map(&[("Case", "kept"), ("foo", "bar"), ("foo_bar", ""), ("spam/egg", "x")]));
        assert!(remarks.is_empty(), "{remarks:?}");
    }

    #[test]
    fn taints_have_an_effect_and_several_share_a_tag() {
        let (hints, remarks) = read(&[
            ("~~taint_dedicated", "foo:NoSchedule"),
            ("~~taint_group", "bar:NoExecute"),
            ("~~taint_app", "fizz:PreferNoSchedule"),
            ("~~taint_k8s.io_testing_underscore_to_slash", "fizz:PreferNoSchedule"),
            ("~~taint_two", "a:NoSchedule, :NoExecute"),
            ("~~taint_blank", ""),
            ("~~taint_nosplit", "some_value"),
            ("~~taint_colon", "a:b:NoSchedule"),
            ("bar", "baz"),
        ]);
        let taint = |key: &str, value: &str, effect| Taint { key: key.into(), value: value.into(), effect };
        assert_eq!(
            hints.taints,
            [
                taint("app", "fizz", TaintEffect::PreferNoSchedule),
                taint("dedicated", "foo", TaintEffect::NoSchedule),
                taint("group", "bar", TaintEffect::NoExecute),
                taint("k8s.io/testing/underscore/to/slash", "fizz", TaintEffect::PreferNoSchedule),
                taint("two", "", TaintEffect::NoExecute),
                taint("two", "a", TaintEffect::NoSchedule),
            ]
        );
        assert_eq!(remarks.len(), 3, "{remarks:?}");
    }

    #[test]
    fn resources_and_options_are_kept_as_written() {
        let (hints, remarks) = read(&[
            ("~~resources_cpu", "100m"),
            ("~~resources_memory", "100M"),
            ("~~resources_ephemeral-storage", "20G"),
            ("~~resources_nvidia.com_Tesla-P100-PCIE", "4"),
            ("~~resources_example.com~2a", "1"),
            ("~~autoscaling-options_ScaleDownUtilizationThreshold", "0.2"),
            ("~~autoscaling-options_scaledownunneededtime", "30m"),
            ("~~something_x", "y"),
            ("~~label_", "y"),
        ]);
        let resources = map(&[
            ("cpu", "100m"),
            ("ephemeral-storage", "20G"),
            ("example.com/a", "1"),
            ("memory", "100M"),
            ("nvidia.com/Tesla-P100-PCIE", "4"),
        ]);
        assert_eq!(hints.resources, resources);
        assert_eq!(hints.options, map(&[("scaledownunneededtime", "30m"), ("scaledownutilizationthreshold", "0.2")]));
        assert_eq!(remarks.len(), 2, "{remarks:?}");
    }

    #[test]
    fn tag_names_are_compared_without_case() {
        let tags = map(&[("MIN", "1"), ("PoolName", "old"), ("AKS-Managed-PoolName", "new")]);
        assert_eq!((value(&tags, "min"), value(&tags, "max")), (Some("1"), None));
        assert_eq!(aks_pool(&tags), Some("new"));
        assert!(is_of_aks(&map(&[("Kubernetes.azure.com_set", "x")])));
        assert!(is_of_aks(&map(&[("aks-managed-orchestrator", "x")])) && !is_of_aks(&map(&[("MIN", "1")])));
        for (version, minor) in [
            ("Kubernetes:1.28.5", Some(28)),
            ("Kubernetes:1.30", Some(30)),
            ("1.29.0", Some(29)),
            ("Kubernetes:", None),
            ("DCOS:1.x", None),
        ] {
            assert_eq!(aks_minor_version(&map(&[("AKS-managed-Orchestrator", version)])), minor, "{version}");
            assert_eq!(aks_minor_version(&map(&[("orchestrator", version)])), minor, "{version}");
        }
        assert!(has_overlay(&map(&[("aks-managed-azure-cni-overlay", "true")])) && !has_overlay(&map(&[])));
        assert!(shapes_nodes("Poolname") && shapes_nodes("k8s.io_cluster-autoscaler_node-template_x"));
        assert!(!shapes_nodes("owner"));
    }

    #[test]
    fn labels_and_taints_that_kubernetes_refuses_are_ignored() {
        let (hints, remarks) = read(&[
            ("~~label_a", "x\ny"),
            ("~~label_b\r", "x"),
            ("~~taint_c", "\u{9b}31m:NoSchedule, ok:NoExecute"),
            ("~~taint_d e", "x:NoSchedule"),
        ]);
        assert_eq!((hints.labels.len(), hints.taints.len(), remarks.len()), (0, 1, 4), "{remarks:?}");
    }
}
