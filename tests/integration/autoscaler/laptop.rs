//! deploy/demo: the real Cluster Autoscaler, API server and scheduler over a simulated cloud, whose instances are
//! nodes.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::admission::{combinations, pod_of};
use super::cluster::{Cluster, POD_TOKEN};
use super::fixture::binaries;
use super::nodes::name_of;
use super::process::Process;
use super::trial::Files;
use crate::peers::free_address;
use crate::peers::headcount::binary;

/// The name of deploy/demo among what `tests/deploy/run` builds.
const DEMO: &str = "demo";
/// The pods that docs/try.md scales.
const WORKLOAD: &str = include_str!("../../../deploy/demo/workload.yaml");
/// Several of the autoscaler's loops, which are 10 s apart, and its waits.
const PATIENCE: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_nodes_and_nodes_without_pods_go() {
    let (Some(binaries), Some(combinations)) = (binaries(), combinations()) else { return };
    let (_, objects) = combinations.iter().find(|(name, _)| name == DEMO).expect("built");
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::start(&binaries, folder.path()).await;
    for object in objects {
        cluster.api.create(object).await;
    }
    cluster.write_kubeconfig(folder.path(), "pod.kubeconfig", POD_TOKEN);
    let kubeconfig = format!("--kubeconfig={}", folder.path().join("pod.kubeconfig").display());
    let pod = objects.iter().find_map(pod_of).expect("a Deployment");
    let files = Files { pod: &pod, objects, folder: folder.path() };
    files.write();

    let (grpc, admin) = (free_address(), free_address());
    let mut headcount = Command::new(binary());
    files.run(&mut headcount, &pod["spec"]["initContainers"][0], &[("[::]:8087", &admin.to_string())]);
    headcount.arg(format!("--listen={grpc}")).arg(&kubeconfig);
    let headcount = Process::start("headcount", folder.path(), &mut headcount);
    eventually("each instance is a node", async || nodes(&cluster).await.len() == 8).await;
    for node in cluster.api.items("/api/v1/nodes").await {
        assert_eq!(node["metadata"]["annotations"]["kwok.x-k8s.io/node"], "fake", "{node}");
        let taints = node["spec"]["taints"].as_array().expect("taints");
        assert!(taints.iter().any(|taint| taint["key"] == "kwok.x-k8s.io/node"), "{node}");
    }

    let cloud_config = folder.path().join("etc/headcount/cloud-config.yaml");
    let text =
        std::fs::read_to_string(&cloud_config).expect("written above").replace("127.0.0.1:8086", &grpc.to_string());
    std::fs::write(&cloud_config, text).expect("written");
    let mut autoscaler = Command::new(binaries.join("cluster-autoscaler"));
    let quick = [("unneeded-time=1m", "unneeded-time=6s"), ("delay-after-add=1m", "delay-after-add=6s")];
    files.run(&mut autoscaler, &pod["spec"]["containers"][0], &quick);
    autoscaler.arg(&kubeconfig).arg(format!("--address={}", free_address()));
    let autoscaler = Process::start("cluster-autoscaler", folder.path(), &mut autoscaler);

    let wanted = web_pods(4);
    for pod in &wanted {
        cluster.api.create(pod).await;
    }
    eventually("every pod is bound to a node", async || {
        let pods = cluster.api.items("/api/v1/namespaces/default/pods").await;
        let bound: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        bound.len() == wanted.len() && bound.iter().all(|node| node.starts_with("web-"))
    })
    .await;
    assert!(web_nodes(&cluster).await >= 4);

    for pod in &wanted {
        let path = format!("/api/v1/namespaces/default/pods/{}?gracePeriodSeconds=0", name_of(pod));
        cluster.api.ok("DELETE", &path, None).await;
    }
    eventually("the nodes without pods are gone", async || web_nodes(&cluster).await == 2).await;
    for process in [headcount, autoscaler] {
        let refused: Vec<_> = process.lines().into_iter().filter(|line| line.contains("forbidden")).collect();
        assert!(refused.is_empty(), "the service account lacks rights:\n{}", refused.join("\n"));
    }
}

/// The names of all nodes.
async fn nodes(cluster: &Cluster) -> Vec<String> {
    cluster.api.items("/api/v1/nodes").await.iter().map(name_of).collect()
}

async fn web_nodes(cluster: &Cluster) -> usize {
    nodes(cluster).await.iter().filter(|name| name.starts_with("web-")).count()
}

/// This many pods of the Deployment `web`: no controller runs that would create them.
fn web_pods(count: usize) -> Vec<Value> {
    let web: Value = serde_saphyr::from_str(WORKLOAD.split("\n---\n").next().expect("a document")).expect("YAML");
    let pod = pod_of(&web).expect("a Deployment");
    let named = |number: usize| {
        let mut pod = pod.clone();
        pod["metadata"]["name"] = json!(format!("web-{number}"));
        // Without an owner, the autoscaler would not evict them; it need not here, but its node would be "not safe to
        // evict".
        pod["metadata"]["annotations"] = json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"});
        pod
    };
    (0..count).map(named).collect()
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}
