//! What tags say about a group's nodes. Groups and EKS managed node groups use the same keys.

use aws_sdk_autoscaling::types::TagDescription;

use crate::cloud::{GroupHints, SET_ASIDE_TAG, SET_ASIDE_VALUE};
use crate::clouds::node_tag::NodeTag;

const NODE_TEMPLATE: &str = "k8s.io/cluster-autoscaler/node-template/";
/// The prefixes of tags that name a cluster.
const CLUSTERS: [&str; 2] = ["k8s.io/cluster-autoscaler/", "kubernetes.io/cluster/"];
/// Names under these prefixes that do not name a cluster.
const NO_CLUSTERS: [&str; 2] = ["enabled", "disabled"];
/// The prefix of the tags that eksctl sets on its groups.
pub(super) const EKSCTL: &str = "alpha.eksctl.io/";

/// A tag's key and value.
pub(in crate::clouds::aws) fn pair(tag: &TagDescription) -> Option<(&str, &str)> {
    Some((tag.key.as_deref()?, tag.value.as_deref().unwrap_or_default()))
}

/// Whether a tag affects new nodes.
pub(super) fn shapes_nodes(key: &str) -> bool {
    key.starts_with(NODE_TEMPLATE) || key.starts_with("eks:") || key.starts_with(EKSCTL)
}

/// Reads the `node-template` tags. Ignores those that are invalid, and adds a warning for each.
///
/// The in-tree provider also makes a label of every key that contains `eks:`; no real node has those labels.
pub(in crate::clouds::aws) fn hints<'a>(
    tags: impl Iterator<Item = (&'a str, &'a str)>,
    warnings: &mut Vec<String>,
) -> GroupHints {
    let mut hints = GroupHints::default();
    for (key, value) in tags {
        hints.clusters.extend(cluster(key).map(str::to_owned));
        hints.is_set_aside |= key == SET_ASIDE_TAG && value == SET_ASIDE_VALUE;
        let Some((kind, name)) = key.strip_prefix(NODE_TEMPLATE).and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        NodeTag { key, kind, name, value, taints: vec![value] }.add_to(&mut hints, warnings);
    }
    hints.taints.sort();
    hints
}

/// The cluster that a tag names.
fn cluster(key: &str) -> Option<&str> {
    let name = CLUSTERS.iter().find_map(|prefix| key.strip_prefix(prefix))?;
    (!name.is_empty() && !name.contains('/') && !NO_CLUSTERS.contains(&name)).then_some(name)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Taint, TaintEffect};

    fn read(tags: &[(&str, &str)]) -> (GroupHints, Vec<String>) {
        let mut warnings = Vec::new();
        let keyed: Vec<_> = tags.iter().map(|(key, value)| (key.replace('~', NODE_TEMPLATE), *value)).collect();
        let hints = hints(keyed.iter().map(|(key, value)| (key.as_str(), *value)), &mut warnings);
        (hints, warnings)
    }

    #[test]
    fn labels_resources_and_options() {
        let (hints, warnings) = read(&[
            ("~label/foo", "bar"),
            ("~label/example.com/role", "x"),
            ("~label/empty", ""),
            ("eks:nodegroup-name", "bar2"),
            ("eks:cluster-name", "bar4"),
            ("bar", "baz"),
            ("prefix-~label/no", "no"),
            ("~resources/cpu", "100m"),
            ("~resources/nvidia.com/gpu", "1"),
            ("~resources/error-resource", "GG"),
            ("~autoscaling-options/ScaleDownUnneededTime", "1h"),
            ("~autoscaling-options/unknown", "x"),
        ]);
        let pairs = |map: &std::collections::BTreeMap<String, String>| -> Vec<(String, String)> {
            map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let text = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
        };
        assert_eq!(pairs(&hints.labels), text(&[("empty", ""), ("example.com/role", "x"), ("foo", "bar")]));
        let resources = text(&[("cpu", "100m"), ("error-resource", "GG"), ("nvidia.com/gpu", "1")]);
        assert_eq!(pairs(&hints.resources), resources, "quantities are kept as written");
        assert_eq!(pairs(&hints.options), text(&[("scaledownunneededtime", "1h"), ("unknown", "x")]));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn the_clusters_that_tags_name_are_read() {
        let (hints, _) = read(&[
            ("k8s.io/cluster-autoscaler/enabled", "true"),
            ("k8s.io/cluster-autoscaler/prod", "owned"),
            ("kubernetes.io/cluster/prod", "owned"),
            ("~label/team", "web"),
        ]);
        assert_eq!(hints.clusters, ["prod".to_owned()].into());
        let (hints, _) =
            read(&[("k8s.io/cluster-autoscaler/prod", "owned"), ("kubernetes.io/cluster/staging", "owned")]);
        assert_eq!(hints.clusters, ["prod".to_owned(), "staging".to_owned()].into());
    }

    #[test]
    fn taints_must_have_an_effect() {
        let (hints, warnings) = read(&[
            ("~taint/dedicated", "foo:NoSchedule"),
            ("~taint/group", "bar:NoExecute"),
            ("~taint/app", "fizz:PreferNoSchedule"),
            ("~taint/bare", ":NoSchedule"),
            ("~taint/blank", ""),
            ("~taint/nosplit", "some_value"),
            ("~taint/", "x:NoSchedule"),
            ("~taint/two\nlines", "x:NoSchedule"),
            ("~taint/value", "a\u{9b}b:NoSchedule"),
        ]);
        let taint = |key: &str, value: &str, effect| Taint { key: key.into(), value: value.into(), effect };
        assert_eq!(
            hints.taints,
            [
                taint("app", "fizz", TaintEffect::PreferNoSchedule),
                taint("bare", "", TaintEffect::NoSchedule),
                taint("dedicated", "foo", TaintEffect::NoSchedule),
                taint("group", "bar", TaintEffect::NoExecute),
            ]
        );
        assert_eq!(warnings.len(), 5, "{warnings:?}");
    }

    #[test]
    fn labels_that_kubernetes_refuses_are_ignored() {
        let refused = [("~label/a", "x\ny"), ("~label/a\r", "x"), ("~label/b", "\u{85}"), ("~label/c", "two words")];
        let (hints, warnings) = read(&refused);
        assert_eq!((hints.labels.len(), warnings.len()), (0, 4), "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains("Kubernetes ")), "{warnings:?}");
    }
}
