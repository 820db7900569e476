//! helm installs deploy/chart into a real API server, upgrades it and removes it.
//!
//! `tests/autoscaler/run --admission` names helm in [`HELM`].

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::fixture::binaries;

/// The variable with the path of helm.
const HELM: &str = "HEADCOUNT_HELM";

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kube-system/deployments/cluster-autoscaler";
const WATCHES_NODES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/headcount-learns";

/// Copies the chart without the release of Kubernetes that it requires: the API server that the tests build has no
/// version.
fn copy_chart(folder: &Path) -> String {
    let copy = folder.join("chart");
    let copied = Command::new("cp").arg("-r").arg(CHART).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    let text = std::fs::read_to_string(copy.join("Chart.yaml")).expect("a chart");
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with("kubeVersion:")).collect();
    std::fs::write(copy.join("Chart.yaml"), text.join("\n")).expect("written");
    copy.display().to_string()
}

/// Runs a command of helm about the release, in the control plane's folder.
fn helm(program: &Path, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).args(["--namespace", "kube-system"]).current_dir(folder);
    command.env_clear().env("HOME", folder).env("KUBECONFIG", folder.join("kubeconfig"));
    let output = command.output().expect("helm runs");
    assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes a file of values and returns its name.
fn values<'a>(folder: &Path, name: &'a str, values: &Value) -> &'a str {
    std::fs::write(folder.join(name), values.to_string()).expect("written");
    name
}

async fn status(cluster: &Cluster, path: &str) -> (u16, Value) {
    cluster.api.send("GET", path, None).await.expect("the API server responds")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_is_installed_upgraded_and_removed() {
    let Some(binaries) = binaries() else { return };
    let Some(program) = std::env::var_os(HELM).map(PathBuf::from) else {
        eprintln!("skipped: tests/autoscaler/run --admission builds helm and runs this");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let cluster = Cluster::start(&binaries, folder).await;
    let chart = copy_chart(folder);

    let sources = json!([{"name": "demo", "simulated": {}}]);
    let first = values(folder, "first.yaml", &json!({"config": {"sources": sources}}));
    let said = helm(&program, folder, &["install", "ca", &chart, "--values", first]);
    assert!(said.contains("/headcount check --config"), "the notes: {said}");
    let installed = cluster.api.ok("GET", DEPLOYMENT, None).await;
    assert_eq!(installed["spec"]["replicas"], 1);
    assert_eq!(status(&cluster, WATCHES_NODES).await.0, 404);

    let changed = json!({
        "config": {"sources": sources, "learn": {"kubernetes": true}},
        "transport": "loopback",
        "replicas": 2,
        "identity": {"type": "azure-workload-identity", "clientId": "00000000-0000-0000-0000-000000000000"},
    });
    let second = values(folder, "second.yaml", &changed);
    helm(&program, folder, &["upgrade", "ca", &chart, "--values", second]);
    let upgraded = cluster.api.ok("GET", DEPLOYMENT, None).await;
    assert_eq!(upgraded["metadata"]["uid"], installed["metadata"]["uid"], "it was replaced");
    assert_eq!(upgraded["spec"]["replicas"], 2);
    let annotations = |deployment: &Value| deployment["spec"]["template"]["metadata"]["annotations"].clone();
    assert_ne!(annotations(&upgraded)["checksum/config"], annotations(&installed)["checksum/config"]);
    assert_eq!(status(&cluster, WATCHES_NODES).await.0, 200);

    helm(&program, folder, &["rollback", "ca", "1"]);
    assert_eq!(annotations(&cluster.api.ok("GET", DEPLOYMENT, None).await), annotations(&installed));
    assert_eq!(status(&cluster, WATCHES_NODES).await.0, 404);

    helm(&program, folder, &["uninstall", "ca"]);
    assert_eq!(status(&cluster, DEPLOYMENT).await.0, 404);
    let left = cluster.api.items("/api/v1/namespaces/kube-system/configmaps").await;
    let left: Vec<&Value> = left.iter().map(|map| &map["metadata"]["name"]).collect();
    assert!(!left.contains(&&json!("headcount")), "{left:?}");
}
