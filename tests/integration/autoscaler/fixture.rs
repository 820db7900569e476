//! One scenario's cloud, Headcount, control plane, nodes and Cluster Autoscaler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::Autoscaler;
use super::cluster::Cluster;
use super::nodes::{Kubelets, name_of, path_of_pod};
use super::relay::Relay;
use super::{BINARIES, LOGS};
use crate::emulators::Emulator;
use crate::emulators::setup::Setup;
use crate::peers::headcount::run;

/// How long anything may take: several of the autoscaler's loops, provision timeout and back-off included.
const PATIENCE: Duration = Duration::from_secs(150);

/// Everything that a scenario runs. Fields are dropped in this order.
pub(super) struct Fixture<E> {
    pub(super) autoscaler: Autoscaler,
    kubelets: Kubelets,
    pub(super) cluster: Cluster,
    pub(super) setup: Setup<E>,
    relay: Relay,
    pods: AtomicU32,
    folder: Folder,
}

/// The scenario's files and logs. Where the variable names a folder, they stay there after a failure.
enum Folder {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl Folder {
    fn new(scenario: &str) -> Self {
        let Some(logs) = std::env::var_os(LOGS) else {
            return Self::Temporary(tempfile::tempdir().expect("a folder"));
        };
        let folder = Path::new(&logs).join(scenario);
        // Data of an earlier run would be served again.
        let _absent = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self::Kept(folder)
    }

    fn remove(self) {
        if let Self::Kept(path) = self {
            std::fs::remove_dir_all(path).expect("removed");
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// The folder of the programs under test. Without it, scenarios are skipped, and say so.
pub(super) fn binaries() -> Option<PathBuf> {
    let folder = std::env::var_os(BINARIES).map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: tests/autoscaler/run builds the Cluster Autoscaler and runs this");
    }
    folder
}

impl<E: Emulator> Fixture<E> {
    /// Starts everything; `None` without the programs under test. Instances of the `silent` groups never register as nodes.
    pub(super) async fn start(scenario: &str, emulator: E, flags: &[&str], silent: &[&str]) -> Option<Self> {
        let binaries = binaries()?;
        let folder = Folder::new(scenario);
        let setup = Setup::open(emulator).await;
        let templates = templates(&setup).into_iter().filter(|(group, _)| !silent.contains(&group.as_str())).collect();
        let cluster = Cluster::start(&binaries, folder.path()).await;
        let kubelets = Kubelets::start(cluster.api.clone(), setup.emulator.simulated().clone(), templates);
        let relay = Relay::start(setup.server().grpc()).await;
        let autoscaler = Autoscaler::start(&binaries, folder.path(), relay.address(), flags);
        Some(Self { autoscaler, kubelets, cluster, setup, relay, pods: AtomicU32::new(0), folder })
    }

    /// Creates this many pods that request this much CPU.
    pub(super) async fn create_pods(&self, count: u32, cpu: &str) {
        for _ in 0..count {
            let number = self.pods.fetch_add(1, Ordering::Relaxed);
            let requests = json!({"cpu": cpu, "memory": "64Mi"});
            let pod = json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": format!("pod-{number}"), "namespace": "default"},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
                },
            });
            self.cluster.api.ok("POST", "/api/v1/namespaces/default/pods", Some(&pod)).await;
        }
    }

    /// Deletes all pods.
    pub(super) async fn delete_pods(&self) {
        for pod in self.cluster.api.items("/api/v1/namespaces/default/pods").await {
            let path = format!("{}?gracePeriodSeconds=0", path_of_pod(&pod));
            let _gone_already = self.cluster.api.send("DELETE", &path, None).await;
        }
    }

    /// How many pods have a node.
    pub(super) async fn scheduled(&self) -> usize {
        let pods = self.cluster.api.items("/api/v1/namespaces/default/pods").await;
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    /// The names of all nodes.
    pub(super) async fn nodes(&self) -> Vec<String> {
        self.cluster.api.items("/api/v1/nodes").await.iter().map(name_of).collect()
    }

    /// The capacity of a group, as the cloud has it.
    pub(super) fn capacity(&self, group: &str) -> u32 {
        self.setup.emulator.simulated().world(|world, _| world.group(group).expect("it exists").capacity())
    }

    /// Kills Headcount (SIGKILL) and starts it again without any state, at the same address.
    pub(super) async fn restart_headcount(&mut self) {
        self.setup.restart().await;
        self.relay.redirect(self.setup.server().grpc());
    }

    /// Waits until something holds.
    pub(super) async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let wait = async {
            while !holds(self).await {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!("never: {what}; the logs are in {}", self.folder.path().display());
        }
    }

    /// What holds at the end of every scenario: nothing died that the autoscaler did not name, and it complained of nothing
    /// but what the scenario expects.
    pub(super) fn finish(self, expected_complaints: &[&str]) {
        assert_eq!(self.setup.emulator.simulated().killed_unnamed(), [], "nobody named these");
        let is_expected = |line: &String| expected_complaints.iter().any(|expected| line.contains(expected));
        let unexpected: Vec<_> =
            self.autoscaler.provider_complaints().into_iter().filter(|line| !is_expected(line)).collect();
        assert!(unexpected.is_empty(), "the autoscaler complained:\n{}", unexpected.join("\n"));
        drop((self.autoscaler, self.kubelets, self.cluster, self.setup));
        self.folder.remove();
    }
}

/// The node that each group's template describes, as `headcount template` prints it.
fn templates<E: Emulator>(setup: &Setup<E>) -> BTreeMap<String, Value> {
    let groups: Vec<String> =
        setup.emulator.simulated().world(|world, _| world.groups().map(|group| group.name().to_owned()).collect());
    groups.into_iter().map(|group| (group.clone(), template(&setup.config(), &group))).collect()
}

fn template(config: &str, group: &str) -> Value {
    let output = run(&["template", group, "-o", "json", "--config", config]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a node")
}
