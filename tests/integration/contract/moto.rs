//! `headcount` with a source in moto, called over gRPC and from the command line.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use k8s_pb::api::core::v1::Node;
use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use prost::Message;
use serde_json::Value;
use tokio::task::JoinSet;
use tonic::Code;

use crate::peers::headcount::{Client, ConfigFile, Server, command, refused};
use crate::peers::moto::Moto;

const TAGS: [(&str, &str); 2] =
    [("k8s.io/cluster-autoscaler/enabled", "true"), ("k8s.io/cluster-autoscaler/prod", "owned")];

/// A source with two discovery specs and one group by name.
fn config(moto: &Moto, more: &str) -> ConfigFile {
    ConfigFile::new(&format!(
        r#"
refreshInterval: 1s
{more}
sources:
  - name: us
    aws:
      region: us-east-1
      endpoint: {}
      nodeGroups: ["0:10:by-name"]
      autoDiscovery:
        - asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod
        - asg:tag=team=data
"#,
        moto.url()
    ))
}

/// The JSON that a command prints.
fn json(arguments: &[&str]) -> Value {
    let output = command(arguments).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = || format!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", complaint()))
}

#[tokio::test]
async fn groups_are_found_by_tag_and_by_name_and_scaled_by_the_node() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    moto.group("by-other-tag", "m5.large", (1, 5, 1), &[("team", "data")]).await;
    moto.group("by-name", "m5.large", (0, 20, 0), &[]).await;
    moto.group("nobody-asked", "m5.large", (0, 10, 1), &[("team", "web")]).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;

    let groups = client.node_groups().await.into_iter().map(|group| (group.id, group.min_size, group.max_size));
    let found = [("by-name", 0, 10), ("by-other-tag", 1, 5), ("by-tag", 0, 10)];
    let found = found.map(|(id, min, max)| (id.to_owned(), min, max));
    assert_eq!(groups.collect::<BTreeSet<_>>(), BTreeSet::from(found));

    client.increase("by-tag", 3).await.expect("2 → 5");
    assert_eq!(client.target("by-tag").await, 5);
    client.until("five run", async |client| client.nodes_in("by-tag", 1).await.len() == 5).await;
    assert_eq!(moto.view("by-tag").await.0, 5);

    let victim = client.nodes_in("by-tag", 1).await[2].clone();
    assert_eq!(client.group_of(&victim).await.as_deref(), Some("by-tag"));
    client.delete("by-tag", &[&victim]).await.expect("deleted");
    assert_eq!(client.target("by-tag").await, 4);
    client.delete("by-tag", &[&victim]).await.expect("again is fine");
    assert_only_these_are_gone(&moto, &mut client, std::slice::from_ref(&victim)).await;
    assert_eq!(client.target("by-tag").await, 4);
}

async fn assert_only_these_are_gone(moto: &Moto, client: &mut Client, victims: &[String]) {
    client
        .until("they are gone", async |client| {
            let (nodes, running) = (client.nodes("by-tag").await, client.nodes_in("by-tag", 1).await);
            nodes.len() == running.len() && victims.iter().all(|victim| !running.contains(victim))
        })
        .await;
    let (desired, left) = moto.view("by-tag").await;
    assert_eq!(desired, i32::try_from(left.len()).expect("few"));
    assert!(left.iter().all(|id| !victims.iter().any(|victim| victim.ends_with(id))), "{left:?} {victims:?}");
}

#[tokio::test]
async fn concurrent_scale_ups_and_deletes_over_the_wire_are_exact() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 40, 2), &TAGS).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;

    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let mut client = client.clone();
        calls.spawn(async move { client.increase("by-tag", 1).await });
    }
    let outcomes = calls.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 38);
    for outcome in outcomes.into_iter().filter(Result::is_err) {
        let (code, message) = refused(outcome);
        assert_eq!(code, Code::FailedPrecondition);
        assert!(message.contains("above its maximum of 40"), "{message}");
    }
    assert_eq!((client.target("by-tag").await, moto.view("by-tag").await.0), (40, 40));

    client.until("forty run", async |client| client.nodes_in("by-tag", 1).await.len() == 40).await;
    let victims: Vec<String> = client.nodes_in("by-tag", 1).await.into_iter().take(30).collect();
    let mut calls = JoinSet::new();
    for victim in victims.clone() {
        let mut client = client.clone();
        calls.spawn(async move { (client.delete("by-tag", &[&victim]).await, victim) });
    }
    // Under concurrent calls moto returns an HTTP 500 now and then, which leaves the outcome unknown.
    for (outcome, victim) in calls.join_all().await {
        if let Err(status) = outcome {
            assert_eq!(status.code(), Code::Unavailable, "{status:?}");
            client
                .until("its outcome is settled", async |client| client.delete("by-tag", &[&victim]).await.is_ok())
                .await;
        }
    }
    assert_eq!(client.target("by-tag").await, 10);
    assert_only_these_are_gone(&moto, &mut client, &victims).await;
    assert_eq!(client.target("by-tag").await, 10);
}

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
    let answer = server.client().await.template("by-tag").await.expect("built");
    assert_eq!(answer.node_info, answer.node_bytes);
    for field in [answer.node_info, answer.node_bytes] {
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
    client.template("by-tag").await.expect("the others have theirs");
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
    assert!(within, "4 GiB as AWS says, less what the machine keeps: {by_aws}");
    let corrected =
        config(&moto, "instanceTypes: [my-table.yaml]").beside("my-table.yaml", "aws:\n  c5d.large: {memory: 16Gi}\n");
    assert_eq!(memory(&corrected), "16Gi");
}

