//! Templates of groups.

use super::*;

#[tokio::test]
async fn a_template_is_a_node_in_both_fields_and_on_the_command_line() {
    let Some(moto) = Moto::start().await else { return };
    let tags = [
        TAGS[0],
        TAGS[1],
        ("alpha.eksctl.io/cluster-name", "prod"),
        ("k8s.io/cluster-autoscaler/node-template/label/team", "ml"),
        ("k8s.io/cluster-autoscaler/node-template/taint/dedicated", "ml:NoSchedule"),
        ("k8s.io/cluster-autoscaler/node-template/resources/example.com/dongle", "2"),
    ];
    moto.group("by-tag", "m5.large", (0, 10, 0), &tags).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let response = server.client().await.template("by-tag").await.expect("built");
    assert_eq!(response.node_info, response.node_bytes);
    for field in [response.node_info, response.node_bytes] {
        assert_is_m5_large(&Node::decode(field).expect("a v1.Node, as Kubernetes defines it"));
    }

    let path = config.path();
    let shown = json(&["template", "by-tag", "--config", &path, "-o", "json"]);
    assert_eq!(shown["kind"], "Node");
    assert_eq!(shown["status"]["capacity"]["cpu"], "2");
    assert_eq!(shown["metadata"]["labels"]["team"], "ml");
    let yaml = command(&["template", "by-tag", "--config", &path, "-o", "yaml"]).output().expect("runs");
    let yaml: Value = serde_saphyr::from_slice(&yaml.stdout).expect("YAML");
    assert_eq!(yaml, shown);
}

fn assert_is_m5_large(node: &Node) {
    let metadata = node.metadata.as_ref().expect("metadata");
    for (label, value) in [
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/zone", "us-east-1a"),
        ("topology.kubernetes.io/region", "us-east-1"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("team", "ml"),
    ] {
        assert_eq!(metadata.labels.get(label).map(String::as_str), Some(value), "{label}");
    }
    let spec = node.spec.as_ref().expect("spec");
    assert_eq!(spec.provider_id, None, "a template has no machine");
    let taint = spec.taints.first().expect("tainted");
    assert_eq!((taint.key(), taint.value(), taint.effect()), ("dedicated", "ml", "NoSchedule"));
    let status = node.status.as_ref().expect("status");
    for (resource, value) in [("cpu", "2"), ("example.com/dongle", "2"), ("pods", "29")] {
        assert_eq!(quantity(&status.capacity, resource), value, "{resource}");
    }
    assert_eq!(quantity(&status.allocatable, "cpu"), "1930m");
}

fn quantity(of: &BTreeMap<String, Quantity>, name: &str) -> String {
    of.get(name).unwrap_or_else(|| panic!("no {name}")).string().to_owned()
}

#[tokio::test]
async fn a_template_that_cannot_be_built_is_unimplemented_for_its_group_alone() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 0), &TAGS).await;
    moto.group("by-name", "zz9.plural", (0, 10, 0), &[]).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    let (code, message) = refused(client.template("by-name").await);
    assert_eq!(code, Code::Unimplemented, "{message}");
    assert!(message.contains("zz9.plural") && message.contains("instanceTypes"), "{message}");
    client.template("by-tag").await.expect("other groups have templates");
    assert_eq!(client.node_groups().await.len(), 2);
}

#[tokio::test]
async fn a_table_of_the_users_corrects_what_aws_says() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "c5d.large", (0, 10, 0), &TAGS).await;
    let memory = |config: &ConfigFile| {
        let shown = json(&["template", "by-tag", "--config", &config.path(), "-o", "json"]);
        shown["status"]["capacity"]["memory"].as_str().expect("a quantity").to_owned()
    };
    let amount = |text: &str| text.parse::<headcount::instance_types::Quantity>().expect("a quantity");
    let by_aws = memory(&config(&moto, ""));
    let within = amount(&by_aws) > amount("3Gi") && amount(&by_aws) < amount("4Gi");
    assert!(within, "less than the 4 GiB that AWS lists: {by_aws}");
    let corrected =
        config(&moto, "instanceTypes: [my-table.yaml]").beside("my-table.yaml", "aws:\n  c5d.large: {memory: 16Gi}\n");
    assert_eq!(memory(&corrected), "16Gi");
}
