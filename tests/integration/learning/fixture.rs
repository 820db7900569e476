//! The real fleet over the simulated cloud, learning through the real client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::fleet::{Cadence, Fleet, Learner, NodeUse, Policies, Settings};
use headcount::instance_types::Catalog;
use headcount::kubernetes::{self, Client, ClusterConfigError};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::emulators::kubernetes::ApiServer;
use crate::peers::headcount::PATIENCE;

/// Where the ConfigMap is with a kubeconfig.
pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const CONFIG_MAP: &str = "headcount-learned";

/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(10);
/// How often the fleet lists its source and learns from the nodes.
const EVERY: Duration = Duration::from_millis(20);

/// A client by the kubeconfig of a folder, which may not run exec plugins.
pub(super) fn client(folder: &Path) -> Client {
    client_of(folder, false).expect("a good kubeconfig")
}

/// A client by the kubeconfig of a folder.
pub(super) fn client_of(folder: &Path, allow_exec: bool) -> Result<Client, ClusterConfigError> {
    let settings = kubernetes::Settings {
        kubeconfig: Some(folder.join("kubeconfig")),
        allow_exec,
        namespace: None,
        config_map: CONFIG_MAP.to_owned(),
    };
    Client::new(settings, &|_| None)
}

/// A fleet with two groups, `web` and `other`, that learns from an API server.
pub(super) struct Fixture {
    pub(super) api: ApiServer,
    pub(super) folder: TempDir,
    cloud: Arc<Simulated>,
    fleet: Arc<Fleet>,
    _learner: Learner,
}

fn start(cloud: &Arc<Simulated>, folder: &Path) -> (Arc<Fleet>, Learner) {
    let fleet = Arc::new(Fleet::start(Settings {
        sources: vec![(Arc::from("sim"), Arc::clone(cloud) as SharedCloud)],
        cadence: Cadence::new(EVERY, None),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
        read_only: false,
    }));
    let learner = fleet.learn(Arc::new(client(folder)), NodeUse { learns: true, follows_taints: true }, EVERY);
    (fleet, learner)
}

impl Fixture {
    pub(super) async fn new(api: ApiServer) -> Self {
        let plan = |name| GroupPlan::aws(name).sized(0, 10, 2).instance_types(&["m5.large"]);
        Self::over(api, Simulated::with_groups(7, [plan("web"), plan("other")])).await
    }

    /// A fleet over another cloud.
    pub(super) async fn over(api: ApiServer, cloud: Simulated) -> Self {
        let cloud = Arc::new(cloud);
        let folder = tempfile::tempdir().expect("a folder");
        api.kubeconfig(folder.path());
        let (fleet, learner) = start(&cloud, folder.path());
        fleet.wait_ready(Instant::now() + PATIENCE).await.expect("ready");
        Self { api, folder, cloud, fleet, _learner: learner }
    }

    /// Starts the fleet and the learner again without any state.
    pub(super) async fn restart(&mut self) {
        let (fleet, learner) = start(&self.cloud, self.folder.path());
        fleet.wait_ready(Instant::now() + PATIENCE).await.expect("ready");
        self.fleet = fleet;
        self._learner = learner;
    }

    /// The provider ID of one of a group's instances.
    pub(super) fn node(&self, group: &str, number: usize) -> String {
        let snapshot = self.fleet.snapshot();
        let (_, view) = snapshot.group(group).expect("served");
        view.status.instances[number].id.to_string()
    }

    async fn value(&self, group: &str, path: &str) -> (String, String) {
        let template = self.fleet.template(group, Instant::now() + PATIENCE).await.expect("a template");
        let value = template.values.iter().find(|value| value.path == path).expect(path);
        (value.value.clone(), value.provenance.to_string())
    }

    /// The memory of a group's template, and its source.
    pub(super) async fn memory(&self, group: &str) -> (String, String) {
        self.value(group, "capacity.memory").await
    }

    pub(super) async fn allocatable(&self, group: &str) -> String {
        self.value(group, "allocatable.memory").await.0
    }

    /// Waits until the memory of a group's template comes from this node, and returns it.
    pub(super) async fn memory_from(&self, group: &str, source: &str) -> String {
        self.memory_of(group, |_, from| from.starts_with(source)).await.0
    }

    /// Waits until this holds of the memory of a group's template and of its source, and returns both.
    pub(super) async fn memory_of(&self, group: &str, holds: impl Fn(&str, &str) -> bool) -> (String, String) {
        let waiting = async {
            loop {
                let (memory, from) = self.memory(group).await;
                if holds(&memory, &from) {
                    return (memory, from);
                }
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("the memory of {group} never is as expected"))
    }

    /// Waits until a group's template has a value of this path, and returns it with its source.
    pub(super) async fn value_of(&self, group: &str, path: &str) -> (String, String) {
        let waiting = async {
            while !self.has(group, path).await {
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never {path}"));
        self.value(group, path).await
    }

    /// Waits until the ConfigMap contains this.
    pub(super) async fn kept_text(&self, part: &str) {
        let text = || self.api.config_map(NAMESPACE, CONFIG_MAP).and_then(|mut data| data.remove("learned.json"));
        self.until("kept", || text().is_some_and(|text| text.contains(part))).await;
    }

    /// Whether a group's template has a value of this path.
    pub(super) async fn has(&self, group: &str, path: &str) -> bool {
        let template = self.fleet.template(group, Instant::now() + PATIENCE).await.expect("a template");
        template.values.iter().any(|value| value.path == path)
    }

    /// Waits until the ConfigMap does not contain this.
    pub(super) async fn removed(&self, part: &str) {
        let has = || self.api.config_map(NAMESPACE, CONFIG_MAP).is_some_and(|data| data["learned.json"].contains(part));
        self.until("removed", || !has()).await;
    }

    /// Waits until the watch has sent all events.
    pub(super) async fn watched(&self) {
        self.until("delivered", || self.api.is_delivered()).await;
    }

    /// Waits until the watch has sent all events, and the fleet and the groups have processed them.
    pub(super) async fn looked_again(&self) {
        self.watched().await;
        self.passed().await;
    }

    /// Waits until the API server has refused a watch or a list since then, and until the groups were listed since.
    pub(super) async fn refused_again(&self) {
        let refused = || self.api.requests().iter().filter(|request| request.status == Some(503)).count();
        let before = refused();
        self.until("refused", || refused() > before).await;
        self.passed().await;
    }

    /// Lets the fleet learn from the nodes and list its groups a few times.
    async fn passed(&self) {
        sleep(10 * EVERY).await;
        let listings = || self.fleet.sources().map(|(_, health)| health.listings).sum::<u64>();
        let enough = listings() + 2;
        self.until("listed", || listings() >= enough).await;
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let waiting = async {
            while !is_so() {
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never {what}"));
    }

    /// Waits until the ConfigMap names a node, and returns its text.
    pub(super) async fn kept(&self, node: &str) -> String {
        let waiting = async {
            loop {
                let text = self.api.config_map(NAMESPACE, CONFIG_MAP).and_then(|mut data| data.remove("learned.json"));
                match text.filter(|text| text.contains(&format!("\"{node}\""))) {
                    Some(text) => return text,
                    None => sleep(LOOK).await,
                }
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{node} never kept"))
    }
}
