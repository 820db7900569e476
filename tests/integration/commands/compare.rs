//! `headcount compare`

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::Value;

use super::{config, texts};
use crate::emulators::aws::Aws;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::peers::headcount::{ConfigFile, Server, run};

const LEARN: &str = "kubernetes: {kubeconfig: kubeconfig}\nlearn: {kubernetes: true}";

/// The status that a Cluster Autoscaler of 1.30 or later writes, with one group.
fn status(group: &str, target: u32, scale_up: &str) -> String {
    format!(
        "time: 2026-11-22 02:00:00 +0000 UTC
autoscalerStatus: Running
nodeGroups:
- name: {group}
  health:
    status: Healthy
    nodeCounts: {{registered: {{total: {target}, ready: {target}}}, longUnregistered: 0, unregistered: 0}}
    cloudProviderTarget: {target}
  scaleUp: {{{scale_up}}}
"
    )
}

struct Fixture {
    cloud: Arc<Simulated>,
    api: ApiServer,
    config: ConfigFile,
    _emulator: Aws,
}

fn fixture() -> Fixture {
    let cloud = Arc::new(Simulated::with_groups(7, [GroupPlan::aws("web").sized(0, 10, 2)]));
    let (emulator, api) = (Aws::start(Arc::clone(&cloud)), ApiServer::plain());
    let config = config(&emulator, &["0:10:web"], LEARN).beside("kubeconfig", &api.kubeconfig_text());
    api.write_config_map(
        "kube-system",
        "cluster-autoscaler-status",
        &[("status", &status("web", 2, "status: NoActivity"))],
    );
    Fixture { cloud, api, config, _emulator: emulator }
}

impl Fixture {
    /// Makes these instances nodes of the cluster.
    fn nodes(&self, provider_ids: &[String]) {
        let node = |(number, id): (usize, &String)| mk_node(&format!("node-{number}"), id, 8 << 20);
        self.api.set_nodes(provider_ids.iter().enumerate().map(node));
    }

    /// The provider IDs of the running instances.
    fn running(&self) -> Vec<String> {
        let group =
            |world: &mut headcount::clouds::simulated::World, _| world.group("web").map(|group| group.reading());
        let reading = self.cloud.world(group).expect("the group");
        reading
            .instances
            .iter()
            .flat_map(|instances| instances.iter())
            .map(|instance| instance.id.to_string())
            .collect()
    }

    fn compare(&self, more: &[&str]) -> (Value, Option<i32>, String) {
        let output = run(&[&["compare", "-o", "json", "--config", &self.config.path()], more].concat());
        let (json, stderr) = texts(&output);
        (
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}{stderr}")),
            output.status.code(),
            stderr,
        )
    }
}

#[tokio::test]
async fn four_sides_that_agree_are_a_success() {
    let fixture = fixture();
    fixture.nodes(&fixture.running());
    let (found, code, stderr) = fixture.compare(&[]);
    let web = &found["groups"][0];
    let sizes =
        ["cloudDesired", "cloudLive", "headcountTarget", "autoscalerTarget", "nodes"].map(|key| web[key].as_u64());
    assert_eq!(sizes, [Some(2); 5], "{found:#}");
    assert_eq!((code, found["notes"].as_array().map(Vec::len)), (Some(0), Some(0)), "{found:#}{stderr}");
}

#[tokio::test]
async fn each_difference_is_named_with_its_reason() {
    let fixture = fixture();
    let backoff = "status: Backoff, backoffInfo: {errorCode: InsufficientInstanceCapacity, errorMessage: none left}, \
                   lastTransitionTime: '2026-11-22T12:03:00Z'";
    let written = status("web", 3, backoff);
    fixture.api.write_config_map("kube-system", "cluster-autoscaler-status", &[("status", &written)]);
    fixture.nodes(&fixture.running()[..1]);
    let (found, code, stderr) = fixture.compare(&[]);
    let differences: Vec<&str> =
        found["groups"][0]["differences"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let has = |part: &str| {
        assert!(differences.iter().any(|difference| difference.contains(part)), "{part}: {differences:#?}")
    };
    has("the Cluster Autoscaler last saw a target of 3");
    has("backs off until 2026-11-22T12:08:00Z at the earliest: InsufficientInstanceCapacity");
    has("1 instance without a node");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("1 of 1 node groups differ"), "{stderr}");
}

