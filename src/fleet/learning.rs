//! Learning from real nodes. Headcount watches the nodes and stores their resources in the catalog. A ConfigMap keeps
//! them over restarts, so that the figures of a group without nodes are not lost.
//!
//! Only the first templates wait for any of it: for the ConfigMap. If the API server cannot be called, the templates
//! stay as they are. Each failure is logged once, and once more when it is over.

mod devices;
mod implausible_log;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::failure_log::FailureLog;
use super::foreign::Judge;
use super::limits::{NODES_EVERY, NODES_LIMIT, RECALL_LIMIT, WATCH_RESUMES_WITHIN};
use super::snapshot::Snapshot;
use super::store::Store;
use crate::cloud::ProviderId;
use crate::group::{ClusterNodes, WatchedNodes};
use crate::instance_types::{Catalog, Day, Learned, NodeIdentity, NodeReport};
use crate::kubernetes::{ConfigMap, KubernetesApi, KubernetesError, Node, NodeWatch, ResourceSliceWatch};
use crate::tasks::{TaskKind, Tasks};
use devices::{Devices, is_settled};
use implausible_log::ImplausibleLog;

/// Drivers remembered as logged.
const DRIVERS_LOGGED_MAX: usize = 100;
/// How long a start tries to read the ConfigMap before templates are built without it.
const REMEMBER_LIMIT: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const REMEMBER_PAUSE: Duration = Duration::from_secs(1);

/// Why nothing was learned this time.
#[derive(Debug, Error)]
enum LearningError {
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    #[error(transparent)]
    Watch(#[from] Arc<KubernetesError>),
    #[error("no response within {0:?}")]
    Timeout(Duration),
}

/// The task that learns. It ends when this is dropped. What is known about the nodes stays, and another task may
/// continue with it.
#[derive(Debug)]
#[must_use = "learning ends when this is dropped"]
pub struct Learner {
    task: JoinHandle<()>,
    store: Arc<Store>,
    remembered: watch::Sender<bool>,
}

impl Drop for Learner {
    fn drop(&mut self) {
        self.task.abort();
        self.remembered.send_replace(true);
    }
}

/// Why the cluster's nodes are watched, besides comparing them with the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeUse {
    /// Whether figures are learned from them, and kept in the ConfigMap.
    pub learns: bool,
    /// Whether CA's taints are followed.
    pub follows_taints: bool,
}

/// Where learned figures go.
pub(super) struct LearnedState {
    /// The catalog that templates are built from.
    pub catalog: Arc<Catalog>,
    /// Whether it has the figures of the ConfigMap.
    pub remembered: watch::Sender<bool>,
    /// Whether the ConfigMap is written.
    pub is_saved: bool,
    /// Compares nodes with groups.
    pub judge: Judge,
}

impl Learner {
    pub(super) fn start(
        api: Arc<dyn KubernetesApi>,
        store: Arc<Store>,
        LearnedState { catalog, remembered, is_saved, judge }: LearnedState,
        ready: watch::Receiver<bool>,
        (uses, every): (NodeUse, Duration),
        tasks: &Tasks,
    ) -> Self {
        // An earlier task may have listed the nodes already.
        if **store.cluster_nodes() == ClusterNodes::Unwatched {
            store.set_cluster_nodes(ClusterNodes::Awaited);
        }
        remembered.send_replace(!uses.learns);
        let mut learning = Learning {
            remembered: remembered.clone(),
            api,
            store: Arc::clone(&store),
            catalog,
            learned: Learned::default(),
            saved: Saved::Unread,
            unsaved: false,
            is_saved,
            judge: Arc::new(judge),
            uses,
            implausible: ImplausibleLog::default(),
            unread_drivers: BTreeSet::new(),
            slices: FailureLog::of(
                "ResourceSlices cannot be watched; the devices of nodes are not learned",
                "ResourceSlices can be watched again; the devices of nodes are learned",
            ),
            nodes: FailureLog::of(
                "nodes cannot be watched; nothing is learned from them, and no node of another cluster is protected",
                "nodes can be watched again; learning from them continues",
            ),
            saving: FailureLog::of(
                "what was learned from nodes cannot be saved; a restart would forget it",
                "what was learned from nodes can be saved again",
            ),
        };
        let mut restarts = tasks.supervise(TaskKind::Learning, "");
        let tasks = tasks.clone();
        let task = tokio::spawn(async move { while restarts.run(learning.run(ready.clone(), every, &tasks)).await {} });
        Self { task, store, remembered }
    }