#[tokio::test]
async fn groups_are_listed_with_no_server_running() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    let config = config(&moto, "");
    let listed = json(&["groups", "--config", &config.path(), "-o", "json"]);
    let group = &listed[0];
    let keys: BTreeSet<&str> = group.as_object().expect("an object").keys().map(String::as_str).collect();
    let documented = "id source min max target desired live creating deleting failed ageSeconds";
    assert_eq!(keys, documented.split(' ').collect());
    assert_eq!((&group["id"], &group["source"]), (&Value::from("by-tag"), &Value::from("us")));
    for (key, value) in [("min", 0), ("max", 10), ("target", 2), ("desired", 2), ("live", 2), ("failed", 0)] {
        assert_eq!(group[key], value, "{key}");
    }
    let table = command(&["groups", "--config", &config.path()]).output().expect("runs");
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(table.starts_with("ID "), "{table}");
    assert!(table.contains("by-tag   us "), "{table}");

    let in_tree = command(&["groups", "--cloud-provider=aws", "--nodes=0:10:by-tag", "-o", "json"])
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", moto.url())
        .output()
        .expect("runs");
    let in_tree: Value = serde_json::from_slice(&in_tree.stdout).expect("JSON");
    assert_eq!((&in_tree[0]["id"], &in_tree[0]["source"]), (&Value::from("by-tag"), &Value::from("aws")));
}

#[tokio::test]
async fn bad_input_is_refused_with_a_reason_and_changes_nothing() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    moto.group("by-name", "m5.large", (0, 10, 1), &[]).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    let own = client.nodes_in("by-tag", 1).await[0].clone();
    let other = client.nodes_in("by-name", 1).await[0].clone();
    let before = moto.view("by-tag").await;

    let many = vec![own.as_str(); 10_000];
    let outcomes = [
        (client.increase("unknown", 1).await, Code::NotFound, "unknown"),
        (client.increase("", 1).await, Code::InvalidArgument, "id is empty"),
        (client.increase("by-tag", 0).await, Code::InvalidArgument, "send a positive delta"),
        (client.increase("by-tag", -3).await, Code::InvalidArgument, "send a positive delta"),
        (client.increase("by-tag", 9).await, Code::FailedPrecondition, "above its maximum of 10"),
        (client.decrease("by-tag", 0).await, Code::InvalidArgument, "send a negative delta"),
        (client.decrease("by-tag", 2).await, Code::InvalidArgument, "send a negative delta"),
        (client.delete("by-tag", &[]).await, Code::InvalidArgument, "names no node"),
        (client.delete("by-tag", &[&own, &other]).await, Code::InvalidArgument, "belongs to node group by-name"),
        (client.delete("by-tag", &[&own, ""]).await, Code::InvalidArgument, "without a provider ID"),
        (client.delete("by-tag", &[&own, "azure:///x"]).await, Code::InvalidArgument, "not of the form"),
        (client.delete("by-tag", &many).await, Code::InvalidArgument, "10000 nodes in one call"),
        (client.delete("unknown", &[&own]).await, Code::NotFound, "unknown"),
    ];
    for (outcome, code, part) in outcomes {
        let (refused_with, message) = refused(outcome);
        assert_eq!(refused_with, code, "{message}");
        assert!(message.contains(part), "{message}");
    }
    send_garbage(server.grpc());
    assert_eq!(client.group_of("").await, None);
    assert_eq!(client.group_of("eks-hybrid:///us-west-2/my-cluster/my-node-1").await, None);
    client.decrease("by-tag", -2).await.expect("there is nothing to take back, and that is fine");
    assert_eq!(moto.view("by-tag").await, before);
    assert_eq!(client.target("by-tag").await, 2);
}

/// Sends bytes that are not HTTP/2. The server closes the connection and keeps running.
fn send_garbage(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let garbage: Vec<u8> = (0..4096_u32).map(|number| u8::try_from(number * 7919 % 251).expect("small")).collect();
    let _closed_meanwhile = stream.write_all(&garbage);
    let _reset_or_closed = stream.read_to_end(&mut Vec::new());
}

#[tokio::test]
async fn while_aws_is_down_reads_go_on_and_writes_are_unavailable_in_time() {
    let Some(mut moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    assert_eq!(client.target("by-tag").await, 2);
    moto.stop();
    server.logged("cannot be listed");
    for _ in 0..3 {
        client.refresh().await.expect("fresh enough to go on with");
        assert_eq!((client.node_groups().await.len(), client.target("by-tag").await), (1, 2));
        let asked = Instant::now();
        let (code, message) = refused(client.increase("by-tag", 1).await);
        assert_eq!(code, Code::Unavailable, "{message}");
        assert!(asked.elapsed() < Duration::from_secs(5), "the caller's deadline");
    }
    assert_eq!(client.target("by-tag").await, 2);
}
