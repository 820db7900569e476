//! Compares the nodes of the cluster with the instances of the groups, once a minute.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{Cluster, LiveCluster};
use crate::cloud::{InstanceState, ProviderId, ReadOnlyCloud, Recognition};
use crate::fleet::snapshot::{GroupKey, GroupView, Snapshot};
use crate::kubernetes::{NODES_MAX, Node};

/// An instance of this age is a node, or will never be one: the Cluster Autoscaler's default of
/// --max-node-provision-time.
pub const NODE_AGE: Duration = Duration::from_secs(15 * 60);
/// The most groups whose instances' age is read in one look. Each costs one or a few calls.
const ASKED_MAX: usize = 20;
/// How long the cloud may take to return the age of a group's instances.
const AGE_LIMIT: Duration = Duration::from_secs(10);

/// Compares nodes and groups, and remembers what earlier comparisons showed.
#[derive(Default)]
pub(in crate::fleet) struct Judge {
    clouds: HashMap<Arc<str>, ReadOnlyCloud>,
    cluster: Arc<LiveCluster>,
    groups: HashMap<GroupKey, Known>,
}

/// What is known about a group.
enum Known {
    /// One of its instances was a node of this cluster, so the group belongs to it.
    Ours,
    /// None of its instances was one yet.
    Unproven {
        /// The instances that ran when the group was first seen. Instances that started later were launched for this
        /// cluster. If they fail to join it, the Cluster Autoscaler must be able to delete them.
        inherited: HashSet<ProviderId>,
        /// The inherited instances that are old enough to be nodes.
        old: HashSet<ProviderId>,
    },
}

impl Judge {
    pub(in crate::fleet) fn new(clouds: HashMap<Arc<str>, ReadOnlyCloud>, cluster: Arc<LiveCluster>) -> Self {
        Self { clouds, cluster, groups: HashMap::new() }
    }

    /// Compares all groups with these nodes; `None` if nodes cannot be read.
    pub(in crate::fleet) async fn compare(&mut self, snapshot: &Snapshot, nodes: Option<&[Arc<Node>]>) {
        let nodes: HashSet<ProviderId> = nodes
            .unwrap_or_default()
            .iter()
            .filter(|node| !node.provider_id.is_empty())
            .map(|node| ProviderId::from(node.provider_id.as_str()))
            .collect();
        let views: BTreeMap<&GroupKey, &GroupView> = snapshot.groups().map(|(_, view)| (&view.key, &**view)).collect();
        self.groups.retain(|key, _| views.contains_key(key));
        // Groups are noted even if there are no nodes to compare with: what starts from now on is this cluster's.
        for (key, view) in &views {
            if !self.groups.contains_key(*key) {
                let inherited = running(view).into_iter().cloned().collect();
                self.groups.insert((*key).clone(), Known::Unproven { inherited, old: HashSet::new() });
            }
        }
        // Nothing follows from a list without nodes, or from one that was cut off.
        if nodes.is_empty() || nodes.len() >= NODES_MAX {
            return self.cluster.store(None);
        }
        let comparable = self.comparable_sources(&nodes);
        let ours = self.of_this_cluster(&views, &nodes);
        let mut foreign = HashMap::new();
        let (mut asked, mut found) = (0, Vec::new());
        for (key, view) in views.into_iter().filter(|(key, _)| comparable.contains(&key.source)) {
            let running = running(view);
            let whole = view.whole();
            let Some(known) = self.groups.get_mut(key) else { continue };
            if ours.contains(&whole) {
                *known = Known::Ours;
            }
            let Known::Unproven { inherited, old } = known else { continue };
            inherited.retain(|id| running.contains(id));
            old.retain(|id| inherited.contains(id));
            if old.is_empty() && !inherited.is_empty() && asked < ASKED_MAX {
                asked += 1;
                if let Some(cloud) = self.clouds.get(&key.source) {
                    *old = old_instances(cloud, &whole, inherited).await;
                }
                if !old.is_empty() {
                    found.push((key, old.len()));
                }
            }
            if !old.is_empty() {
                foreign.insert(key.clone(), old.len());
            }
        }
        self.cluster.store(Some(Cluster { judged: Instant::now(), nodes, foreign }));
        for (group, instances) in found {
            tracing::warn!(
                %group, instances,
                "node group seems to belong to another cluster: none of its instances is a node of this one; \
                    deletions are refused"
            );
        }
    }

    /// The groups that belong to this cluster. Where each zone of a group is served, one with a node shows it for all.
    fn of_this_cluster(
        &self,
        views: &BTreeMap<&GroupKey, &GroupView>,
        nodes: &HashSet<ProviderId>,
    ) -> HashSet<GroupKey> {
        let is_ours = |(key, view): &(&&GroupKey, &&GroupView)| {
            matches!(self.groups.get(**key), Some(Known::Ours)) || running(view).iter().any(|id| nodes.contains(*id))
        };
        views.iter().filter(is_ours).map(|(_, view)| view.whole()).collect()
    }

    /// The sources whose IDs have the form of some of these nodes' IDs. Nothing follows about a source from another
    /// cloud's nodes.
    fn comparable_sources(&self, nodes: &HashSet<ProviderId>) -> HashSet<Arc<str>> {
        let recognises =
            |cloud: &ReadOnlyCloud| nodes.iter().any(|id| cloud.recognise(id.as_str()) != Recognition::Foreign);
        self.clouds.iter().filter(|(_, cloud)| recognises(cloud)).map(|(name, _)| Arc::clone(name)).collect()
    }
}

fn running(view: &GroupView) -> HashSet<&ProviderId> {
    let instances = view.status.instances.iter();
    instances
        .filter(|reported| reported.exists && reported.state == InstanceState::Running && reported.failure.is_none())
        .map(|reported| &reported.id)
        .collect()
}

/// The instances that are old enough to be nodes; none if the cloud does not return their age.
async fn old_instances(
    cloud: &ReadOnlyCloud,
    group: &GroupKey,
    inherited: &HashSet<ProviderId>,
) -> HashSet<ProviderId> {
    let instances: Vec<ProviderId> = inherited.iter().cloned().collect();
    let before = cloud.now() - NODE_AGE;
    match timeout(AGE_LIMIT, cloud.created_before(&group.name, &instances, before)).await {
        Ok(Ok(old)) => old.into_iter().collect(),
        Ok(Err(error)) => {
            tracing::debug!(%group, %error, "age of instances cannot be read");
            HashSet::new()
        }
        Err(_elapsed) => HashSet::new(),
    }
}