    /// Ends it for good: the nodes are no longer watched.
    pub fn stop(self) {
        self.task.abort();
        self.store.set_cluster_nodes(ClusterNodes::Unwatched);
    }
}

/// Reads what was learned before into a catalog, for a command that needs nothing else. A failure is only logged.
pub async fn recall(api: &dyn KubernetesApi, catalog: &Catalog) {
    let read = timeout(RECALL_LIMIT, api.get_config_map()).await;
    match read.map_err(|_elapsed| LearningError::Timeout(RECALL_LIMIT)).and_then(|read| Ok(read?)) {
        Ok(found) => {
            let mut learned = found.as_ref().map(remembered).unwrap_or_default();
            judge(&mut learned, catalog, &mut ImplausibleLog::default());
            catalog.learn(&learned);
        }
        Err(error) => {
            tracing::warn!(%error, "what was learned from nodes cannot be read; the template is built without it")
        }
    }
}

/// The figures in a ConfigMap. A ConfigMap that cannot be used is logged, and replaced with the next change.
fn remembered(found: &ConfigMap) -> Learned {
    let Some(text) = &found.text else { return Learned::default() };
    Learned::parse(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "the ConfigMap does not hold what Headcount writes; it is ignored and will be replaced");
        Learned::default()
    })
}

/// Drops what is too old, and what cannot be true, with a warning. Returns whether anything was dropped.
fn judge(learned: &mut Learned, catalog: &Catalog, log: &mut ImplausibleLog) -> bool {
    let before = learned.clone();
    learned.expire(Day::of(SystemTime::now()));
    for (node, figure) in learned.judge(&|type_name| catalog.sold(type_name)) {
        log.saved(&node, &figure);
    }
    *learned != before
}

/// The state of the ConfigMap.
enum Saved {
    /// Not known; nothing is written until it is.
    Unread,
    /// There is none.
    Absent,
    /// There is one, of this version.
    Version(String),
}

struct Learning {
    remembered: watch::Sender<bool>,
    api: Arc<dyn KubernetesApi>,
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    learned: Learned,
    saved: Saved,
    /// Whether the ConfigMap lacks something.
    unsaved: bool,
    /// Whether the ConfigMap is written at all.
    is_saved: bool,
    judge: Arc<Judge>,
    uses: NodeUse,
    implausible: ImplausibleLog,
    /// Drivers whose slices cannot be read, and that were logged.
    unread_drivers: BTreeSet<String>,
    slices: FailureLog,
    nodes: FailureLog,
    saving: FailureLog,
}

impl Learning {
    async fn run(&mut self, mut ready: watch::Receiver<bool>, every: Duration, tasks: &Tasks) {
        if self.uses.learns {
            // The network of a pod may not be ready yet. Without the figures, templates would promise what nodes do not have.
            let until = Instant::now() + REMEMBER_LIMIT;
            while !self.remember().await && Instant::now() < until {
                sleep(REMEMBER_PAUSE).await;
            }
            self.remembered.send_replace(true);
        }
        // Nodes cannot be assigned to groups before the groups are known.
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        let mut nodes = self.api.watch_nodes(tasks);
        let slices = self.uses.learns.then(|| self.api.watch_resource_slices(tasks));
        loop {
            let watched = self.learn_from(&mut nodes, slices.as_ref()).await;
            // A cloud that does not respond must not keep taints waiting.
            let (judge, snapshot) = (Arc::clone(&self.judge), Arc::clone(&self.store.load()));
            tokio::join!(judge.compare(&snapshot, watched.as_deref()), self.save_and_follow(&mut nodes, every));
        }
    }

