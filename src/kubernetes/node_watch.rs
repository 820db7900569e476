//! The nodes, as a watch keeps them up to date. Only [`Node`]s are kept of what the API server sends.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::Api;

use super::object_watch::{Kept, ObjectWatch};
use super::transport::Transport;
use super::{KubernetesError, Node, Operation};
use crate::tasks::{TaskKind, Tasks};

/// Nodes kept at most: twice as many as Kubernetes supports in one cluster.
pub const NODES_MAX: usize = 10_000;

/// A watch of all nodes. It ends when this is dropped.
#[must_use = "the watch ends when this is dropped"]
pub struct NodeWatch(ObjectWatch<Nodes>);

impl NodeWatch {
    pub(super) fn start(nodes: Api<ApiNode>, transport: Transport, tasks: &Tasks) -> Self {
        Self(ObjectWatch::start(nodes, transport, tasks))
    }

    /// Waits until all nodes have been listed once, or could not be.
    pub async fn settled(&mut self) {
        self.0.settled().await;
    }

    /// Waits until something has changed since the last call.
    pub async fn changed(&mut self) {
        self.0.changed().await;
    }

    /// All nodes, as far as they are known. Fails while they cannot be watched.
    pub fn nodes(&self) -> Result<Vec<Arc<Node>>, Arc<KubernetesError>> {
        Ok(self.0.read(|nodes| nodes.by_name.values().cloned().collect())?.unwrap_or_default())
    }
}

/// The nodes that are kept.
#[derive(Default)]
pub(super) struct Nodes {
    by_name: BTreeMap<String, Arc<Node>>,
}

impl Kept for Nodes {
    type Object = ApiNode;

    const TASK: TaskKind = TaskKind::NodeWatch;
    const CALLS: [Operation; 2] = [Operation::ListNodes, Operation::WatchNodes];
    // 100 nodes take a few milliseconds.
    const PAGE_OBJECTS: u32 = 100;
    const IS_OPTIONAL: bool = false;

    fn watches_accepted(transport: &Transport) -> u64 {
        transport.node_watches_accepted()
    }

    fn insert(&mut self, node: ApiNode) -> bool {
        let node = Node::from(node);
        let has_room = self.by_name.len() < NODES_MAX || self.by_name.contains_key(&node.name);
        if has_room {
            self.by_name.insert(node.name.clone(), Arc::new(node));
        }
        has_room
    }

    fn remove(&mut self, node: &ApiNode) {
        if let Some(name) = &node.metadata.name {
            self.by_name.remove(name);
        }
    }

    fn log_limit() {
        tracing::warn!(limit = NODES_MAX, "the cluster has too many nodes; the rest of them are ignored");
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::kubernetes::object_watch::State;

    fn mk_node(name: &str) -> ApiNode {
        let mut node = ApiNode::default();
        node.metadata.name = Some(name.to_owned());
        node
    }

    fn names(state: &State<Nodes>) -> Vec<&str> {
        state.kept.by_name.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_list_replaces_the_nodes_only_when_it_is_complete() {
        let mut state = State::<Nodes>::default();
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
        let mut state = State::<Nodes>::default();
        for number in 0..=NODES_MAX {
            state.apply(Event::Apply(mk_node(&format!("{number:06}"))));
        }
        assert_eq!((state.kept.by_name.len(), state.is_over_limit), (NODES_MAX, true));
        let mut known = mk_node("000000");
        known.spec.get_or_insert_default().provider_id = Some("aws:///us-east-1a/i-1".to_owned());
        state.apply(Event::Apply(known));
        assert_eq!(state.kept.by_name["000000"].provider_id, "aws:///us-east-1a/i-1");
    }
}
