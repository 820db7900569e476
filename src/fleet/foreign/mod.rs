//! Whether a node group belongs to another cluster.
//!
//! The Cluster Autoscaler deletes instances that do not become nodes of its cluster within 15 minutes. If a group's
//! tags were copied from another cluster's, or two clusters discover the same groups, these instances are the other
//! cluster's nodes (autoscaler #8084). If a group seems to belong to another cluster, Headcount therefore deletes only
//! instances that are nodes of this one.
//!
//! The decision is pure. `judge.rs` collects what it needs. If nodes cannot be read, nothing is refused.

mod judge;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::Instant;

pub(super) use judge::Judge;
pub use judge::NODE_AGE;
use judge::Seen;

use super::snapshot::GroupKey;
use crate::cloud::ProviderId;
use crate::group::Foreign;

/// A judgement that is older than this is not used. Nodes are read once a minute, so they can no longer be read.
const JUDGEMENT_LIFE: Duration = Duration::from_secs(3 * 60);

/// What the nodes of the cluster show about node groups.
#[derive(Debug)]
pub(super) struct Cluster {
    judged: Instant,
    nodes: HashSet<ProviderId>,
    /// The groups that have instances which this process did not launch and which are old enough to be nodes, although
    /// none of them is one. The value is the number of such instances.
    foreign: HashMap<GroupKey, usize>,
}

impl Cluster {
    /// Whether an instance is a node of this cluster.
    pub(super) fn has(&self, id: &ProviderId) -> bool {
        self.nodes.contains(id)
    }

    /// Which of these instances of a group are no nodes of this cluster, if the group seems to belong to another one.
    /// `clusters` are those that the group's tags name.
    pub(super) fn foreign<'a>(
        &self,
        group: &GroupKey,
        clusters: &BTreeSet<String>,
        named: impl Iterator<Item = &'a ProviderId>,
    ) -> Option<Foreign> {
        let reason = match self.foreign.get(group) {
            Some(number) => format!("none of its {number} instances older than 15 minutes is a node of this cluster"),
            None if clusters.len() > 1 => {
                let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
                format!("its tags name the clusters {}", names.join(" and "))
            }
            None => return None,
        };
        let instances: BTreeSet<ProviderId> = named.filter(|id| !self.nodes.contains(*id)).cloned().collect();
        (!instances.is_empty()).then_some(Foreign { instances, reason })
    }
}

/// What is known about the cluster's nodes now. Keepers read it, and one task replaces it.
#[derive(Debug, Default)]
pub(super) struct LiveCluster {
    last: ArcSwapOption<Cluster>,
    /// What earlier comparisons showed. A task that takes over after a reload goes on from it: this process has launched
    /// what started since.
    seen: Mutex<HashMap<GroupKey, Seen>>,
}

impl LiveCluster {
    /// The last judgement; `None` if there are no nodes to compare with, or if it is too old.
    pub(super) fn load(&self, now: Instant) -> Option<Arc<Cluster>> {
        let cluster = self.last.load_full()?;
        (now.saturating_duration_since(cluster.judged) <= JUDGEMENT_LIFE).then_some(cluster)
    }

    fn store(&self, cluster: Option<Cluster>) {
        self.last.store(cluster.map(Arc::new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ProviderId {
        ProviderId::from(name)
    }

    fn key(name: &str) -> GroupKey {
        GroupKey { source: "us".into(), name: name.into() }
    }

    fn cluster(foreign: &[&str]) -> Cluster {
        Cluster {
            judged: Instant::now(),
            nodes: [id("aws:///a/i-1"), id("aws:///a/i-2")].into(),
            foreign: foreign.iter().map(|name| (key(name), 3)).collect(),
        }
    }

    fn tags(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The named instances that are not deleted, and why.
    fn foreign(of: &[&str], group: &str, clusters: &[&str], named: &[&str]) -> Option<(usize, String)> {
        let named: Vec<ProviderId> = named.iter().map(|name| id(name)).collect();
        let found = cluster(of).foreign(&key(group), &tags(clusters), named.iter())?;
        Some((found.instances.len(), found.reason))
    }

    #[test]
    fn instances_of_a_group_without_any_node_are_not_deleted() {
        let (number, reason) = foreign(&["web"], "web", &[], &["aws:///a/i-9"]).expect("foreign");
        assert_eq!(number, 1);
        assert!(reason.contains("none of its 3 instances older than 15 minutes"), "{reason}");
        assert_eq!(foreign(&["web"], "db", &["prod"], &["aws:///a/i-9"]), None);
    }

    #[test]
    fn a_group_that_is_tagged_for_two_clusters_loses_only_nodes_of_this_one() {
        let both = ["prod", "staging"];
        assert_eq!(foreign(&[], "web", &both, &["aws:///a/i-1", "AWS:///a/I-2"]), None);
        let (number, reason) = foreign(&[], "web", &both, &["aws:///a/i-1", "aws:///a/i-9"]).expect("foreign");
        assert_eq!(number, 1, "the other one is a node of this cluster");
        assert!(reason.contains("its tags name the clusters prod and staging"), "{reason}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_judgement_ends_when_nodes_can_no_longer_be_read() {
        let live = LiveCluster::default();
        assert!(live.load(Instant::now()).is_none());
        live.store(Some(cluster(&["web"])));
        assert!(live.load(Instant::now() + JUDGEMENT_LIFE).is_some());
        assert!(live.load(Instant::now() + JUDGEMENT_LIFE + Duration::from_secs(1)).is_none());
    }
}