    async fn save_and_follow(&mut self, nodes: &mut NodeWatch, every: Duration) {
        if self.uses.learns {
            self.save().await;
        }
        self.follow(nodes, Instant::now() + every).await;
    }

    /// Notes which nodes there are and which of them CA has tainted, until this moment. If nodes cannot be watched, the
    /// last known ones stay, and a failure that lasts is logged.
    async fn follow(&mut self, nodes: &mut NodeWatch, until: Instant) {
        let mut logged_at = None;
        loop {
            logged_at = match self.note(nodes) {
                Ok(()) => None,
                Err(error) => {
                    let lasts_until = *logged_at.get_or_insert_with(|| Instant::now() + WATCH_RESUMES_WITHIN);
                    if lasts_until <= Instant::now() {
                        let _logged = self.nodes.unless(Err::<(), _>(error));
                    }
                    Some(lasts_until)
                }
            };
            let wakes = logged_at.filter(|at| Instant::now() < *at).map_or(until, |at| at.min(until));
            let has_changed = timeout_at(wakes, nodes.changed()).await.is_ok();
            // Where nodes change all the time, they have changed whenever this looks.
            if Instant::now() >= until {
                return;
            }
            if has_changed {
                sleep(NODES_EVERY).await;
            }
        }
    }

    fn note(&self, nodes: &NodeWatch) -> Result<(), Arc<KubernetesError>> {
        match nodes.nodes() {
            Ok(nodes) => self.store.set_cluster_nodes(self.cluster_nodes(&nodes)),
            Err(error) => {
                if **self.store.cluster_nodes() == ClusterNodes::Awaited {
                    self.store.set_cluster_nodes(ClusterNodes::Unwatched);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn cluster_nodes(&self, nodes: &[Arc<Node>]) -> ClusterNodes {
        let id = |node: &Arc<Node>| ProviderId::from(node.provider_id.as_str());
        let is_tainted = |node: &&Arc<Node>| self.uses.follows_taints && node.is_to_be_deleted;
        let registered = nodes.iter().filter(|node| !node.provider_id.is_empty());
        let all = registered.clone().map(id).collect();
        ClusterNodes::Watched(WatchedNodes { all, tainted: registered.filter(is_tainted).map(id).collect() })
    }

    /// Reads the ConfigMap, unless it has been read. Returns whether it has been read, or the API server refuses it.
    async fn remember(&mut self) -> bool {
        if !matches!(self.saved, Saved::Unread) {
            return true;
        }
        let read = self.api.get_config_map().await;
        let is_refused = read.as_ref().is_err_and(KubernetesError::is_refusal);
        let Some(found) = self.saving.unless(read) else { return is_refused };
        self.saved = Saved::Absent;
        if let Some(found) = found {
            let before = remembered(&found);
            self.learned.union(before.clone());
            judge(&mut self.learned, &self.catalog, &mut self.implausible);
            self.unsaved |= self.learned != before;
            self.saved = Saved::Version(found.version);
        }
        self.catalog.learn(&self.learned);
        true
    }

    /// Learns from all nodes that the watch knows, and returns them; `None` if they cannot be watched.
    async fn learn_from(
        &mut self,
        nodes: &mut NodeWatch,
        slices: Option<&ResourceSliceWatch>,
    ) -> Option<Vec<Arc<Node>>> {
        let settled = timeout(NODES_LIMIT, nodes.settled()).await;
        let settled = settled.map_err(|_elapsed| LearningError::Timeout(NODES_LIMIT));
        let _failure = self.note(nodes);
        let watched = settled.and_then(|()| Ok(nodes.nodes()?));
        let watched = self.nodes.unless(watched)?;
        if self.uses.learns {
            self.learn(&watched, slices);
        }
        Some(watched)
    }

    fn learn(&mut self, watched: &[Arc<Node>], slices: Option<&ResourceSliceWatch>) {
        let snapshot = Arc::clone(&self.store.load());
        let reports = watched.iter().filter_map(|node| node_report(&snapshot, node));
        let reports: Vec<_> = reports.filter_map(|report| self.plausible(report)).collect();
        // Types that were not known when the ConfigMap was read may be known now.
        let catalog = Arc::clone(&self.catalog);
        let has_dropped = judge(&mut self.learned, &catalog, &mut self.implausible);
        let has_devices = slices.is_some_and(|slices| self.look_at_devices(&reports, slices));
        let (now, sold) = (SystemTime::now(), |type_name: &str| catalog.sold(type_name));
        let is_settled = |report: &NodeReport| is_settled(report, now);
        let has_learned = self.learned.learn(&reports, &is_settled, &sold, Day::of(now));
        if has_learned || has_dropped || has_devices {
            tracing::debug!(nodes = reports.len(), entries = self.learned.len(), "learned from nodes");
            self.catalog.learn(&self.learned);
            self.unsaved = true;
        }
    }

    /// Learns which devices the drivers of the nodes publish. Returns whether that is new.
    fn look_at_devices(&mut self, reports: &[NodeReport], slices: &ResourceSliceWatch) -> bool {
        let Some(Some(by_node)) = self.slices.unless(slices.by_node()) else { return false };
        let now = SystemTime::now();
        let Devices { reports, settled, unread } = Devices::of(reports, &by_node, now);
        self.unread_drivers.retain(|driver| unread.contains_key(driver));
        for (driver, reason) in unread {
            if self.unread_drivers.len() < DRIVERS_LOGGED_MAX && !self.unread_drivers.contains(&driver) {
                tracing::warn!(driver, reason, "the ResourceSlices of a driver cannot be used in templates");
                self.unread_drivers.insert(driver);
            }
        }
        self.learned.learn_devices(&reports, &settled, Day::of(now))
    }

    /// A report without the figures that cannot be true; `None` if too little is left.
    fn plausible(&mut self, report: NodeReport) -> Option<NodeReport> {
        let (node, type_name) = (report.node().to_owned(), report.type_name().to_owned());
        let (report, found) = report.judged(&|type_name| self.catalog.sold(type_name));
        for figure in found {
            self.implausible.reported(&node, &type_name, &figure);
        }
        report
    }

    /// Writes the ConfigMap, if it lacks something.
    async fn save(&mut self) {
        self.remember().await;
        if !self.unsaved || !self.is_saved {
            return;
        }
        let text = self.learned.to_text();
        let written = match &self.saved {
            Saved::Unread => return,
            Saved::Absent => self.api.create_config_map(&text).await,
            Saved::Version(version) => self.api.patch_config_map(version, &text).await,
        };
        match &written {
            // Another client wrote it. Its figures are merged before the next attempt.
            Err(error) if error.is_conflict() => {
                self.saved = Saved::Unread;
                return;
            }
            Err(error) if error.is_gone() => self.saved = Saved::Unread,
            _ => {}
        }
        if let Some(written) = self.saving.unless(written) {
            self.saved = Saved::Version(written.version);
            self.unsaved = false;
        }
    }
}

/// The report of a node, if it is ready and belongs to a group.
fn node_report(snapshot: &Snapshot, node: &Node) -> Option<NodeReport> {
    if !node.ready {
        return None;
    }
    let (_, view) = snapshot.group_of(&node.provider_id)?;
    let identity = NodeIdentity {
        group: &view.key.to_string(),
        family: view.family,
        type_name: &node.instance_type,
        image: &node.image,
        node: &node.name,
        created: &node.created,
    };
    NodeReport::of(identity, &node.capacity, &node.allocatable)
}
