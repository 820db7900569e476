//! Which node groups the Cluster Autoscaler balances with each other, and how the others differ. Follows its
//! `processors/nodegroupset/compare_nodegroups.go`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::autoscaler::Autoscaler;
use crate::instance_types::Quantity;
use crate::template::NodeTemplate;

/// Labels that every release ignores.
const IGNORED_LABELS: [&str; 7] = [
    "kubernetes.io/hostname",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "beta.kubernetes.io/fluentd-ds-ready",
    "kops.k8s.io/instancegroup",
];

/// The flags for how much groups may differ, as a share of the larger value, and their defaults.
const MEMORY_RATIO: (&str, f64) = ("memory-difference-ratio", 0.015);
const ALLOCATABLE_RATIO: (&str, f64) = ("max-allocatable-difference-ratio", 0.05);

/// One node group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Similar {
    /// Its ID.
    pub id: String,
    /// The number of its set: groups of one set are balanced with each other. `None` if it has no template.
    pub set: Option<usize>,
    /// The group of another set that differs least.
    pub nearest: Option<String>,
    /// The first difference between the two that the Cluster Autoscaler finds.
    pub separated_by: Option<String>,
}

/// What a group's nodes are compared by.
struct Compared {
    id: String,
    labels: BTreeMap<String, String>,
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
}

/// Sorts groups into sets.
pub fn similar(groups: &[(String, Option<&NodeTemplate>)], autoscaler: &Autoscaler) -> Vec<Similar> {
    let rule = Rule::of(autoscaler);
    let compared: Vec<Option<Compared>> =
        groups.iter().map(|(id, template)| template.map(|template| Compared::of(id, template))).collect();
    let mut sets: Vec<&Compared> = Vec::new();
    let mut found = Vec::new();
    for ((id, _), group) in groups.iter().zip(&compared) {
        let Some(group) = group else {
            found.push((id, None));
            continue;
        };
        let set = sets.iter().position(|first| rule.differences(first, group).is_empty()).unwrap_or_else(|| {
            sets.push(group);
            sets.len() - 1
        });
        found.push((id, Some((set, group))));
    }
    let result = |(id, set): (&String, Option<(usize, &Compared)>)| {
        let nearest = set.and_then(|(set, group)| {
            let others = sets.iter().enumerate().filter(|(other, _)| *other != set);
            others
                .map(|(_, first)| (first, rule.differences(first, group)))
                .min_by_key(|(_, differences)| differences.len())
        });
        Similar {
            id: id.clone(),
            set: set.map(|(set, _)| set + 1),
            nearest: nearest.as_ref().map(|(first, _)| first.id.clone()),
            separated_by: nearest.and_then(|(_, differences)| differences.into_iter().next()),
        }
    };
    found.into_iter().map(result).collect()
}

/// How groups are compared.
enum Rule {
    /// By these labels alone.
    Labels(BTreeSet<String>),
    /// By resources and by all labels but these.
    AllBut {
        ignored: BTreeSet<String>,
        /// By how much capacities of memory may differ.
        memory: f64,
        /// By how much allocatable resources may differ.
        allocatable: f64,
    },
}

impl Rule {
    fn of(autoscaler: &Autoscaler) -> Self {
        let labels: BTreeSet<String> = autoscaler.balancing_labels().map(str::to_owned).collect();
        if !labels.is_empty() {
            return Self::Labels(labels);
        }
        let ignored = IGNORED_LABELS.into_iter().chain(autoscaler.ignored_labels());
        let ratio = |(flag, default)| autoscaler.ratio(flag).unwrap_or(default);
        Self::AllBut {
            ignored: ignored.map(str::to_owned).collect(),
            memory: ratio(MEMORY_RATIO),
            allocatable: ratio(ALLOCATABLE_RATIO),
        }
    }

    /// All differences between two groups, in the order in which the Cluster Autoscaler compares.
    fn differences(&self, one: &Compared, other: &Compared) -> Vec<String> {
        let pairs = |one: &BTreeMap<String, String>,
                     other: &BTreeMap<String, String>|
         -> Vec<(String, Option<String>, Option<String>)> {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            names.into_iter().map(|name| (name.clone(), one.get(name).cloned(), other.get(name).cloned())).collect()
        };
        let mut differences = Vec::new();
        let shown = |value: Option<String>| value.unwrap_or_else(|| "absent".to_owned());
        let labels = pairs(&one.labels, &other.labels).into_iter().filter(|(_, one, other)| one != other);
        match self {
            Self::Labels(only) => {
                for label in only {
                    let (one, other) = (one.labels.get(label), other.labels.get(label));
                    if one.is_none() || one != other {
                        differences.push(format!(
                            "label {label}: {} and {}",
                            shown(one.cloned()),
                            shown(other.cloned())
                        ));
                    }
                }
            }
            Self::AllBut { ignored, memory, allocatable } => {
                for (name, one, other) in pairs(&one.capacity, &other.capacity) {
                    let ratio = if name == "memory" { *memory } else { 0.0 };
                    if !within(one.as_deref(), other.as_deref(), ratio) {
                        differences.push(format!("capacity {name}: {} and {}", shown(one), shown(other)));
                    }
                }
                for (name, one, other) in pairs(&one.allocatable, &other.allocatable) {
                    if !within(one.as_deref(), other.as_deref(), *allocatable) {
                        differences.push(format!("allocatable {name}: {} and {}", shown(one), shown(other)));
                    }
                }
                for (label, one, other) in labels.filter(|(label, ..)| !ignored.contains(label)) {
                    differences.push(format!("label {label}: {} and {}", shown(one), shown(other)));
                }
            }
        }
        differences
    }
}

