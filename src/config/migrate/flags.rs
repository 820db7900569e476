//! How a migration changes the flags of the Cluster Autoscaler.

use crate::cloud::Family;
use crate::cloud::in_tree::IN_TREE_FLAGS;
use crate::config::Provider;
use crate::kubernetes::Flag;

/// Flags that every provider reads, each in its own way.
const PROVIDERS_OWN: [&str; 2] = ["cloud-provider", "cloud-config"];

/// The flags of the new Cluster Autoscaler: Headcount's, and all others as they were.
pub(super) fn new_flags(provider: Provider, given: &[Flag]) -> Vec<String> {
    let mut flags =
        vec!["--cloud-provider=externalgrpc".to_owned(), "--cloud-config=/etc/headcount/cloud-config.yaml".to_owned()];
    let is_dropped = |name: &str| PROVIDERS_OWN.contains(&name) || IN_TREE_FLAGS.contains(&name);
    let kept = given.iter().filter(|flag| !is_dropped(&flag.name));
    flags.extend(kept.map(|flag| match flag.value() {
        Some(value) => format!("--{}={value}", flag.name),
        None => format!("--{}", flag.name),
    }));
    if balances(given) && !given.iter().any(|flag| flag.name == "balancing-label") {
        let is_given = |label: &&&str| {
            given.iter().any(|flag| flag.name == "balancing-ignore-label" && flag.value() == Some(**label))
        };
        let family = match provider {
            Provider::Aws => Family::Aws,
            Provider::Azure => Family::Azure,
        };
        let missing = family.labels_ignored_in_tree().iter().filter(|label| !is_given(label));
        flags.extend(missing.map(|label| format!("--balancing-ignore-label={label}")));
    }
    flags
}

/// Whether similar groups are balanced.
pub(super) fn balances(given: &[Flag]) -> bool {
    given.iter().rev().find(|flag| flag.name == "balance-similar-node-groups").is_some_and(Flag::is_on)
}
