//! Random and damaged files.

use proptest::prelude::*;
use serde_json::json;

use super::super::{Arguments, CloudSettings, Provider};
use super::*;
use crate::properties::{Written, config, costly, json, pieces, slipped, spoiled};

const GOOD: &str = r#"grpc: {listen: "127.0.0.1:8086", optionsSince135: send}
admin: {listen: 127.0.0.1:8087}
refreshInterval: 15s
gpuLabel: gpu
sources:
  - name: us
    aws:
      region: us-east-1
      nodeGroups: ["1:10:my-asg"]
      autoDiscovery: ["asg:tag=k8s.io/cluster-autoscaler/enabled"]
  - name: eu
    azure:
      subscriptionId: 0000
      resourceGroup: rg
      authMethod: cli
      autoDiscovery: ["label:cluster=prod,min=1,max=10"]
groups:
  - match: "gpu-*"
    capacity: {memory: 16Gi, nvidia.com/gpu: "1"}
    taints: ["gpu=true:NoSchedule"]
    reserved: {profile: eks, maxPods: 58, evictionHard: {memory.available: 10%}}
    options: {scaleDownUtilizationThreshold: 0.6, scaleDownUnneededTime: 20m}
"#;
const PIECES: [&str; 18] = [
    "sources:",
    "\n",
    "\n  - ",
    "name: a",
    "aws:",
    "azure:",
    "simulated:",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "groups:",
    "match: x",
    "!!int ",
];

/// The invariants of an accepted configuration.
fn is_sound(config: &Config) -> bool {
    let ordered = config.sources.iter().all(|source| match &source.cloud {
        CloudSettings::Aws(settings) => settings.node_groups.iter().all(|group| group.min <= group.max),
        CloudSettings::Azure(settings) => settings.node_groups.iter().all(|group| group.min <= group.max),
        CloudSettings::Simulated(_) => true,
    });
    let seconds = config.refresh_interval.as_secs();
    ordered && !config.sources.is_empty() && (1..=600).contains(&seconds)
}

/// An error names the file and quotes no more than the text has.
fn is_good_error(text: &str, error: &ConfigError) -> bool {
    let message = error.to_string();
    message.contains("headcount.yaml") && message.len() < 1000 + 6 * text.len()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_a_configuration_or_an_error(text in pieces(&PIECES)) {
        match parse(&text) {
            Ok(config) => prop_assert!(is_sound(&config), "{:?}", config),
            Err(error) => prop_assert!(is_good_error(&text, &error), "{}", error),
        }
    }

    #[test]
    fn an_in_tree_file_is_read_or_rejected(
        Written(text) in prop_oneof![
            4 => spoiled(json!({
                "cloud": "AzurePublicCloud", "tenantId": "t", "subscriptionId": "s", "resourceGroup": "rg",
                "vmType": "vmss", "aadClientId": "c", "aadClientSecret": "x", "useManagedIdentityExtension": true,
                "userAssignedIdentityID": "", "enableForceDelete": true, "somethingElse": [1, { "a": 2 }]
            })).prop_map(|file| Written(file.to_string().into())),
            2 => slipped(r#"{"subscriptionId": "s", "resourceGroup": "rg", "authMethod": "cli", "ENABLEFORCEDELETE": true}"#),
            1 => json().prop_map(|file| Written(file.to_string().into())),
        ],
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("azure.json");
        std::fs::write(&path, &text).expect("written");
        let arguments = Arguments {
            cloud_provider: Some(Provider::Azure),
            nodes: vec!["1:10:pool".to_owned()],
            cloud_config: Some(path),
            ..Arguments::default()
        };
        match arguments.read(&bare) {
            Ok(config) => prop_assert!(is_sound(&config), "{:?}", config),
            Err(error) => prop_assert!(error.to_string().len() < 1000 + 6 * text.len(), "{}", error),
        }
    }
}

proptest! {
    #![proptest_config(costly())]

    #[test]
    fn a_damaged_configuration_is_valid_or_an_error(Written(bytes) in slipped(GOOD)) {
        let text = String::from_utf8_lossy(&bytes);
        match parse(&text) {
            Ok(config) => prop_assert!(is_sound(&config), "{:?}", config),
            Err(error) => prop_assert!(is_good_error(&text, &error), "{}", error),
        }
    }
}

#[test]
fn the_undamaged_configuration_is_valid() {
    assert!(is_sound(&parse(GOOD).expect("good")));
}
