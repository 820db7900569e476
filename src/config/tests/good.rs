//! Files that are as they should be.

use std::time::Duration;

use super::super::{CloudSettings, Config};
use super::parse;
use crate::cloud::ReservedProfile;
use crate::config::settings::simulated;
use crate::fleet::options::Options;
use crate::grpc::dialect::SendPolicy;
use crate::template::Threshold;

#[test]
fn size_and_error_rate_of_a_simulated_source_are_configurable() {
    let text = "sources: [{name: a, simulated: {groups: 500, instances: 10000, errorRate: 0.1, seed: 3}}]";
    let expected = simulated::Settings { seed: 3, groups: 500, instances: 10_000, error_rate: 0.1 };
    assert_eq!(parse(text).expect("good").sources[0].cloud, CloudSettings::Simulated(expected));
}

#[test]
fn omitted_keys_have_defaults() {
    let config = parse("sources: [{name: demo, simulated: {}}]\n").expect("good");
    assert_eq!(config, Config::demo());
    assert_eq!(config.grpc.listen.to_string(), "127.0.0.1:8086");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8087");
    assert_eq!(config.refresh_interval, Duration::from_secs(15));
    assert_eq!(config.grpc.options_since_135, SendPolicy::Suppress);
    assert_eq!((config.gpu_label, config.warnings), (None, Vec::new()));
}

#[test]
fn every_option_and_reservation_is_read() {
    let config = parse(
        r"
sources: [{name: demo, simulated: {seed: 7}}]
gpuLabel: example.com/gpu
grpc: {optionsSince135: send}
groups:
  - match: a
    capacity: {cpu: 2, pods: 58}
    labels: {number: 1}
    reserved:
      profile: aks-legacy
      kubeReserved: {cpu: 100m, memory: 1Gi}
      systemReserved: {memory: 100Mi}
      evictionHard: {memory.available: 100Mi}
    memoryOverhead: 7.5%
    options:
      scaleDownGpuUtilizationThreshold: 1
      scaleDownUnreadyTime: 1h30m
      maxNodeProvisionTime: 90s
      zeroOrMaxNodeScaling: true
      ignoreDaemonSetsUtilization: false
",
    )
    .expect("good");
    assert_eq!(
        config.sources[0].cloud,
        CloudSettings::Simulated(simulated::Settings { seed: 7, ..Default::default() })
    );
    assert_eq!(config.gpu_label.as_deref(), Some("example.com/gpu"));
    assert_eq!(config.grpc.options_since_135, SendPolicy::Send);
    let rule = &config.groups.0[0];
    let amount = |text: &str| text.parse().expect("a quantity");
    assert_eq!(rule.overrides.capacity["cpu"], amount("2"));
    assert_eq!(rule.overrides.labels["number"], "1");
    let reserved = &rule.overrides.reserved;
    assert_eq!(reserved.profile, Some(ReservedProfile::AksLegacy));
    assert_eq!(reserved.kube_reserved["cpu"], amount("100m"));
    assert_eq!(reserved.system_reserved["memory"], amount("100Mi"));
    assert_eq!(reserved.eviction_hard["memory.available"], Threshold::Amount(amount("100Mi")));
    assert_eq!(rule.overrides.memory_overhead, "7.5%".parse().ok());
    let expected = Options {
        scale_down_gpu_utilization_threshold: Some(1.0),
        scale_down_unready_time: Some(Duration::from_secs(5400)),
        max_node_provision_time: Some(Duration::from_secs(90)),
        zero_or_max_node_scaling: Some(true),
        ignore_daemonsets_utilization: Some(false),
        ..Options::default()
    };
    assert_eq!(rule.options, expected);
}

#[test]
fn a_key_without_a_value_counts_as_omitted() {
    let text = "sources: [{name: demo, simulated: {}}]\ngrpc:\nadmin:\nrefreshInterval:\ninstanceTypes:\ngroups:\n";
    assert_eq!(parse(text), Ok(Config::demo()));
}

#[test]
fn texts_need_no_quotes() {
    let text = "sources: [{name: 1, simulated: {}}]\ngroups: [{match: 5, labels: {a: true, b: 1.50, c: 010}}]\n";
    let labels = parse(text).map(|config| config.groups.0[0].overrides.labels.clone()).expect("good");
    assert_eq!(labels.values().collect::<Vec<_>>(), ["true", "1.50", "010"]);
}

#[test]
fn an_alias_stands_for_its_value() {
    let config = parse(
        "sources: [{name: demo, simulated: {}}]\ngroups:\n  - {match: a, labels: &l {team: ml}}\n  - {match: b, \
            labels: *l}\n",
    )
    .expect("good");
    assert_eq!(config.groups.0[0].overrides.labels, config.groups.0[1].overrides.labels);
}

#[test]
fn probable_mistakes_are_warnings() {
    let config = parse("sources:\n  - {name: us, aws: {}}\n").expect("good");
    assert_eq!(
        config.warnings,
        ["source \"us\" has neither nodeGroups nor autoDiscovery, so it never serves a group; add one of them"]
    );
    let config = parse("sources:\n  - {name: us, aws: {nodeGroups: [\"1:10:a\", \"1:9:a\"]}}\n").expect("good");
    assert_eq!(
        config.warnings,
        ["headcount.yaml:2:45: node group \"a\" is listed twice in source \"us\"; the first entry is used"]
    );
    let CloudSettings::Aws(settings) = &config.sources[0].cloud else { panic!("AWS") };
    assert_eq!(settings.node_groups.iter().map(|group| group.max).collect::<Vec<_>>(), [10]);
}

#[test]
fn learning_is_off_by_default() {
    const SOURCES: &str = "sources: [{name: demo, simulated: {}}]";
    let learn = |text: &str| parse(&format!("{text}\n{SOURCES}")).expect("good");
    assert_eq!(learn("").learn, None);
    let idle = learn("learn: {configMap: mine}");
    assert_eq!(idle.learn, None);
    assert_eq!(idle.warnings, ["headcount.yaml:1:20: nothing is learned; set learn.kubernetes to true"]);
    let unused = learn("kubernetes: {allowExec: false}");
    let warning = "headcount.yaml:1:25: the Kubernetes API is not called; set learn.kubernetes, kubernetes.events or \
        kubernetes.taints to true";
    assert_eq!((unused.learn, unused.warnings), (None, vec![warning.to_owned()]));
    let no_kubeconfig = learn("learn: {kubernetes: true}\nkubernetes: {allowExec: true}");
    assert!(no_kubeconfig.warnings[0].contains("2:25: allowExec has no effect without kubernetes.kubeconfig"));
    let settings = learn("learn: {kubernetes: true}").learn.expect("learning");
    assert_eq!((settings.kubeconfig, settings.allow_exec, settings.namespace), (None, false, None));
    assert_eq!(settings.config_map, "headcount-learned");
}
