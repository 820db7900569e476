//! Learning from real nodes: what they hold is looked at on a cadence, remembered in the catalog, and kept in a ConfigMap,
//! so that a group without nodes still is known after a restart.
//!
//! All of it is beside the reads: they are answered from memory whatever happens here, and where the API server cannot
//! be called, the templates stay as they are. Each thing that goes wrong is said once, and once more when it is over.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::limits::{LEARN_LIMIT, NODE_PAGES, RECALL_LIMIT};
use super::snapshot::{Snapshot, Store};
use crate::instance_types::{Catalog, Day, Learned, NodeIdentity, NodeReport};
use crate::kubernetes::{ConfigMap, KubernetesApi, KubernetesError, Node};

/// Why nothing was learned this time.
#[derive(Debug, Error)]
enum LearningError {
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    #[error("more than {NODE_PAGES} pages of nodes")]
    TooMany,
    #[error("it took longer than {0:?}")]
    Timeout(Duration),
}

/// The task that learns. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "learning ends when this is dropped"]
pub struct Learner(JoinHandle<()>);

impl Drop for Learner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Learner {
    pub(super) fn start(
        api: Arc<dyn KubernetesApi>,
        store: Arc<Store>,
        catalog: Arc<Catalog>,
        ready: watch::Receiver<bool>,
        every: Duration,
    ) -> Self {
        let learning = Learning {
            api,
            store,
            catalog,
            learned: Learned::default(),
            kept: Kept::Unread,
            unsaved: false,
            nodes: Complaint::of("what the nodes hold cannot be learned; what is known already is served"),
            memory: Complaint::of("what was learned cannot be kept; a restart would forget it"),
        };
        Self(tokio::spawn(learning.run(ready, every)))
    }
}

/// Reads what was learned before into a catalog, for a command that wants no more than that. Fails with nothing but a
/// warning.
pub async fn recall(api: &dyn KubernetesApi, catalog: &Catalog) {
    let read = timeout(RECALL_LIMIT, api.get_config_map()).await;
    match read.map_err(|_elapsed| LearningError::Timeout(RECALL_LIMIT)).and_then(|read| Ok(read?)) {
        Ok(found) => catalog.learn(&found.as_ref().map(remembered).unwrap_or_default()),
        Err(error) => {
            tracing::warn!(%error, "what was learned from nodes cannot be read; the template goes without it")
        }
    }
}

/// What a ConfigMap says. One that says nothing usable is warned of, and replaced in time.
fn remembered(found: &ConfigMap) -> Learned {
    let Some(text) = &found.text else { return Learned::default() };
    Learned::parse(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "what was learned before is ignored: the ConfigMap does not hold what Headcount writes");
        Learned::default()
    })
}

/// The state of the ConfigMap.
enum Kept {
    /// Not known; nothing is written until it is.
    Unread,
    /// There is none.
    Absent,
    /// There is one, of this version.
    Version(String),
}

struct Learning {
    api: Arc<dyn KubernetesApi>,
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    learned: Learned,
    kept: Kept,
    /// Whether the ConfigMap lacks something.
    unsaved: bool,
    nodes: Complaint,
    memory: Complaint,
}

impl Learning {
    async fn run(mut self, mut ready: watch::Receiver<bool>, every: Duration) {
        self.remember().await;
        // Whose nodes they are is not known before the groups are.
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        loop {
            let pages = self.look().await;
            self.keep().await;
            sleep(every * pages).await;
        }
    }

    /// Reads the ConfigMap, unless that was done.
    async fn remember(&mut self) {
        if !matches!(self.kept, Kept::Unread) {
            return;
        }
        let read = self.api.get_config_map().await;
        let Some(found) = self.memory.unless(read) else { return };
        self.kept = Kept::Absent;
        if let Some(found) = found {
            let before = remembered(&found);
            self.learned.union(before.clone());
            self.unsaved |= self.learned != before;
            self.kept = Kept::Version(found.version);
        }
        self.catalog.learn(&self.learned);
    }

    /// Looks at all nodes. Answers how many pages they were, at least one.
    async fn look(&mut self) -> u32 {
        let looked = timeout(LEARN_LIMIT, self.node_reports()).await;
        let looked = looked.unwrap_or(Err(LearningError::Timeout(LEARN_LIMIT)));
        let Some((node_reports, pages)) = self.nodes.unless(looked) else { return 1 };
        if self.learned.see(&node_reports, Day::of(SystemTime::now())) {
            tracing::debug!(nodes = node_reports.len(), entries = self.learned.len(), "learned from nodes");
            self.catalog.learn(&self.learned);
            self.unsaved = true;
        }
        pages
    }

    async fn node_reports(&self) -> Result<(Vec<NodeReport>, u32), LearningError> {
        let (mut node_reports, mut from) = (Vec::new(), None);
        for pages in 1..=NODE_PAGES {
            let page = self.api.list_nodes(from.as_deref()).await?;
            let snapshot = self.store.load();
            node_reports.extend(page.nodes.iter().filter_map(|node| node_report(&snapshot, node)));
            from = page.next;
            if from.is_none() {
                return Ok((node_reports, u32::try_from(pages).unwrap_or(1)));
            }
        }
        Err(LearningError::TooMany)
    }

    /// Writes the ConfigMap, where it lacks something.
    async fn keep(&mut self) {
        self.remember().await;
        if !self.unsaved {
            return;
        }
        let text = self.learned.to_text();
        let written = match &self.kept {
            Kept::Unread => return,
            Kept::Absent => self.api.create_config_map(&text).await,
            Kept::Version(version) => self.api.patch_config_map(version, &text).await,
        };
        match &written {
            // Somebody else wrote it: what they know is taken in before the next try.
            Err(error) if error.is_conflict() => {
                self.kept = Kept::Unread;
                return;
            }
            Err(error) if error.is_gone() => self.kept = Kept::Unread,
            _ => {}
        }
        if let Some(written) = self.memory.unless(written) {
            self.kept = Kept::Version(written.version);
            self.unsaved = false;
        }
    }
}

/// What a node shows, where it is ready and of a group.
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

/// Something that may go wrong again and again, and is complained of once.
struct Complaint {
    what: &'static str,
    made: bool,
}

impl Complaint {
    fn of(what: &'static str) -> Self {
        Self { what, made: false }
    }

    /// The outcome, unless it is a failure, which is logged if the last one was none.
    fn unless<T, E: Display>(&mut self, outcome: Result<T, E>) -> Option<T> {
        let changed = self.turn(outcome.is_err());
        match outcome {
            Ok(outcome) => {
                if changed {
                    tracing::info!("learning from nodes goes on");
                }
                Some(outcome)
            }
            Err(error) => {
                if changed {
                    tracing::warn!(%error, "{}", self.what);
                }
                None
            }
        }
    }

    /// Notes how it went. Answers whether that is other than the last time.
    fn turn(&mut self, failed: bool) -> bool {
        std::mem::replace(&mut self.made, failed) != failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_is_worth_a_line() {
        let mut complaint = Complaint::of("something");
        let turns = [false, true, true, true, false, false, true].map(|failed| complaint.turn(failed));
        assert_eq!(turns, [false, true, false, false, true, false, true]);
    }
}
