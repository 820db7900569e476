use std::time::Duration;

use super::*;
use crate::admin::statusz;
use crate::check::ClusterError;
use crate::check::collected::{Collected, CollectedListing, CollectedSource};
use crate::check::finding::Finding;
use crate::cloud::Family;
use crate::kubernetes::{ClusterConfigError, KubernetesError, Operation, parse_flags};

const MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: cluster-autoscaler
          image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.2
          command: [./cluster-autoscaler, --cloud-provider=externalgrpc, --expander, \"least-waste,price\"]
          args: [--balance-similar-node-groups, --nodes=1:2:web]
";

fn of(manifest: &str) -> Autoscaler {
    let mut autoscaler = Autoscaler::default();
    autoscaler.read_manifest(manifest, "ca.yaml").expect("a manifest");
    autoscaler
}

fn lines(autoscaler: &Autoscaler, more: Collected) -> Vec<String> {
    let listed = Ok(CollectedListing::default());
    let source = CollectedSource { name: "us".into(), family: Family::Aws, identity: None, listed };
    let collected = Collected { sources: vec![source], ..more };
    let line = |finding: Finding| format!("{} {} {}", finding.severity, finding.code, finding.sentence());
    findings(autoscaler, &collected).into_iter().map(line).collect()
}

#[track_caller]
fn has(lines: &[String], start: &str, part: &str) {
    assert!(lines.iter().any(|line| line.starts_with(start) && line.contains(part)), "{start} {part}: {lines:#?}");
}

#[test]
fn release_and_flags_are_read_from_the_deployment() {
    let autoscaler = of(MANIFEST);
    assert_eq!(autoscaler.version, Some((1, 34)));
    assert_eq!(autoscaler.values("expander").collect::<Vec<_>>(), ["least-waste,price"]);
    assert_eq!(autoscaler.values("balance-similar-node-groups").collect::<Vec<_>>(), ["true"]);
    let error = Autoscaler::default().read_manifest("kind: Deployment\n", "ca.yaml").expect_err("no container");
    assert!(error.to_string().contains("no container runs cluster-autoscaler"));
}

#[test]
fn flags_that_conflict_are_found() {
    let found = lines(&of(MANIFEST), Collected::default());
    has(&found, "ok HC501", "externalgrpc");
    has(&found, "ok HC502", "--expander=price");
    has(&found, "warning HC503", "--balancing-ignore-label=topology.k8s.aws/zone-id");
    has(&found, "warning HC504", "--nodes");
    has(&found, "ok HC505", "release 1.34, with the flags of ca.yaml");
    assert!(!found.iter().any(|line| line.contains("agentpool")), "there is no Azure source: {found:#?}");
}

#[test]
fn a_switch_is_off_in_every_spelling_that_go_reads() {
    for spelling in ["false", "False", "0"] {
        let off =
            MANIFEST.replace("--balance-similar-node-groups", &format!("--balance-similar-node-groups={spelling}"));
        let found = lines(&of(&off), Collected::default());
        assert!(!found.iter().any(|line| line.contains("HC503")), "{spelling}: {found:#?}");
    }
}

#[test]
fn from_1_37_on_only_balancing_labels_help() {
    let balancing = |manifest: &str| {
        let autoscaler = Autoscaler { version: Some((1, 37)), ..of(manifest) };
        let found = lines(&autoscaler, Collected::default());
        found.into_iter().find(|line| line.contains("HC503")).expect("a finding")
    };
    assert!(balancing(MANIFEST).contains("--balancing-label=node.kubernetes.io/instance-type"));
    let with_label = MANIFEST.replace("--nodes=1:2:web", "--balancing-label=kubernetes.io/arch");
    assert!(balancing(&with_label).starts_with("ok "));
}

#[test]
fn a_deployment_that_cannot_be_read_is_a_warning_with_what_is_lost() {
    let found = |error: DeploymentError| {
        let autoscaler = Autoscaler { unread: Some(Arc::new(error)), ..Autoscaler::default() };
        lines(&autoscaler, Collected::default())
    };
    let (operation, message) = (Operation::ListDeployments, "no".to_owned());
    let denied = found(ClusterError::from(KubernetesError::Forbidden { operation, message }).into());
    has(&denied, "warning HC505", "its flags are not checked: list Deployments: 403");
    has(&denied, "warning HC505", "grant what deploy/kubernetes-rbac.yaml lists, or pass its manifest");
    let nowhere = found(ClusterError::from(Arc::new(ClusterConfigError::Nowhere)).into());
    has(&nowhere, "warning HC505", "the network to it, or pass its manifest");
    let elsewhere = found(DeploymentError::Find { namespace: "kube-system".to_owned() });
    has(&elsewhere, "warning HC505", "no Deployment in the namespace kube-system runs cluster-autoscaler — pass its");
}

#[test]
fn a_server_without_calls_is_a_warning() {
    let after = |age: Option<u64>| {
        let seen = statusz::Autoscaler { age_seconds: age, dialect: Some("1.34".to_owned()), ..Default::default() };
        let mut autoscaler = Autoscaler::default();
        autoscaler.read_server("http://hc", &statusz::Document { autoscaler: seen, ..Default::default() });
        lines(&autoscaler, Collected::default())
    };
    has(&after(Some(12)), "ok HC506", "last called http://hc 12 s ago; its requests are those of release 1.34");
    has(&after(Some(900)), "warning HC506", "900 s ago");
    has(&after(None), "warning HC506", "has not called http://hc yet");
    let unread = Autoscaler { server_unread: Some("connection refused".to_owned()), ..Autoscaler::default() };
    has(&lines(&unread, Collected::default()), "warning HC506", "not known: connection refused");
}

#[test]
fn options_that_the_release_would_misread_are_a_warning() {
    let found = |version, are_options_sent_since_135| {
        let autoscaler = Autoscaler { version: Some(version), ..Autoscaler::default() };
        let groups_with_options = vec!["gpu-*".to_owned()];
        lines(&autoscaler, Collected { groups_with_options, are_options_sent_since_135, ..Collected::default() })
    };
    has(&found((1, 28), false), "warning HC507", "gpu-*: releases before 1.29");
    has(&found((1, 33), false), "ok HC507", "");
    has(&found((1, 36), false), "warning HC507", "booting nodes as unready");
    has(&found((1, 36), true), "ok HC507", "");
}

#[test]
fn a_flag_that_options_switch_off_is_a_warning() {
    let found = |version, flag: &str| {
        let flags = Some(parse_flags(&[flag.to_owned()]));
        let autoscaler = Autoscaler { version: Some(version), flags, ..Autoscaler::default() };
        lines(&autoscaler, Collected { groups_with_options: vec!["gpu-*".to_owned()], ..Collected::default() })
    };
    for flag in ["--ignore-daemonsets-utilization", "--ignore-daemonsets-utilization=true"] {
        has(&found((1, 32), flag), "warning HC507", "--ignore-daemonsets-utilization in gpu-*");
        has(&found((1, 33), flag), "ok HC507", "");
    }
    has(&found((1, 32), "--ignore-daemonsets-utilization=false"), "ok HC507", "");
}

#[test]
fn new_instances_that_are_listed_at_once_need_a_release_with_the_fix() {
    let found = |autoscaler: Autoscaler, are_new_listed_at_once| {
        let found = lines(&autoscaler, Collected { are_new_listed_at_once, ..Collected::default() });
        found.into_iter().filter(|line| line.contains("HC509")).collect::<Vec<_>>()
    };
    let release = |minor| Autoscaler { version: Some((1, minor)), ..Autoscaler::default() };
    let seen = |dialect| {
        let calls = Calls { dialect: Some(dialect), ..Calls::default() };
        Autoscaler { calls: Some(calls), ..Autoscaler::default() }
    };
    has(&found(Autoscaler::default(), true), "warning HC509", "its release is not known");
    has(&found(release(37), true), "warning HC509", "its release is 1.37");
    has(&found(seen(Dialect::From135), true), "warning HC509", "its release is not known");
    for unaffected in [release(35), seen(Dialect::V134)] {
        assert!(found(unaffected, true).is_empty());
    }
    assert!(found(Autoscaler::default(), false).is_empty(), "they are not listed at once");
}

#[test]
fn flags_decide_how_long_a_group_is_backed_off() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!(Autoscaler::default().backoff(), (minutes(5), minutes(30)));
    let set = MANIFEST.replace("--nodes=1:2:web", "--initial-node-group-backoff-duration=2m");
    assert_eq!(of(&set).backoff(), (minutes(2), minutes(30)));
}
