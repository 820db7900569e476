//! The pod of deploy/kubernetes and that of deploy/chart, started as a kubelet would: its commands, arguments and
//! environment as local processes, with its files in a folder, under the rights of its service account.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::admission::{combinations, pod_of};
use super::cluster::{Cluster, POD_TOKEN};
use super::fixture::binaries;
use super::process::Process;
use crate::peers::free_address;
use crate::peers::headcount::{Server, binary};

/// Combinations that need neither a cloud nor cert-manager: their headcount.yaml serves the simulated cloud.
const OF_THE_MANIFESTS: &str = "None_unix-socket";
const OF_THE_CHART: &str = "chart_None_unix-socket";

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_of_the_manifests_serves_the_autoscaler() {
    the_pod_serves_the_autoscaler(OF_THE_MANIFESTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_of_the_chart_serves_the_autoscaler() {
    the_pod_serves_the_autoscaler(OF_THE_CHART).await;
}

/// Creates the objects of a combination, and starts what its pod would run.
async fn the_pod_serves_the_autoscaler(combination: &str) {
    let (Some(binaries), Some(combinations)) = (binaries(), combinations()) else { return };
    let (_, objects) = combinations.iter().find(|(name, _)| name == combination).expect("built");
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::start(&binaries, folder.path()).await;
    for object in objects {
        cluster.api.create(object).await;
    }
    cluster.write_kubeconfig(folder.path(), "pod.kubeconfig", POD_TOKEN);
    let pod = objects.iter().find_map(pod_of).expect("a Deployment");
    let files = Files { pod: &pod, objects, folder: folder.path() };
    files.write();

    let admin = free_address();
    let mut headcount = Command::new(binary());
    files.run(&mut headcount, &pod["spec"]["initContainers"][0], &[("[::]:8087", &admin.to_string())]);
    let _headcount = Process::start("headcount", folder.path(), &mut headcount);
    eventually("Headcount is ready", || {
        Server::try_probe_at(admin, "/readyz").is_some_and(|page| page.contains("200 OK"))
    })
    .await;

    let container = &pod["spec"]["containers"][0];
    let mut autoscaler = Command::new(binaries.join("cluster-autoscaler"));
    files.run(&mut autoscaler, container, &[]);
    // What the service account's own files would contain.
    autoscaler.arg(format!("--kubeconfig={}", folder.path().join("pod.kubeconfig").display()));
    autoscaler.arg(format!("--address={}", free_address()));
    let autoscaler = Process::start("cluster-autoscaler", folder.path(), &mut autoscaler);
    eventually("the autoscaler is served", || {
        let page = Server::try_probe_at(admin, "/metrics").unwrap_or_default();
        let served = |method: &str| {
            let sample = format!("headcount_grpc_requests_total{{method=\"{method}\",code=\"OK\"}} ");
            page.lines().any(|line| line.strip_prefix(&sample).is_some_and(|count| count.trim() != "0"))
        };
        served("Refresh") && served("NodeGroups") && served("NodeGroupNodes")
    })
    .await;
    let refused: Vec<_> = autoscaler.lines().into_iter().filter(|line| line.contains("forbidden")).collect();
    assert!(refused.is_empty(), "the service account lacks rights:\n{}", refused.join("\n"));
}

/// The files of the pod's volumes, below a folder in place of the root.
pub(super) struct Files<'a> {
    pub(super) pod: &'a Value,
    pub(super) objects: &'a [Value],
    pub(super) folder: &'a Path,
}

impl Files<'_> {
    /// Writes the ConfigMaps, and makes the other folders.
    pub(super) fn write(&self) {
        for (path, volume) in self.mounts() {
            let folder = self.folder.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(&folder).expect("a folder");
            let Some(name) = volume["configMap"]["name"].as_str() else { continue };
            let is_it = |object: &&Value| object["kind"] == "ConfigMap" && object["metadata"]["name"] == name;
            let map = self.objects.iter().find(is_it).expect("it exists");
            for (file, text) in map["data"].as_object().expect("texts") {
                let text = self.local(text.as_str().expect("a text"));
                std::fs::write(folder.join(file), text).expect("written");
            }
        }
    }

    /// The mounted folders of all containers, with their volumes.
    fn mounts(&self) -> Vec<(String, Value)> {
        let spec = &self.pod["spec"];
        let containers =
            ["initContainers", "containers"].into_iter().flat_map(|list| spec[list].as_array().expect("some"));
        let mounts = containers.flat_map(|container| container["volumeMounts"].as_array().into_iter().flatten());
        let volume = |name: &Value| {
            let volumes = spec["volumes"].as_array().expect("volumes");
            volumes.iter().find(|volume| volume["name"] == *name).expect("it exists").clone()
        };
        mounts.map(|mount| (mount["mountPath"].as_str().expect("a path").to_owned(), volume(&mount["name"]))).collect()
    }

    /// A text whose paths point into the folder.
    fn local(&self, text: &str) -> String {
        let mut paths: Vec<String> = self.mounts().into_iter().map(|(path, _)| path).collect();
        paths.sort();
        paths.dedup();
        let here = |text: String, path: &String| {
            text.replace(&format!("{path}/"), &format!("{}{path}/", self.folder.display()))
        };
        paths.iter().fold(text.to_owned(), here)
    }

    /// Gives a program the container's arguments and only the container's environment. The program itself replaces the
    /// image.
    pub(super) fn run(&self, command: &mut Command, container: &Value, replaced: &[(&str, &str)]) {
        command.env_clear();
        let texts =
            |key: &str| container[key].as_array().into_iter().flatten().map(|text| text.as_str().expect("a text"));
        let variables: Vec<(String, String)> =
            container["env"].as_array().into_iter().flatten().map(variable).collect();
        for argument in texts("command").skip(1).chain(texts("args")) {
            let mut argument = self.local(argument);
            for (name, value) in &variables {
                argument = argument.replace(&format!("$({name})"), value);
            }
            for (from, to) in replaced {
                argument = argument.replace(from, to);
            }
            command.arg(argument);
        }
        command.envs(variables);
    }
}

/// A variable of a container; those of the downward API as the kubelet sets them.
fn variable(variable: &Value) -> (String, String) {
    let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        Some("metadata.namespace") => "kube-system",
        Some("metadata.name") => "pod",
        _ => variable["value"].as_str().expect("a value"),
    };
    (variable["name"].as_str().expect("a name").to_owned(), value.to_owned())
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}
