//! What a migration changes that no flag expresses.

use super::flags::balances;
use super::{DISCOVERY, InTree, discovery};
use crate::cloud::in_tree::IGNORE_LABEL_GONE;
use crate::config::Provider;
use crate::kubernetes::Flag;

/// Environment variables that Headcount reads, too: what begins so.
const MOVED: [&str; 12] = [
    "AWS_",
    "AZURE_",
    "ARM_",
    "LOCATION",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_",
    "ALL_PROXY",
];

/// What deploy/aws-iam-policy.json limits writes by.
const ENABLED_TAG: &str = "k8s.io/cluster-autoscaler/enabled";

/// The first minor release that reads `grpc_timeout`.
const TIMEOUT_SINCE: u32 = 29;

/// Says what has no counterpart, and what else to know.
pub(super) fn notes(provider: Provider, given: &[Flag], before: &InTree) -> Vec<String> {
    let mut notes = vec![
        "Only Headcount calls the cloud: give the role to its container, and take it from the Cluster \
         Autoscaler."
            .to_owned(),
        "The IDs of node groups stay the same, and so do the expander's configuration and the Lease. Stop the old \
         Cluster Autoscaler, or let the Lease exclude it: never run both with different leases."
            .to_owned(),
    ];
    let has = |name: &str| given.iter().any(|flag| flag.name == name);
    notes.extend(moved(before));
    if !before.environment_from.is_empty() {
        notes.push(format!(
            "Give Headcount's container the same envFrom, if credentials or settings of the cloud come from it: {}.",
            before.environment_from.join(", ")
        ));
    }
    notes.extend(before.arguments.iter().filter(|word| word.contains("$(")).map(|word| {
        format!("The manifest does not show what {word} is in the container. headcount.yaml needs the value itself.")
    }));
    if has("aws-use-static-instance-list") {
        notes.push(
            "--aws-use-static-instance-list has no counterpart: Headcount looks instance types up, and uses its \
             built-in tables where it cannot."
                .to_owned(),
        );
    }
    if provider == Provider::Aws && has("nodes") {
        notes.push(format!(
            "The IAM policy permits writes only to groups with the tag {ENABLED_TAG}: \"true\". Set it on the groups of \
             --nodes, or change the condition."
        ));
    }
    if provider == Provider::Aws && has("cloud-config") {
        notes.push(
            "--cloud-config of AWS has no counterpart: set endpoint: in headcount.yaml, or \
             AWS_ENDPOINT_URL_AUTO_SCALING and the like in Headcount's environment."
                .to_owned(),
        );
    }
    if provider == Provider::Azure && has("cloud-config") {
        notes.push(
            "The file of --cloud-config is now read by Headcount: mount it into Headcount's container, readable by its \
             user."
                .to_owned(),
        );
    }
    let specs: Vec<_> = given.iter().filter(|flag| flag.name == DISCOVERY).filter_map(Flag::value).collect();
    if specs.len() > 1 && discovery::joined(provider, &specs).len() == 1 {
        notes.push(
            "The in-tree provider serves groups that match all specs of --node-group-auto-discovery. They are one entry of \
             autoDiscovery: now, since Headcount serves groups that match any entry."
                .to_owned(),
        );
    }
    if !has("nodes") && !has(DISCOVERY) {
        notes.push(
            "There are no groups: add --nodes or --node-group-auto-discovery, or nodeGroups: to headcount.yaml."
                .to_owned(),
        );
    }
    let release = before.release.as_deref().and_then(minor);
    if balances(given) && !has("balancing-label") {
        let text = match (release, ignores_no_labels(before)) {
            (_, true) => {
                "Cluster Autoscaler 1.37 and later ignore --balancing-ignore-label with externalgrpc; \
                 --balancing-label takes its place. Groups are then compared by these labels alone: add each label \
                 that pods select nodes by."
            }
            (None, false) => {
                "Cluster Autoscaler 1.37 ignores --balancing-ignore-label with externalgrpc. There, name the labels to \
                 compare instead: --balancing-label=node.kubernetes.io/instance-type \
                 --balancing-label=kubernetes.io/arch, and each label that pods select nodes by."
            }
            (Some(_), false) => "",
        };
        notes.extend((!text.is_empty()).then(|| text.to_owned()));
    }
    if release.is_some_and(|minor| minor < TIMEOUT_SINCE) {
        notes.push("This release ignores grpc_timeout and always waits 5 s.".to_owned());
    }
    let values = |name: &'static str| given.iter().filter(move |flag| flag.name == name).filter_map(Flag::value);
    if values("expander").any(|expander| expander.split(',').any(|part| part == "price")) {
        notes.push("Read docs/prices.md before you keep --expander=price.".to_owned());
    }
    if before.environment.get("ARM_VM_TYPE").and_then(Option::as_deref).is_some_and(|vm_type| vm_type != "vmss") {
        notes.push(
            "ARM_VM_TYPE: Headcount serves only scale sets (vmss); other kinds of nodes are not scaled.".to_owned(),
        );
    }
    notes
}

/// Names the variables to move to Headcount's container.
fn moved(before: &InTree) -> Option<String> {
    let names: Vec<&str> = before
        .environment
        .keys()
        .map(String::as_str)
        .filter(|name| MOVED.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    (!names.is_empty())
        .then(|| format!("Move these variables to Headcount's container, which reads them, too: {}.", names.join(", ")))
}

/// Whether the release is known to ignore `--balancing-ignore-label`.
pub(super) fn ignores_no_labels(before: &InTree) -> bool {
    before.release.as_deref().and_then(minor).is_some_and(|minor| minor >= IGNORE_LABEL_GONE.1)
}

/// The minor release of an image's tag, such as 34 of v1.34.1.
fn minor(tag: &str) -> Option<u32> {
    tag.trim_start_matches('v').split('.').nth(1)?.parse().ok()
}
