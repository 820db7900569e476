//! The real fleet over the simulated cloud, learning through the real client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::fleet::{Fleet, Learner, Policies, Settings};
use headcount::instance_types::Catalog;
use headcount::kubernetes::{self, Client};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::emulators::kubernetes::ApiServer;

/// Where the ConfigMap is with a kubeconfig.
pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const CONFIG_MAP: &str = "headcount-learned";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks at something.
const LOOK: Duration = Duration::from_millis(10);
/// How often the fleet lists its source and looks at the nodes.
const EVERY: Duration = Duration::from_millis(20);

/// A client by the kubeconfig of a folder.
pub(super) fn client(folder: &Path) -> Client {
    let settings = kubernetes::Settings {
        kubeconfig: Some(folder.join("kubeconfig")),
        namespace: None,
        config_map: CONFIG_MAP.to_owned(),
    };
    Client::new(settings, &|_| None).expect("a good kubeconfig")
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
        refresh_interval: EVERY,
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
    }));
    let learner = fleet.learn(Arc::new(client(folder)), EVERY);
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

    /// The fleet and the learner start again, knowing nothing.
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

    /// Waits until the memory of a group's template comes from there, and answers it.
    pub(super) async fn memory_from(&self, group: &str, source: &str) -> String {
        let waiting = async {
            loop {
                let (memory, from) = self.memory(group).await;
                if from.starts_with(source) {
                    return memory;
                }
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never {source}"))
    }

    /// Waits until the nodes have been listed twice more, so that what was there before was taken in, and the groups
    /// too, so that they went by it.
    pub(super) async fn looked_again(&self) {
        let lists = || self.api.requests().iter().filter(|request| request.path == "/api/v1/nodes").count();
        let listings = || self.fleet.sources().map(|(_, health)| health.listings).sum::<u64>();
        let until = lists() + 2;
        let waiting = async {
            while lists() < until {
                sleep(LOOK).await;
            }
            let until = listings() + 2;
            while listings() < until {
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("it looks again");
    }

    /// Waits until the ConfigMap names a node, and answers its text.
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
