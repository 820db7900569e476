//! One scenario's cloud, Headcount, control plane, nodes and Cluster Autoscaler.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use headcount::clouds::simulated::Group;
use serde_json::{Value, json};

use super::BINARIES;
use super::beside::Upstream;
use super::client::Autoscaler;
use super::cluster::{Cluster, HEADCOUNT_KUBECONFIG};
use super::endpoint::{Endpoint, Listener, renew};
use super::folder::Folder;
use super::nodes::{Kubelets, name_of, path_of_pod};
use super::scenario::Scenario;
use crate::emulators::Emulator;
use crate::emulators::certificate_authority::CertificateAuthority;
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
    endpoint: Endpoint,
    upstream: Option<Upstream>,
    binaries: PathBuf,
    flags: Vec<String>,
    pods: AtomicU32,
    folder: Folder,
}

/// The folder of the programs under test. Without it, the scenarios are skipped with a message.
pub(super) fn binaries() -> Option<PathBuf> {
    let folder = std::env::var_os(BINARIES).map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: tests/autoscaler/run builds the Cluster Autoscaler and runs this");
    }
    folder
}

impl<E: Emulator> Fixture<E> {
    /// Starts everything; `None` without the programs under test.
    pub(super) async fn start(scenario: Scenario, emulator: E) -> Option<Self> {
        let binaries = binaries()?;
        let folder = Folder::new(scenario.name);
        let cluster = Cluster::start(&binaries, folder.path()).await;
        if scenario.kubernetes.is_some() {
            cluster.admit_headcount().await;
        }
        let listener = Listener::new(scenario.transport);
        let kubeconfig = folder.path().join(HEADCOUNT_KUBECONFIG).display().to_string();
        let mut setup = Setup::with(emulator, |options| {
            scenario.configure(options, &kubeconfig);
            listener.configure(options);
        })
        .await;
        let groups = templates(&setup, scenario.by_zones)
            .into_iter()
            .filter(|(group, _)| !scenario.silent.contains(&group.as_str()));
        let cloud = setup.emulator.simulated().clone();
        let kubelets = Kubelets::start(cluster.api.clone(), cloud, groups.collect(), &scenario);
        let endpoint = listener.connect(setup.server().listener(), folder.path()).await;
        let mut flags = vec![format!("--scan-interval={}", scenario.scan_interval)];
        flags.extend(scenario.flags.iter().map(|flag| (*flag).to_owned()));
        let mut cloud_config = endpoint.cloud_config(folder.path());
        let upstream = scenario.upstream.then(|| Upstream::start(&setup.emulator, folder.path()));
        if let Some(upstream) = &upstream {
            setup.kill();
            cloud_config = format!("address: \"{}\"\ngrpc_timeout: 5s\n", upstream.address());
        }
        let autoscaler = if scenario.in_tree {
            setup.kill();
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            Autoscaler::in_tree("in-tree", &binaries, folder.path(), &setup.emulator, &flags)
        } else {
            start_autoscaler("cluster-autoscaler", &binaries, folder.path(), &cloud_config, &flags)
        };
        Some(Self {
            autoscaler,
            kubelets,
            cluster,
            setup,
            endpoint,
            upstream,
            binaries,
            flags,
            pods: AtomicU32::new(0),
            folder,
        })
    }

    /// Where the autoscaler's provider listens.
    pub(super) fn provider(&self) -> SocketAddr {
        self.upstream.as_ref().map_or_else(|| self.setup.server().grpc(), Upstream::address)
    }

    /// Starts another autoscaler with the same flags, which calls another Headcount.
    pub(super) fn second_autoscaler(&self, headcount: SocketAddr) -> Autoscaler {
        let cloud_config = format!("address: \"{headcount}\"\ngrpc_timeout: 5s\n");
        start_autoscaler("second-autoscaler", &self.binaries, self.folder.path(), &cloud_config, &self.flags)
    }

