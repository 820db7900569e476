use std::path::Path;

use super::*;
use crate::config::{CloudSettings, Config};

/// As the official chart renders it for AWS, with a few flags of a user.
const CHART: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: aws-cluster-autoscaler}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: aws-cluster-autoscaler}
spec:
  template:
    spec:
      initContainers: []
      containers:
        - name: proxy
          image: proxy:1
        - name: aws-cluster-autoscaler
          image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.1
          command:
            - ./cluster-autoscaler
            - --cloud-provider=aws
            - --namespace=kube-system
            - --node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod
            - --nodes=1:10:web
            - --aws-use-static-instance-list=true
            - --balance-similar-node-groups
            - --balancing-ignore-label=lifecycle
            - --expander=priority
          env:
            - {name: AWS_REGION, value: eu-west-1}
            - name: AWS_ACCESS_KEY_ID
              valueFrom: {secretKeyRef: {name: aws, key: id}}
            - {name: POD_NAMESPACE, value: kube-system}
"#;

fn arguments(text: &str) -> InTree {
    InTree { arguments: text.split_whitespace().map(str::to_owned).collect(), ..InTree::default() }
}

fn parsed(migration: &Migration) -> Config {
    Config::parse(&migration.config, Path::new("headcount.yaml"), &|_| None).expect("a valid configuration")
}

#[test]
fn a_deployment_of_the_chart_becomes_a_source_with_the_same_groups() {
    let migration = migrate(&from_deployment(CHART).expect("found")).expect("migrated");
    let config = parsed(&migration);
    let CloudSettings::Aws(aws) = &config.sources[0].cloud else { panic!("{config:?}") };
    assert_eq!((aws.region.as_deref(), aws.node_groups.len(), aws.auto_discovery.len()), (Some("eu-west-1"), 1, 1));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);

    let flags = &migration.flags;
    assert_eq!(flags[..2], ["--cloud-provider=externalgrpc", "--cloud-config=/etc/headcount/cloud-config.yaml"]);
    for kept in ["--namespace=kube-system", "--expander=priority", "--balance-similar-node-groups"] {
        assert!(flags.iter().any(|flag| flag == kept), "{kept}: {flags:?}");
    }
    for dropped in ["--nodes", "--node-group-auto-discovery", "--aws-use-static-instance-list"] {
        assert!(!flags.iter().any(|flag| flag.starts_with(dropped)), "{dropped}: {flags:?}");
    }
    let ignored = flags.iter().filter(|flag| flag.starts_with("--balancing-ignore-label=")).count();
    assert_eq!(ignored, 7, "each label once: {flags:?}");

    let notes = migration.notes.join("\n");
    assert!(notes.contains("Headcount's container, which reads them, too: AWS_ACCESS_KEY_ID, AWS_REGION."), "{notes}");
    assert!(notes.contains("--aws-use-static-instance-list has no counterpart"), "{notes}");
    assert!(!notes.contains("1.37"), "the release is 1.34: {notes}");
}

#[test]
fn several_discovery_specs_become_one_entry() {
    let flags = "--cloud-provider=aws --node-group-auto-discovery=asg:tag=a --node-group-auto-discovery=asg:tag=b=c";
    let migration = migrate(&arguments(flags)).expect("migrated");
    assert!(migration.config.contains("autoDiscovery:\n        - \"asg:tag=a,b=c\"\n"), "{}", migration.config);
    assert!(migration.notes.iter().any(|note| note.contains("match all specs")), "{:?}", migration.notes);
}

#[test]
fn azure_flags_and_environment_become_a_source() {
    let mut before =
        arguments("--cloud-provider azure --cloud-config /etc/kubernetes/azure.json -nodes=1:5:pool --v=4");
    let variables = [
        ("ARM_SUBSCRIPTION_ID", "0000-1111"),
        ("ARM_RESOURCE_GROUP", "rg"),
        ("ARM_USE_WORKLOAD_IDENTITY_EXTENSION", "true"),
    ];
    before.environment.extend(variables.map(|(name, value)| (name.to_owned(), Some(value.to_owned()))));
    before.environment.insert("ARM_CLIENT_SECRET".to_owned(), None);
    let migration = migrate(&before).expect("migrated");
    let expected = [
        "grpc: {listen: \"unix:///run/headcount/grpc.sock\"}",
        "sources:",
        "  - name: azure",
        "    azure:",
        "      cloudConfig: \"/etc/kubernetes/azure.json\"",
        "      subscriptionId: \"0000-1111\"",
        "      resourceGroup: \"rg\"",
        "      useFederatedWorkloadIdentityExtension: true",
        "      nodeGroups:",
        "        - \"1:5:pool\"",
        "",
    ];
    let expected = expected.join("\n");
    assert_eq!(migration.config, expected);
    assert_eq!(migration.flags[2..], ["--v=4"]);
    assert!(migration.notes.iter().any(|note| note.contains("mount it into Headcount's container")));
    let shown = migration.to_string();
    assert!(
        shown.contains("Microsoft.Compute/virtualMachineScaleSets/write") && !shown.contains("autoscaling:"),
        "{shown}"
    );
}

#[test]
fn balancing_gets_the_labels_of_the_cloud_unless_the_user_names_labels_to_compare() {
    let flags = |text: &str| migrate(&arguments(text)).expect("migrated").flags.join(" ");
    let azure = flags("--cloud-provider=azure --balance-similar-node-groups=true");
    assert_eq!(azure.matches("--balancing-ignore-label=").count(), 9, "{azure}");
    for none in [
        "--balance-similar-node-groups=false",
        "--balance-similar-node-groups=False",
        "",
        "--balance-similar-node-groups --balancing-label=team",
    ] {
        let flags = flags(&format!("--cloud-provider=aws {none}"));
        assert!(!flags.contains("--balancing-ignore-label"), "{flags}");
    }
    let mut newest = arguments("--cloud-provider=aws --balance-similar-node-groups");
    newest.arguments.push("--balancing-ignore-label=lifecycle".to_owned());
    newest.release = Some("v1.37.0".to_owned());
    let newest = migrate(&newest).expect("migrated");
    let labels: Vec<_> = newest.flags.iter().filter(|flag| flag.contains("-label=")).collect();
    assert_eq!(labels, ["--balancing-label=node.kubernetes.io/instance-type", "--balancing-label=kubernetes.io/arch"]);
    assert!(newest.notes.iter().any(|note| note.contains("--balancing-label takes its place")), "{:?}", newest.notes);
}

#[test]
fn what_cannot_be_migrated_is_refused_with_the_reason() {
    for (flags, reason) in [
        ("--nodes=1:2:g", MigrateError::NoProvider),
        ("--cloud-provider=externalgrpc", MigrateError::Migrated),
        ("--cloud-provider=gce", MigrateError::OtherProvider("gce".to_owned())),
    ] {
        assert_eq!(migrate(&arguments(flags)), Err(reason), "{flags}");
    }
    assert_eq!(from_deployment("kind: Deployment"), Err(MigrateError::NoAutoscaler));
    assert!(matches!(from_deployment("a: [b"), Err(MigrateError::Yaml(_))));
}

#[test]
fn a_shells_command_line_is_read() {
    let text = "{kind: Pod, spec: {containers: [{command: [sh, -c, './cluster-autoscaler --cloud-provider=aws \
                --nodes=1:2:g']}]}}";
    let migration = migrate(&from_deployment(text).expect("found")).expect("migrated");
    assert!(migration.config.contains("1:2:g"), "{}", migration.config);
}
