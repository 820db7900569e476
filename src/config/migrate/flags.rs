//! How a migration changes the flags of the Cluster Autoscaler.

use crate::cloud::Family;
use crate::cloud::in_tree::{IN_TREE_FLAGS, LABELS_TO_COMPARE};
use crate::config::Provider;
use crate::kubernetes::Flag;

/// Flags that every provider reads, each in its own way.
const PROVIDERS_OWN: [&str; 2] = ["cloud-provider", "cloud-config"];

const IGNORE_LABEL: &str = "balancing-ignore-label";

/// The flags of the new Cluster Autoscaler: Headcount's, and all others as they were.
/// `ignores_no_labels`: the release has no labels that external gRPC could ignore.
pub(super) fn new_flags(provider: Provider, given: &[Flag], ignores_no_labels: bool) -> Vec<String> {
    let mut flags =
        vec!["--cloud-provider=externalgrpc".to_owned(), "--cloud-config=/etc/headcount/cloud-config.yaml".to_owned()];
    let is_dropped = |name: &str| {
        let is_ignored = ignores_no_labels && name == IGNORE_LABEL;
        is_ignored || PROVIDERS_OWN.contains(&name) || IN_TREE_FLAGS.contains(&name)
    };
    let kept = given.iter().filter(|flag| !is_dropped(&flag.name));
    flags.extend(kept.map(|flag| match flag.value() {
        Some(value) => format!("--{}={value}", flag.name),
        None => format!("--{}", flag.name),
    }));
    let compares_all = balances(given) && !given.iter().any(|flag| flag.name == "balancing-label");
    if compares_all && ignores_no_labels {
        flags.extend(LABELS_TO_COMPARE.map(|label| format!("--balancing-label={label}")));
    } else if compares_all {
        let is_given =
            |label: &&&str| given.iter().any(|flag| flag.name == IGNORE_LABEL && flag.value() == Some(**label));
        let family = match provider {
            Provider::Aws => Family::Aws,
            Provider::Azure => Family::Azure,
        };
        let missing = family.labels_ignored_in_tree().iter().filter(|label| !is_given(label));
        flags.extend(missing.map(|label| format!("--{IGNORE_LABEL}={label}")));
    }
    flags
}

/// Whether similar groups are balanced.
pub(super) fn balances(given: &[Flag]) -> bool {
    given.iter().rev().find(|flag| flag.name == "balance-similar-node-groups").is_some_and(Flag::is_on)
}
