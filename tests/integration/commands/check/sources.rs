//! Findings about sources: access, permissions, learning.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::Family;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use tokio::time::{sleep, timeout};

use super::{aws, check, plan};
use crate::commands::{config, texts};
use crate::emulators::arm::{Arm, denied};
use crate::emulators::aws::error;
use crate::emulators::kubernetes::ApiServer;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::{ConfigFile, Server, command, run};
use crate::peers::moto::Moto;

#[tokio::test]
async fn a_source_that_cannot_be_read_is_an_error_and_the_others_are_still_checked() {
    let emulator = aws([plan("web")]);
    let source = |name: &str, endpoint: &str| {
        format!("{{name: {name}, aws: {{region: us-east-1, endpoint: \"{endpoint}\", nodeGroups: [\"0:10:web\"]}}}}")
    };
    let sources = [source("gone", "http://127.0.0.1:1"), source("there", &emulator.url())].join(", ");
    let found = check(&ConfigFile::new(&format!("sources: [{sources}]\n")));
    found.has(
        "error gone cannot be read: unreachable: DescribeAutoScalingGroups",
        &["— check the network, the proxy, and the region or endpoint"],
    );
    found.has("ok there can be read; 1 group", &[]);
    found.has("ok web", &[]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn missing_permissions_are_named_with_the_policy_that_grants_them() {
    let denied = || error(403, "AccessDenied", "User: me is not authorized to perform this");
    let emulator = aws([plan("web")]);
    emulator.script("POST", "Action=DescribePolicies", 99, denied());
    let found = check(&config(&emulator, &["0:10:web"], ""));
    found.has(
        "warning here cannot be checked for settings that conflict with the Cluster Autoscaler: denied: \
        DescribePolicies",
        &[],
    );
    assert_eq!(found.code, Some(0), "serving does not need it");
    emulator.script("POST", "Action=DescribeAutoScalingGroups", 99, denied());
    let found = check(&config(&emulator, &["0:10:web"], ""));
    found.has("error here cannot be read: denied: ", &["check the credentials", "deploy/aws-iam-policy.json"]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn what_is_lost_without_the_permission_to_see_zonal_shifts_is_named() {
    let emulator = aws([plan("web"), plan("calm")]);
    let found = || check(&config(&emulator, &["0:10:web", "0:10:calm"], ""));
    let denied = HttpResponse::json(403, &serde_json::json!({"message": "User is not authorized to perform this"}));
    let denied = denied.header("x-amzn-errortype", "AccessDeniedException");
    emulator.script("GET", "/managedresources/", 99, denied);
    found().has_no("error");
    assert!(emulator.requests_with("GET", "/managedresources/").is_empty(), "no group needs the call");
    emulator.group_details("web", |details| details.shifted = Some(Vec::new()));
    let without = found();
    without.has(
        "error here a call that `headcount serve` makes is not permitted: denied: GetManagedResource",
        &["a zone that a zonal shift moves groups away from shows in failed launches alone", "aws-iam-policy.json"],
    );
    without.has("ok web", &[]);
    assert_eq!(without.code, Some(1));
    without
        .has_no("error here a call that `headcount serve` makes is not permitted: denied: DescribeAvailabilityZones");
}

#[tokio::test]
async fn the_permissions_for_learning_are_tried() {
    let (emulator, api) = (aws([plan("web")]), ApiServer::plain());
    let learn = "learn: {kubernetes: true, kubeconfig: kubeconfig}";
    let config = config(&emulator, &["0:10:web"], learn).beside("kubeconfig", &api.kubeconfig_text());
    check(&config).has("ok kubernetes the nodes and the ConfigMap can be read", &[]);
    api.set_down(true);
    let found = check(&config);
    found.has(
        "warning kubernetes the Kubernetes API cannot be read: list nodes: 503 Service Unavailable",
        &["check the API server, its address"],
    );
    assert_eq!(found.code, Some(0));
    let nowhere = check(&crate::commands::config(&emulator, &["0:10:web"], "learn: {kubernetes: true}"));
    nowhere.has("warning kubernetes the Kubernetes API cannot be read: not in a pod", &["set kubernetes.kubeconfig"]);
}

#[tokio::test]
async fn without_learning_nodes_that_are_watched_are_read_and_no_config_map() {
    let (emulator, api) = (aws([plan("web")]), ApiServer::plain());
    let taints = "kubernetes: {taints: true, kubeconfig: kubeconfig}";
    let config = config(&emulator, &["0:10:web"], taints).beside("kubeconfig", &api.kubeconfig_text());
    check(&config).has("ok kubernetes the nodes can be read", &[]);
    api.set_down(true);
    check(&config).has("warning kubernetes the Kubernetes API cannot be read: list nodes: 503", &[]);
}

#[tokio::test]
async fn a_pod_without_an_identity_is_a_warning_with_advice() {
    let emulator = aws([plan("web")]);
    let config = config(&emulator, &["0:10:web"], "");
    let check = |variables: &[(&str, &str)]| {
        let mut check = command(&["check", "--config", &config.path()]);
        check.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").envs(variables.iter().copied());
        texts(&check.output().expect("the binary runs")).0
    };
    let in_pod = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let found = check(&[in_pod]);
    assert!(found.contains("HC103") && found.contains("the pod has no identity for source here"), "{found}");
    assert!(!check(&[]).contains("HC103"), "not in a pod");
    let found = check(&[in_pod, ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/headcount")]);
    assert!(found.contains("AWS_ROLE_ARN is set, but AWS_WEB_IDENTITY_TOKEN_FILE is not"), "{found}");
}

#[tokio::test]
async fn a_source_without_groups_is_a_warning() {
    let emulator = aws([]);
    let lines: String = emulator.settings().iter().map(|line| format!("      {line}\n")).collect();
    let discovery = "      autoDiscovery: [\"asg:tag=nobody\"]\n";
    let found = check(&ConfigFile::new(&format!("sources:\n  - name: here\n    aws:\n{lines}{discovery}")));
    found.has("warning here has no node group; signed in as", &[]);
    assert_eq!(found.code, Some(0));
}

#[tokio::test]
async fn groups_in_moto_are_checked() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-name", "m5.large", (0, 20, 1), &[]).await;
    let source = format!("{{region: us-east-1, endpoint: \"{}\", nodeGroups: [\"0:20:by-name\"]}}", moto.url());
    let found = check(&ConfigFile::new(&format!("sources: [{{name: us, aws: {source}}}]\n")));
    found.has("ok us can be read; 1 group", &[]);
    found.has("ok by-name size 1 in 0:20; a new node has 2 cpu and ", &[]);
    assert_eq!(found.code, Some(0));
}

/// A list of scale sets has no VMs, so the source itself can be read.
#[tokio::test]
async fn scale_sets_whose_vms_cannot_be_read_are_named_by_check_and_by_a_server() {
    let plan = GroupPlan::azure("pool").sized(0, 10, 2);
    let emulator = Arm::start(Arc::new(Simulated::with_groups(7, [plan]).of_family(Family::Azure)));
    let denies = |times| {
        let permission = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read";
        emulator.script("GET", "/pool/virtualMachines", times, denied(permission));
    };
    denies(12);
    let config = config(&emulator, &["0:10:pool"], "refreshInterval: 1s");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    let status = || server.probe_with("/statusz", "Accept: application/json\r\n");
    // A call would wait for the first listing.
    let shown = async {
        while !status().contains("\"pool\": \"denied") {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(10), shown).await.expect("its error is shown");
    assert!(server.probe("/readyz").contains("1 node group cannot be read and is not served"));
    client.until("it is served", async |client| client.node_groups().await.len() == 1).await;
    assert!(status().contains("\"unreadGroups\": {}"), "{}", status());

    denies(99);
    let found = check(&config);
    found.has("error pool cannot be read: denied", &["azure-role.json"]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn what_is_lost_without_the_permission_to_list_vm_sizes_is_named() {
    let emulator = Arm::start(Arc::new(Simulated::with_groups(7, [GroupPlan::azure("pool").sized(0, 10, 2)])));
    let config = config(&emulator, &["0:10:pool"], "");
    check(&config).has_no("error");
    emulator.script("GET", "/skus", 99, denied("Microsoft.Compute/skus/read"));
    let found = check(&config);
    found.has(
        "error here a call that `headcount serve` makes is not permitted: denied: ",
        &["Microsoft.Compute/skus/read", "templates rely on tables", "azure-role.json"],
    );
    assert_eq!(found.code, Some(1));
}

/// No task of the server has the group yet: only listings show it.
#[tokio::test]
async fn a_scale_set_that_was_never_understood_is_named_by_groups_and_by_a_server() {
    let plans = ["pool", "other"].map(|name| GroupPlan::azure(name).sized(0, 10, 2));
    let emulator = Arm::start(Arc::new(Simulated::with_groups(7, plans).of_family(Family::Azure)));
    emulator.group_details("pool", |details| details.undecodable = true);
    let config = config(&emulator, &["0:10:pool", "0:10:other"], "refreshInterval: 1s");
    let output = run(&["groups", "--config", &config.path()]);
    let (table, stderr) = texts(&output);
    assert!(table.contains("other") && stderr.contains("here/pool cannot be read: "), "{table}{stderr}");
    assert_eq!(output.status.code(), Some(1));

    let server = Server::with_config(&config);
    let mut client = server.client().await;
    client.until("the other one is served", async |client| client.node_groups().await.len() == 1).await;
    let status = || server.probe_with("/statusz", "Accept: application/json\r\n");
    assert!(status().contains("\"pool\": \""), "{}", status());
    assert!(server.probe("/readyz").contains("1 node group cannot be read and is not served"));
    emulator.group_details("pool", |details| details.undecodable = false);
    client.until("both are served", async |client| client.node_groups().await.len() == 2).await;
    assert!(status().contains("\"unreadGroups\": {}"), "{}", status());
}
