//! An example that uses every key is read completely.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::super::{CloudSettings, Config};
use super::bare;
use crate::cloud::{Family, ReservedProfile, Taint, TaintEffect};
use crate::config::settings::simulated;
use crate::fleet::options::Options;
use crate::grpc::dialect::SendPolicy;
use crate::instance_types::resource_slices::Attribute;
use crate::kubernetes;

/// An example that uses every key.
const EXAMPLE: &str = r#"
grpc:
  listen: 127.0.0.1:18086
  tls: {cert: tls.crt, key: tls.key, clientCa: ca.crt, allowedClients: ["cluster-autoscaler"]}
  resourceSlices: send
admin: {listen: 127.0.0.1:18087}
refreshInterval: 30s
idleRefreshInterval: 3m
instanceTypes: [my-table.yaml]
kubernetes: {kubeconfig: kubeconfig, allowExec: true}
learn: {kubernetes: true, namespace: autoscaling, configMap: learned.here}
sources:
  - name: us
    aws:
      region: us-east-1
      endpoint: http://127.0.0.1:5000
      profile: prod
      assumeRole: {arn: "arn:aws:iam::123456789012:role/headcount", externalId: my-id}
      nodeGroups: ["1:10:my-asg"]
      autoDiscovery: ["asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod"]
  - name: eu
    azure:
      cloudConfig: azure.json
      subscriptionId: 0000-1111
      resourceGroup: rg
      endpoint: http://127.0.0.1:9000
      nodeGroups: ["1:10:my-vmss"]
      autoDiscovery: ["label:cluster=prod,min=1,max=10"]
  - name: demo
    simulated: {}
groups:
  - match: "gpu-*"
    capacity: {memory: 16Gi, nvidia.com/gpu: "1"}
    labels: {team: ml}
    taints: ["gpu=true:NoSchedule"]
    reserved: {profile: eks, maxPods: 58}
    options: {scaleDownUtilizationThreshold: 0.6, scaleDownUnneededTime: 20m}
    resourceSlices:
      - {driver: gpu.example.com, devices: [{name: gpu-0, attributes: {index: {int: 0}}, capacity: {memory: {value: 80Gi}}}]}
"#;