/// Whether both quantities exist and differ by at most this share of the larger one.
fn within(one: Option<&str>, other: Option<&str>, ratio: f64) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    #[expect(clippy::cast_precision_loss, reason = "the Cluster Autoscaler compares them as floats, too")]
    let parse = |text: &str| text.parse::<Quantity>().ok().map(|quantity| quantity.whole_millis() as f64);
    match (parse(one), parse(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= one.max(other) * ratio,
        _ => one == other,
    }
}

impl Compared {
    fn of(id: &str, template: &NodeTemplate) -> Self {
        let node = &template.node;
        let metadata = node.metadata.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        Self {
            id: id.to_owned(),
            labels: metadata.labels.into_iter().collect(),
            capacity: status
                .capacity
                .into_iter()
                .map(|(name, quantity)| (name, quantity.string.unwrap_or_default()))
                .collect(),
            allocatable: status
                .allocatable
                .into_iter()
                .map(|(name, quantity)| (name, quantity.string.unwrap_or_default()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::parse_flags;

    fn group(id: &str, memory: &str, labels: &[(&str, &str)]) -> Compared {
        let texts = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let resources: BTreeMap<String, String> = texts(&[("cpu", "2"), ("memory", memory)]);
        Compared { id: id.to_owned(), labels: texts(labels), capacity: resources.clone(), allocatable: resources }
    }

    fn differences(autoscaler: &Autoscaler, one: &Compared, other: &Compared) -> Vec<String> {
        Rule::of(autoscaler).differences(one, other)
    }

    #[test]
    fn the_flags_say_by_how_much_groups_may_differ() {
        let (a, b) = (group("a", "1000Mi", &[]), group("b", "970Mi", &[]));
        let flags = |text: &str| Autoscaler { flags: Some(parse_flags(&[text.to_owned()])), ..Autoscaler::default() };
        assert_eq!(differences(&flags("--v=4"), &a, &b), ["capacity memory: 1000Mi and 970Mi"]);
        assert_eq!(differences(&flags("--memory-difference-ratio=0.03"), &a, &b), [""; 0]);
        assert_eq!(differences(&flags("--memory-difference-ratio=0.029"), &a, &b).len(), 1);
        assert_eq!(differences(&flags("--max-allocatable-difference-ratio=0.01"), &a, &b).len(), 2);
    }

    #[test]
    fn zones_do_not_separate_groups_but_the_clouds_own_zone_labels_do() {
        let a = group("a", "8Gi", &[("topology.kubernetes.io/zone", "a"), ("topology.k8s.aws/zone-id", "use1-az1")]);
        let b = group("b", "8Gi", &[("topology.kubernetes.io/zone", "b"), ("topology.k8s.aws/zone-id", "use1-az2")]);
        assert_eq!(
            differences(&Autoscaler::default(), &a, &b),
            ["label topology.k8s.aws/zone-id: use1-az1 and use1-az2"]
        );
        let flags = |name: &str, value: &str| Autoscaler {
            version: Some((1, 34)),
            flags: Some(parse_flags(&[format!("--{name}={value}")])),
            ..Autoscaler::default()
        };
        let ignoring = flags("balancing-ignore-label", "topology.k8s.aws/zone-id");
        assert_eq!(differences(&ignoring, &a, &b), [""; 0]);
        // In 1.37 the flag has no effect with external gRPC.
        let newer = Autoscaler { version: Some((1, 37)), ..ignoring };
        assert_eq!(differences(&newer, &a, &b).len(), 1);
        assert_eq!(
            differences(&flags("balancing-label", "kubernetes.io/arch"), &a, &b),
            ["label kubernetes.io/arch: absent and absent"]
        );
    }

    #[test]
    fn memory_may_differ_slightly_and_other_capacity_must_be_equal() {
        let of =
            |memory: &str| differences(&Autoscaler::default(), &group("a", "1000Mi", &[]), &group("b", memory, &[]));
        assert_eq!(of("1015Mi"), [""; 0]);
        assert_eq!(of("1016Mi"), ["capacity memory: 1000Mi and 1016Mi"]);
        let gpu =
            Compared { capacity: [("nvidia.com/gpu".to_owned(), "1".to_owned())].into(), ..group("b", "1Gi", &[]) };
        let found = differences(&Autoscaler::default(), &group("a", "1Gi", &[]), &gpu);
        assert!(found.contains(&"capacity nvidia.com/gpu: absent and 1".to_owned()), "{found:?}");
    }
}
