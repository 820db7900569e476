//! The findings about the Cluster Autoscaler's release, flags and calls.

use std::time::Duration;

use super::{Autoscaler, Calls};
use crate::check::code::Code;
use crate::check::collected::Collected;
use crate::check::finding::Finding;
use crate::check::{DeploymentError, prices};
use crate::cloud::Family;
use crate::cloud::in_tree::{IGNORE_LABEL_GONE, IN_TREE_FLAGS};
use crate::grpc::Dialect;

pub(in crate::check) const SUBJECT: &str = "cluster-autoscaler";

/// The first release that takes instances which never register for a successful scale-up, if they are listed at once.
const SILENT_SUCCESS: (u32, u32) = (1, 36);

/// The Cluster Autoscaler calls every 10 s, in each of its loops. After this long, it is not running or calls another
/// address.
const SILENCE_MAX: Duration = Duration::from_secs(5 * 60);

/// The findings about the Cluster Autoscaler.
pub(in crate::check) fn findings(autoscaler: &Autoscaler, collected: &Collected) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(known(autoscaler));
    findings.extend(autoscaler.calls.as_ref().map(calls));
    findings.extend(autoscaler.server_unread.as_deref().map(no_server));
    findings.extend(options(autoscaler, collected));
    findings.extend(zero_or_max(collected));
    findings.extend(new_instances(autoscaler, collected));
    if autoscaler.flags.is_some() {
        findings.push(provider(autoscaler));
        if autoscaler.uses_prices() == Some(true) {
            findings.push(prices::of_expander(&collected.prices));
        }
        findings.extend(ignored_flags(autoscaler));
        findings.extend(balancing(autoscaler, collected));
    }
    findings
}

/// Whether the release and the flags are known, if there was a place to look for them.
fn known(autoscaler: &Autoscaler) -> Option<Finding> {
    if let Some(origin) = &autoscaler.origin {
        let release = match autoscaler.version {
            Some((major, minor)) => format!("release {major}.{minor}"),
            None => "unknown release".to_owned(),
        };
        let what = format!("{release}, with the flags of {origin}");
        let advice = if autoscaler.version.is_none() { "name the release with --ca-version" } else { "" };
        return Some(Finding::ok(Code::CA_KNOWN, SUBJECT, what, advice));
    }
    let error = autoscaler.unread.as_deref()?;
    let what = format!("its flags are not checked: {error}");
    let elsewhere = "pass its manifest with --ca-deployment, or name its namespace with --ca-namespace";
    let advice = match error {
        DeploymentError::List(error) => format!("{}, or {elsewhere}", error.remedy()),
        DeploymentError::Find { .. } => elsewhere.to_owned(),
    };
    Some(Finding::warning(Code::CA_KNOWN, SUBJECT, what, advice))
}

/// The running server cannot be asked.
fn no_server(reason: &str) -> Finding {
    let advice = "check the address of --server; in a cluster, forward the admin port with kubectl port-forward";
    Finding::warning(Code::CA_CALLS, SUBJECT, format!("whether it calls Headcount is not known: {reason}"), advice)
}

/// Whether it calls the running server.
fn calls(calls: &Calls) -> Finding {
    let Calls { server, age, is_standby, dialect } = calls;
    let Some(age) = age else {
        let advice = "check --cloud-config of the Cluster Autoscaler and its log; a replica that is not the leader \
            calls nothing";
        return Finding::warning(Code::CA_CALLS, SUBJECT, format!("has not called {server} yet"), advice);
    };
    let seconds = age.as_secs();
    if *is_standby || *age > SILENCE_MAX {
        let what = format!("last called {server} {seconds} s ago");
        let advice = "check that it runs and is the leader, and that --cloud-config leads to this server";
        return Finding::warning(Code::CA_CALLS, SUBJECT, what, advice);
    }
    let requests = match dialect {
        Some(dialect) => format!("; its requests are those of release {}", dialect.releases()),
        None => String::new(),
    };
    Finding::ok(Code::CA_CALLS, SUBJECT, format!("last called {server} {seconds} s ago{requests}"), "")
}

/// Whether options of node groups reach it.
fn options(autoscaler: &Autoscaler, collected: &Collected) -> Option<Finding> {
    /// The first release that reads the option `ignoreDaemonSetsUtilization`.
    const DAEMON_SETS_SINCE: (u32, u32) = (1, 33);
    let groups = &collected.groups_with_options;
    let dialect = autoscaler.dialect().filter(|_| !groups.is_empty())?;
    let sent = match dialect {
        Dialect::To128 => {
            Err("releases before 1.29 would read them as zero and delete new nodes, so they are not sent")
        }
        Dialect::From135 if !collected.are_options_sent_since_135 => {
            Err("releases from 1.35 on would count booting nodes as unready, so they are not sent")
        }
        Dialect::From129To133 | Dialect::V134 | Dialect::From135 | Dialect::WithStartup => Ok(()),
    };
    let loses_flag = autoscaler.version.is_some_and(|version| version < DAEMON_SETS_SINCE)
        && autoscaler.switch("ignore-daemonsets-utilization") == Some(true);
    Some(match sent {
        // Its client leaves the option out of what it passes on, and its core takes it from there all the same.
        Ok(()) if loses_flag => {
            let what = format!(
                "does not follow its --ignore-daemonsets-utilization in {}: before 1.33, options of a node group switch it \
                 off",
                groups.join(", ")
            );
            let advice = "remove the options of these groups, or upgrade the Cluster Autoscaler";
            Finding::warning(Code::CA_OPTIONS, SUBJECT, what, advice)
        }
        Ok(()) => Finding::ok(Code::CA_OPTIONS, SUBJECT, "gets the options of node groups", ""),
        Err(reason) => {
            let what = format!("does not get the options set for {}: {reason}", groups.join(", "));
            let advice = "set the flags of the Cluster Autoscaler instead; see options in docs/configuration.md";
            Finding::warning(Code::CA_OPTIONS, SUBJECT, what, advice)
        }
    })
}

