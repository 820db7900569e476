//! The Cluster Autoscaler's flags: parsing, and what becomes of each.

use crate::config::Provider;

/// Flags that only in-tree providers read.
const IN_TREE: [&str; 5] =
    ["cloud-provider", "cloud-config", "nodes", "node-group-auto-discovery", "aws-use-static-instance-list"];

/// The labels that the in-tree provider ignores when it compares groups (kubernetes/autoscaler,
/// processors/nodegroupset/aws_nodegroups.go). With externalgrpc, CA knows none of them.
const IGNORED_ON_AWS: [&str; 7] = [
    "alpha.eksctl.io/instance-id",
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
];
/// The same for Azure (azure_nodegroups.go).
const IGNORED_ON_AZURE: [&str; 9] = [
    "agentpool",
    "kubernetes.azure.com/agentpool",
    "topology.disk.csi.azure.com/zone",
    "aksEngineVersion",
    "creationSource",
    "poolName",
    "resourceNameSuffix",
    "kubernetes.azure.com/node-image-version",
    "kubernetes.azure.com/consolidated-additional-properties",
];

/// One flag of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    /// Its name, without dashes.
    pub name: String,
    value: Option<String>,
}

impl Flag {
    /// Its value, if it has one.
    pub(super) fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Whether it is set: a flag without a value is.
    pub(super) fn is_on(&self) -> bool {
        self.value().is_none_or(|value| value != "false")
    }
}

/// Parses arguments as Go's flag package does: `--name=value`, `-name value`, `--switch`. Other arguments are ignored, such as the
/// name of the program.
pub(super) fn parse(arguments: &[String]) -> Vec<Flag> {
    let mut flags = Vec::<Flag>::new();
    let mut words = arguments.iter().map(|word| word.trim()).peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|flag| !flag.is_empty())
        else {
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, words.next_if(|next| !next.starts_with('-')).map(str::to_owned)),
        };
        let value = value.map(|value| value.trim_matches('"').to_owned());
        flags.push(Flag { name: name.to_owned(), value });
    }
    flags
}

/// The flags of the new Cluster Autoscaler: Headcount's, and all others as they were.
pub(super) fn new_flags(provider: Provider, given: &[Flag]) -> Vec<String> {
    let mut flags =
        vec!["--cloud-provider=externalgrpc".to_owned(), "--cloud-config=/etc/headcount/cloud-config.yaml".to_owned()];
    let kept = given.iter().filter(|flag| !IN_TREE.contains(&flag.name.as_str()));
    flags.extend(kept.map(|flag| match flag.value() {
        Some(value) => format!("--{}={value}", flag.name),
        None => format!("--{}", flag.name),
    }));
    if balances(given) && !given.iter().any(|flag| flag.name == "balancing-label") {
        let named = |label: &&str| {
            given.iter().any(|flag| flag.name == "balancing-ignore-label" && flag.value() == Some(*label))
        };
        let labels: &[&str] = match provider {
            Provider::Aws => &IGNORED_ON_AWS,
            Provider::Azure => &IGNORED_ON_AZURE,
        };
        flags.extend(
            labels.iter().filter(|label| !named(label)).map(|label| format!("--balancing-ignore-label={label}")),
        );
    }
    flags
}

/// Whether similar groups are balanced.
pub(super) fn balances(given: &[Flag]) -> bool {
    given.iter().rev().find(|flag| flag.name == "balance-similar-node-groups").is_some_and(Flag::is_on)
}