    /// Creates a pod with these fields in addition to `metadata.name`, `namespace` and what every pod here has.
    pub(super) async fn create_pod(&self, annotations: Value, requests: Value, node_selector: Value) {
        let number = self.pods.fetch_add(1, Ordering::Relaxed);
        let resources = json!({"requests": requests, "limits": extended(&requests)});
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("pod-{number}"), "namespace": "default", "annotations": annotations},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": node_selector,
                "containers": [{"name": "main", "image": "none", "resources": resources}],
            },
        });
        self.cluster.api.create(&pod).await;
    }

    /// Creates this many pods that request this much CPU.
    pub(super) async fn create_pods(&self, count: u32, cpu: &str) {
        for _ in 0..count {
            self.create_pod(json!({}), json!({"cpu": cpu, "memory": "64Mi"}), json!({})).await;
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

    /// The capacity of a group in the cloud.
    pub(super) fn capacity(&self, group: &str) -> u32 {
        self.setup.emulator.simulated().world(|world, _| world.group(group).expect("it exists").capacity())
    }

    /// The target size of a group, as Headcount returns it.
    pub(super) async fn target(&self, group: &str) -> i32 {
        self.setup.client.clone().target(group).await
    }

    /// Kills Headcount (SIGKILL) and starts it again without any state, at the same address.
    pub(super) async fn restart_headcount(&mut self) {
        self.setup.restart().await;
        self.endpoint.redirect(self.setup.server().grpc());
    }

    /// Ends the connections between the autoscaler and Headcount.
    pub(super) fn cut_connections(&self) {
        self.endpoint.cut();
    }

    /// Replaces the certificates of both ends; the autoscaler reads its own when it starts.
    pub(super) fn renew_certificates(&self, authority: &CertificateAuthority) {
        renew(authority, &self.setup, self.folder.path());
    }

    /// The values of a metric of Headcount: its samples' labels and values, as the text format has them.
    pub(super) fn metric(&self, name: &str) -> Vec<String> {
        let page = self.setup.server().probe("/metrics");
        page.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    }

    /// Waits until a condition holds.
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

    /// Checks what must hold at the end of every scenario: no instance was killed that the autoscaler did not name, and
    /// the autoscaler logged no provider errors but the expected ones.
    pub(super) fn finish(self, expected_errors: &[&str]) {
        assert_eq!(self.setup.emulator.simulated().killed_unnamed(), [], "these were killed, but no call named them");
        let is_expected = |line: &String| expected_errors.iter().any(|expected| line.contains(expected));
        let unexpected: Vec<_> =
            self.autoscaler.provider_errors().into_iter().filter(|line| !is_expected(line)).collect();
        assert!(unexpected.is_empty(), "the autoscaler logged errors of the provider:\n{}", unexpected.join("\n"));
        drop((self.autoscaler, self.kubelets, self.cluster, self.setup, self.endpoint));
        self.folder.remove();
    }
}

fn start_autoscaler(name: &str, binaries: &Path, folder: &Path, cloud_config: &str, flags: &[String]) -> Autoscaler {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Autoscaler::start(name, binaries, folder, cloud_config, &flags)
}

/// The resources that a pod may not request without a limit: those of device plugins.
fn extended(requests: &Value) -> Value {
    let fields = requests.as_object().expect("an object").iter().filter(|(name, _)| name.contains('/'));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

/// The node that each group's template describes, as `headcount template` prints it. For a group that is served by
/// zones, that of its first zone: a node has the zone of its instance.
fn templates<E: Emulator>(setup: &Setup<E>, by_zones: Option<&str>) -> BTreeMap<String, Value> {
    let groups: Vec<(String, String)> = setup.emulator.simulated().world(|world, _| {
        let zone = |group: &Group| group.plan().zones.first().cloned().unwrap_or_default();
        world.groups().map(|group| (group.name().to_owned(), zone(group))).collect()
    });
    let served = |group: &str, zone: &str| match by_zones {
        Some(separate) if separate == group => format!("{group}/{zone}"),
        _ => group.to_owned(),
    };
    let groups = groups.into_iter();
    groups.map(|(group, zone)| (group.clone(), template(&setup.config(), &served(&group, &zone)))).collect()
}

/// A group's template, as `headcount template` prints it.
pub(super) fn template(config: &str, group: &str) -> Value {
    let output = run(&["template", group, "-o", "json", "--config", config]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a node")
}