/// Groups that the Cluster Autoscaler would never scale down, because of an option.
fn zero_or_max(collected: &Collected) -> Option<Finding> {
    let groups = collected.zero_or_max_groups.join(", ");
    if groups.is_empty() {
        return None;
    }
    let (what, advice) = if collected.is_zero_or_max_sent {
        (
            format!(
                "never scales down {groups}: with external gRPC, it cannot count the nodes of a group with \
                    zeroOrMaxNodeScaling"
            ),
            "remove the option, or grpc.zeroOrMaxNodeScaling: send",
        )
    } else {
        (
            format!("does not get zeroOrMaxNodeScaling of {groups}: with it, it would never scale these groups down"),
            "remove the option; these groups are scaled node by node",
        )
    };
    Some(Finding::warning(Code::ZERO_OR_MAX, SUBJECT, what, advice))
}

/// Instances that are listed at once, although the release may take those that never register for a success. No
/// release is known to have the fix, so a person has to confirm it.
fn new_instances(autoscaler: &Autoscaler, collected: &Collected) -> Option<Finding> {
    let is_unaffected = match autoscaler.version {
        Some(version) => version < SILENT_SUCCESS,
        None => matches!(autoscaler.dialect(), Some(Dialect::To128 | Dialect::From129To133 | Dialect::V134)),
    };
    if is_unaffected || !collected.are_new_listed_at_once {
        return None;
    }
    let release = match autoscaler.version {
        Some((major, minor)) => format!("its release is {major}.{minor}"),
        None => "its release is not known".to_owned(),
    };
    let what = format!(
        "is shown new instances at once (grpc.newInstances: list), and {release}: from 1.36 on, it never backs off a \
         group whose instances never register, unless it has the fix of kubernetes-sigs/cluster-autoscaler#157"
    );
    let advice = "make sure that it has the fix, or remove grpc.newInstances from headcount.yaml and restart Headcount";
    Some(Finding::warning(Code::NEW_INSTANCES, SUBJECT, what, advice))
}

fn provider(autoscaler: &Autoscaler) -> Finding {
    let provider = autoscaler.values("cloud-provider").last().unwrap_or_default();
    if provider == "externalgrpc" {
        return Finding::ok(Code::CA_PROVIDER, SUBJECT, "uses --cloud-provider=externalgrpc", "");
    }
    let what = format!("does not call Headcount: its --cloud-provider is {provider:?}");
    let advice = "set --cloud-provider=externalgrpc and --cloud-config to a file with Headcount's address";
    Finding::error(Code::CA_PROVIDER, SUBJECT, what, advice)
}

fn ignored_flags(autoscaler: &Autoscaler) -> Option<Finding> {
    let ignored: Vec<&str> = IN_TREE_FLAGS.into_iter().filter(|flag| autoscaler.has(flag)).collect();
    (!ignored.is_empty()).then(|| {
        let what = format!("ignores these flags with external gRPC: --{}", ignored.join(", --"));
        let advice = "remove them; headcount.yaml defines the node groups";
        Finding::warning(Code::CA_IGNORED, SUBJECT, what, advice)
    })
}

fn balancing(autoscaler: &Autoscaler, collected: &Collected) -> Option<Finding> {
    if autoscaler.switch("balance-similar-node-groups") != Some(true) {
        return None;
    }
    // With explicit labels, nothing else is compared.
    if autoscaler.balancing_labels().next().is_some() {
        return Some(Finding::ok(Code::CA_BALANCING, SUBJECT, "compares groups by --balancing-label", ""));
    }
    if autoscaler.version.is_some_and(|version| version >= IGNORE_LABEL_GONE) {
        let what = "compares labels that differ between zones: from 1.37 on, --balancing-ignore-label has no effect with \
                    external gRPC";
        let advice = "set --balancing-label=node.kubernetes.io/instance-type and --balancing-label=kubernetes.io/arch";
        return Some(Finding::warning(Code::CA_BALANCING, SUBJECT, what, advice));
    }
    let has = |family: &Family| collected.sources.iter().any(|source| source.family == *family);
    let missing: Vec<String> = [Family::Aws, Family::Azure]
        .into_iter()
        .filter(has)
        .flat_map(Family::labels_ignored_in_tree)
        .filter(|label| !autoscaler.values("balancing-ignore-label").any(|value| value == **label))
        .map(|label| format!("--balancing-ignore-label={label}"))
        .collect();
    if missing.is_empty() {
        let what = "ignores the labels that differ between equal groups";
        return Some(Finding::ok(Code::CA_BALANCING, SUBJECT, what, ""));
    }
    let what = "compares labels that the in-tree provider ignores, so equal groups in different zones are not balanced";
    Some(Finding::warning(Code::CA_BALANCING, SUBJECT, what, format!("add {}", missing.join(" "))))
}
