//! The nodes, as a watch keeps them up to date.
//!
//! `kube`'s watcher lists the nodes page by page, watches from there on, resumes where a connection ended, and lists
//! again where the API server no longer has the version to resume from. Only [`Node`]s are kept of what it sends.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::transport::Transport;
use super::watch_failure::WatchFailure;
use super::{KubernetesError, Node, Operation};
use crate::tasks::{TaskKind, Tasks};

/// Nodes kept at most: twice as many as Kubernetes supports in one cluster.
pub const NODES_MAX: usize = 10_000;
/// Nodes in a page of a list. A page is decoded at once, and 100 nodes take a few milliseconds.
const PAGE_NODES: u32 = 100;
/// How long to wait before nodes are listed again because a watch cannot be resumed.
const RELIST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such wait, where no watch that is started lasts.
const RELIST_PAUSE_MAX: Duration = Duration::from_secs(60);

/// A watch of all nodes. It ends when this is dropped.
#[must_use = "the watch ends when this is dropped"]
pub struct NodeWatch {
    state: watch::Receiver<State>,
    transport: Transport,
    task: JoinHandle<()>,
}

impl Drop for NodeWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NodeWatch {
    pub(super) fn start(nodes: Api<ApiNode>, transport: Transport, tasks: &Tasks) -> Self {
        let (sender, state) = watch::channel(State::default());
        let (sender, shared) = (Arc::new(sender), transport.clone());
        // A new watcher starts with a list, so it needs no state of the previous one.
        let task =
            tasks.spawn(TaskKind::NodeWatch, "", move || follow(nodes.clone(), shared.clone(), Arc::clone(&sender)));
        Self { state, transport, task }
    }

    /// Waits until all nodes have been listed once, or could not be.
    pub async fn settled(&mut self) {
        // The task ends only when this value is dropped.
        let _ended = self.state.wait_for(|state| state.is_listed || state.failure.is_some()).await;
    }

    /// Waits until something has changed since the last call.
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // The watch has ended, and nothing changes any more.
            std::future::pending::<()>().await;
        }
    }

    /// All nodes, as far as they are known. Fails while they cannot be watched.
    pub fn nodes(&self) -> Result<Vec<Arc<Node>>, Arc<KubernetesError>> {
        let state = self.state.borrow();
        let accepted = self.transport.node_watches_accepted();
        match state.failure.as_ref().and_then(|failure| failure.lasting(accepted)) {
            Some(error) => Err(error),
            None => Ok(state.nodes.values().cloned().collect()),
        }
    }
}

/// What a watch knows.
#[derive(Default)]
struct State {
    nodes: Nodes,
    /// What a list that is being read has shown so far. It replaces the nodes when it is complete.
    listing: Nodes,
    is_listed: bool,
    is_over_limit: bool,
    failure: Option<WatchFailure>,
}

type Nodes = BTreeMap<String, Arc<Node>>;

impl State {
    fn apply(&mut self, event: Event<Node>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(node) => self.is_over_limit |= !insert(&mut self.listing, node),
            Event::InitDone => {
                self.nodes = std::mem::take(&mut self.listing);
                self.is_listed = true;
                self.failure = None;
            }
            Event::Apply(node) => {
                self.is_over_limit |= !insert(&mut self.nodes, node);
                self.failure = None;
            }
            Event::Delete(node) => {
                self.nodes.remove(&node.name);
                self.failure = None;
            }
        }
    }
}

/// Keeps a node, unless there are too many. Returns whether it did.
fn insert(nodes: &mut Nodes, node: Node) -> bool {
    let has_room = nodes.len() < NODES_MAX || nodes.contains_key(&node.name);
    if has_room {
        nodes.insert(node.name.clone(), Arc::new(node));
    }
    has_room
}

async fn follow(nodes: Api<ApiNode>, transport: Transport, state: Arc<watch::Sender<State>>) {
    let mut pause = RELIST_PAUSE;
    loop {
        let config = watcher::Config::default().page_size(PAGE_NODES);
        let mut events = pin!(watcher(nodes.clone(), config).default_backoff());
        while let Some(event) = events.next().await {
            let watches_accepted = transport.node_watches_accepted();
            match event.map_err(|error| KubernetesError::of_watch(Operation::ListNodes, Operation::WatchNodes, error)) {
                Ok(event) => {
                    if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                        pause = RELIST_PAUSE;
                    }
                    apply(&state, project(event));
                }
                // Not a failure: a new watcher starts with a list. kube's own would retry forever where the API server
                // refuses to start a watch with this.
                Err(error) if error.is_expired() => break,
                Err(error) => {
                    let failure = WatchFailure::new(error, watches_accepted);
                    state.send_modify(|state| state.failure = Some(failure));
                }
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(RELIST_PAUSE_MAX);
    }
}

fn apply(state: &watch::Sender<State>, event: Event<Node>) {
    let mut is_first_over_limit = false;
    state.send_modify(|state| {
        let before = state.is_over_limit;
        state.apply(event);
        is_first_over_limit = state.is_over_limit && !before;
    });
    if is_first_over_limit {
        tracing::warn!(limit = NODES_MAX, "the cluster has too many nodes; the rest of them are ignored");
    }
}

/// Drops everything of a node that Headcount does not need.
fn project(event: Event<ApiNode>) -> Event<Node> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(node) => Event::InitApply(node.into()),
        Event::InitDone => Event::InitDone,
        Event::Apply(node) => Event::Apply(node.into()),
        Event::Delete(node) => Event::Delete(node.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_node(name: &str) -> Node {
        Node { name: name.to_owned(), ..Node::default() }
    }

    fn names(state: &State) -> Vec<&str> {
        state.nodes.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_list_replaces_the_nodes_only_when_it_is_complete() {
        let mut state = State::default();
        for event in [Event::Init, Event::InitApply(mk_node("a")), Event::InitApply(mk_node("b")), Event::InitDone] {
            state.apply(event);
        }
        state.apply(Event::Apply(mk_node("c")));
        state.apply(Event::Delete(mk_node("a")));
        assert_eq!(names(&state), ["b", "c"]);
        state.apply(Event::Init);
        state.apply(Event::InitApply(mk_node("d")));
        assert_eq!(names(&state), ["b", "c"]);
        state.apply(Event::InitDone);
        assert_eq!(names(&state), ["d"]);
    }

    #[test]
    fn no_more_nodes_are_kept_than_the_limit_and_known_ones_are_still_updated() {
        let mut state = State::default();
        for number in 0..=NODES_MAX {
            state.apply(Event::Apply(mk_node(&format!("{number:06}"))));
        }
        assert_eq!((state.nodes.len(), state.is_over_limit), (NODES_MAX, true));
        state.apply(Event::Apply(Node { ready: true, ..mk_node("000000") }));
        assert!(state.nodes["000000"].ready);
    }
}