#[tokio::test]
async fn a_running_server_is_read_and_one_that_does_not_respond_is_a_failure() {
    let fixture = fixture();
    fixture.nodes(&fixture.running());
    let server = Server::with_config(&fixture.config);
    let mut client = server.client().await;
    client.until("served", async |client| !client.node_groups().await.is_empty()).await;
    let (found, code, stderr) = fixture.compare(&["--server", &format!("http://{}", server.admin())]);
    assert_eq!((&found["groups"][0]["headcountTarget"], code), (&2.into(), Some(0)), "{found:#}{stderr}");
    drop(server);
    let (found, code, stderr) = fixture.compare(&["--server", "http://127.0.0.1:1"]);
    assert_eq!((&found["groups"][0]["differences"], code), (&serde_json::json!([]), Some(1)), "{found:#}");
    assert!(stderr.contains("Headcount's server cannot be read: http://127.0.0.1:1: "), "{stderr}");
    assert!(found["notes"][0].as_str().is_some_and(|note| note.contains("is the server running")), "{found:#}");
}

#[tokio::test]
async fn without_a_cluster_the_cloud_and_headcount_are_still_compared() {
    let fixture = fixture();
    fixture.api.set_down(true);
    let (found, code, _) = fixture.compare(&[]);
    assert_eq!((found["notes"].as_array().map(Vec::len), code), (Some(2), Some(0)), "{found:#}");
    assert!(found["groups"][0]["nodes"].is_null());
}

#[tokio::test]
async fn groups_that_the_autoscaler_balances_are_one_set() {
    let same = |name: &str, zone: &str| {
        let mut plan = GroupPlan::aws(name).sized(0, 10, 1);
        plan.zones = vec![zone.to_owned()];
        plan
    };
    let plans =
        [same("a", "us-east-1a"), same("b", "us-east-1b"), same("big", "us-east-1a").instance_types(&["m5.xlarge"])];
    let emulator = Aws::start(Arc::new(Simulated::with_groups(7, plans)));
    let manifest = "
kind: Deployment
spec: {template: {spec: {containers: [{image: 'cluster-autoscaler:v1.34.2', args: [--balance-similar-node-groups,
  --balancing-ignore-label=topology.ebs.csi.aws.com/zone]}]}}}
";
    let config = config(&emulator, &["0:10:a", "0:10:b", "0:10:big"], "").beside("ca.yaml", manifest);
    let similar = |flag: &str, value: &str| -> Vec<Value> {
        let output = run(&["groups", "--similar", flag, value, "-o", "json", "--config", &config.path()]);
        let (json, stderr) = texts(&output);
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}{stderr}"))
    };
    let separated = similar("--ca-version", "1.34");
    let zone = "label topology.ebs.csi.aws.com/zone: ";
    assert!(separated[0]["separatedBy"].as_str().is_some_and(|what| what.starts_with(zone)), "{separated:#?}");
    let rows = similar("--ca-deployment", &config.path_of("ca.yaml"));
    let sets: Vec<_> = rows.iter().map(|row| (row["id"].as_str(), row["set"].as_u64())).collect();
    assert_eq!(sets, [(Some("a"), Some(1)), (Some("b"), Some(1)), (Some("big"), Some(2))], "{rows:#?}");
    assert!(rows[2]["separatedBy"].as_str().is_some_and(|what| what.starts_with("capacity cpu: 2 and 4")), "{rows:#?}");
}