fn example() -> Config {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect(name);
    for name in ["tls.crt", "tls.key", "ca.crt", "kubeconfig"] {
        write(name, "PEM");
    }
    write("my-table.yaml", "aws: {c5d.large: {memory: 16Gi}}\n");
    write("azure.json", r#"{"subscriptionId": "of-the-file", "useManagedIdentityExtension": true, "vnetName": "v"}"#);
    let path = directory.path().join("headcount.yaml");
    let mut config = Config::parse(EXAMPLE, &path, &bare).expect("the example is good");
    let relative = |path: &mut std::path::PathBuf| {
        *path = path.strip_prefix(directory.path()).expect("beside headcount.yaml").to_owned();
    };
    let tls = config.grpc.tls.as_mut().expect("TLS");
    [&mut tls.cert, &mut tls.key].into_iter().for_each(relative);
    tls.client_ca.iter_mut().for_each(relative);
    config.learn.iter_mut().filter_map(|learn| learn.kubeconfig.as_mut()).for_each(relative);
    config
}

#[test]
fn the_example_is_read_completely() {
    use crate::cloud::NodeGroupSpec;
    use crate::config::settings::{aws, azure};

    let config = example();
    assert_eq!(config.grpc.listen.to_string(), "127.0.0.1:18086");
    let tls = config.grpc.tls.expect("TLS");
    assert_eq!((tls.cert.as_path(), tls.key.as_path()), (Path::new("tls.crt"), Path::new("tls.key")));
    assert_eq!(tls.client_ca.as_deref(), Some(Path::new("ca.crt")));
    assert_eq!(tls.allowed_clients, ["cluster-autoscaler"]);
    assert_eq!(config.grpc.resource_slices, SendPolicy::Send);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:18087");
    assert_eq!(config.refresh_interval, Duration::from_secs(30));
    assert_eq!(config.idle_refresh_interval, Some(Duration::from_secs(180)));
    assert!(config.instance_types[0].get(Family::Aws, "c5d.large").is_some());
    let learn = kubernetes::Settings {
        kubeconfig: Some("kubeconfig".into()),
        allow_exec: true,
        namespace: Some("autoscaling".into()),
        config_map: "learned.here".into(),
    };
    assert_eq!(config.learn, Some(learn));

    let names = config.sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["us", "eu", "demo"]);
    let tag = |name: &str| (format!("k8s.io/cluster-autoscaler/{name}"), None);
    assert_eq!(
        config.sources[0].cloud,
        CloudSettings::Aws(aws::Settings {
            region: Some("us-east-1".into()),
            endpoint: Some("http://127.0.0.1:5000".into()),
            profile: Some("prod".into()),
            assume_role: Some(aws::AssumeRole {
                arn: "arn:aws:iam::123456789012:role/headcount".into(),
                external_id: Some("my-id".into()),
                session_name: "headcount".into(),
            }),
            node_groups: vec![NodeGroupSpec { min: 1, max: 10, name: "my-asg".into() }],
            auto_discovery: vec![aws::TagQuery { tags: vec![tag("enabled"), tag("prod")] }],
        })
    );
    assert_eq!(
        config.sources[1].cloud,
        CloudSettings::Azure(azure::Settings {
            cloud: azure::AzureCloud::Public,
            endpoint: Some("http://127.0.0.1:9000".into()),
            location: None,
            subscription_id: Some("0000-1111".into()),
            resource_group: "rg".into(),
            credential: Some(azure::Credential::ManagedIdentity { user_assigned: None }),
            node_groups: vec![NodeGroupSpec { min: 1, max: 10, name: "my-vmss".into() }],
            auto_discovery: vec![azure::LabelQuery {
                labels: vec![("cluster".into(), "prod".into())],
                min: Some(1),
                max: Some(10),
            }],
            enable_force_delete: false,
            detailed_extension_messages: false,
            label_predictions: true,
        })
    );
    assert_eq!(config.sources[2].cloud, CloudSettings::Simulated(simulated::Settings::default()));
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(
        config.warnings[0].ends_with("azure.json: these keys have no effect in Headcount: vnetName"),
        "{:?}",
        config.warnings
    );
}

#[test]
fn the_groups_of_the_example_are_read_completely() {
    let [rule] = &example().groups.0[..] else { panic!("one rule") };
    assert!(rule.matches.matches("gpu-a") && !rule.matches.matches("cpu-a"));
    let overrides = &rule.overrides;
    let capacity = [("memory", "16Gi"), ("nvidia.com/gpu", "1")];
    let capacity = capacity.map(|(name, amount)| (name.to_owned(), amount.parse().expect("a quantity")));
    assert_eq!(overrides.capacity, BTreeMap::from(capacity));
    assert_eq!(overrides.labels, BTreeMap::from([("team".to_owned(), "ml".to_owned())]));
    assert_eq!(overrides.taints, [Taint { key: "gpu".into(), value: "true".into(), effect: TaintEffect::NoSchedule }]);
    let [slice] = &overrides.resource_slices[..] else { panic!("one slice") };
    assert_eq!((slice.driver.as_str(), slice.pool.as_str()), ("gpu.example.com", "{node}"));
    assert_eq!(slice.devices[0].attributes["index"], Attribute::Int(0));
    assert_eq!(slice.devices[0].capacity["memory"].value, "80Gi".parse().expect("a quantity"));
    let reserved = &overrides.reserved;
    assert_eq!((reserved.profile, reserved.max_pods), (Some(ReservedProfile::Eks), Some(58)));
    let expected = Options {
        scale_down_utilization_threshold: Some(0.6),
        scale_down_unneeded_time: Some(Duration::from_secs(1200)),
        ..Options::default()
    };
    assert_eq!(rule.options, expected);
}
