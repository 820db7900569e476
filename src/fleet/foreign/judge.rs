//! Compares the nodes of the cluster with the instances of the groups, once a minute.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use tokio::time::{Instant, timeout};

use super::{Cluster, LiveCluster};
use crate::cloud::{Identity, InstanceState, ProviderId, ReadOnlyCloud, Recognition, differ};
use crate::fleet::snapshot::{GroupKey, GroupView, Snapshot};
use crate::kubernetes::{NODES_MAX, Node};

/// An instance of this age is a node, or will never be one: the Cluster Autoscaler's default of
/// --max-node-provision-time.
pub const NODE_AGE: Duration = Duration::from_secs(15 * 60);
/// The most groups whose instances' age is read in one look. Each costs one or a few calls.
const ASKED_MAX: usize = 20;
/// How many of them are read at a time. All have to be read well within the life of a judgement.
const ASKED_AT_ONCE: usize = 4;
/// How long the cloud may take to return the age of a group's instances.
const AGE_LIMIT: Duration = Duration::from_secs(10);

/// Compares nodes and groups.
#[derive(Default)]
pub(in crate::fleet) struct Judge {
    clouds: HashMap<Arc<str>, ReadOnlyCloud>,
    cluster: Arc<LiveCluster>,
}

/// A group that was compared. Another one under its name is judged anew.
#[derive(Debug)]
pub(super) struct Seen {
    identity: Option<Identity>,
    known: Known,
    /// When its instances' age was last read.
    asked: Option<Instant>,
}

/// What is known about a group.
#[derive(Debug)]
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

/// A group whose instances' age is to be read.
struct Due {
    /// When it was last read.
    asked: Option<Instant>,
    key: GroupKey,
    /// The group itself, where it is served by zones.
    whole: GroupKey,
    /// The instances.
    inherited: HashSet<ProviderId>,
}

impl Judge {
    pub(in crate::fleet) fn new(clouds: HashMap<Arc<str>, ReadOnlyCloud>, cluster: Arc<LiveCluster>) -> Self {
        Self { clouds, cluster }
    }

    /// Compares all groups with these nodes. `nodes` is `None` if they cannot be read.
    pub(in crate::fleet) async fn compare(&self, snapshot: &Snapshot, nodes: Option<&[Arc<Node>]>) {
        let nodes: HashSet<ProviderId> = nodes
            .unwrap_or_default()
            .iter()
            .filter(|node| !node.provider_id.is_empty())
            .map(|node| ProviderId::from(node.provider_id.as_str()))
            .collect();
        let views: BTreeMap<&GroupKey, &GroupView> = snapshot.groups().map(|(_, view)| (&view.key, &**view)).collect();
        let mut groups = self.cluster.seen.lock().await;
        note_groups(&mut groups, &views);
        // Nothing follows from a list without nodes, or from one that was cut off.
        if nodes.is_empty() || nodes.len() >= NODES_MAX {
            return self.cluster.store(None);
        }
        let comparable = self.comparable_sources(&nodes);
        let due = note_nodes(&mut groups, &views, &nodes, &comparable);
        let found = self.read_ages(&mut groups, due).await;
        let is_compared = |key: &GroupKey| comparable.contains(&key.source);
        let foreign = groups.iter().filter(|(key, _)| is_compared(key));
        let foreign = foreign.filter_map(|(key, seen)| Some((key.clone(), seen.foreign()?))).collect();
        self.cluster.store(Some(Cluster { judged: Instant::now(), nodes, foreign }));
        for (group, ids) in found {
            tracing::warn!(
                %group, instances = ids.len(),
                "node group seems to belong to another cluster: none of its instances is a node of this one; \
                    they are deleted only with foreign: allow"
            );
        }
    }

    /// Reads which instances of these groups are old enough to be nodes: of as many groups as one look allows. Returns
    /// the groups that have such instances.
    async fn read_ages(
        &self,
        groups: &mut HashMap<GroupKey, Seen>,
        mut due: Vec<Due>,
    ) -> Vec<(GroupKey, HashSet<ProviderId>)> {
        // Those of a region that does not respond must not keep the others waiting in every look.
        due.sort_by(|one, other| (one.asked, &one.key).cmp(&(other.asked, &other.key)));
        due.truncate(ASKED_MAX);
        let mut asked = Vec::new();
        for Due { key, whole, inherited, .. } in due {
            groups.entry(key.clone()).and_modify(|seen| seen.asked = Some(Instant::now()));
            let cloud = self.clouds.get(&key.source);
            asked.extend(cloud.map(|cloud| async move { (key, old_instances(cloud, &whole, &inherited).await) }));
        }
        let mut found: Vec<_> = iter(asked).buffer_unordered(ASKED_AT_ONCE).collect().await;
        found.retain(|(_, ids)| !ids.is_empty());
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (key, ids) in &found {
            if let Some(Seen { known: Known::Unproven { old, .. }, .. }) = groups.get_mut(key) {
                old.clone_from(ids);
            }
        }
        found
    }

    /// The sources whose IDs have the form of some of these nodes' IDs. Nothing follows about a source from another
    /// cloud's nodes.
    fn comparable_sources(&self, nodes: &HashSet<ProviderId>) -> HashSet<Arc<str>> {
        let recognises =
            |cloud: &ReadOnlyCloud| nodes.iter().any(|id| cloud.recognise(id.as_str()) != Recognition::Foreign);
        self.clouds.iter().filter(|(_, cloud)| recognises(cloud)).map(|(name, _)| Arc::clone(name)).collect()
    }
}

/// Notes the groups that there are, even if there are no nodes to compare with: what starts from now on is this
/// cluster's.
fn note_groups(groups: &mut HashMap<GroupKey, Seen>, views: &BTreeMap<&GroupKey, &GroupView>) {
    groups.retain(|key, seen| views.get(key).is_some_and(|view| !differ(seen.identity, view.identity)));
    for (key, view) in views {
        let seen = groups.entry((*key).clone()).or_insert_with(|| Seen::first(view));
        seen.identity = view.identity.or(seen.identity);
    }
}

/// Notes which groups have one of these nodes. Returns the others of comparable sources of which it is not known
/// whether their instances are old enough to be nodes.
fn note_nodes(
    groups: &mut HashMap<GroupKey, Seen>,
    views: &BTreeMap<&GroupKey, &GroupView>,
    nodes: &HashSet<ProviderId>,
    comparable: &HashSet<Arc<str>>,
) -> Vec<Due> {
    let ours = of_this_cluster(groups, views, nodes);
    let mut due = Vec::new();
    for (key, view) in views.iter().filter(|(key, _)| comparable.contains(&key.source)) {
        let (running, whole) = (running(view), view.whole());
        let Some(seen) = groups.get_mut(*key) else { continue };
        if ours.contains(&whole) {
            seen.known = Known::Ours;
        }
        let Known::Unproven { inherited, old } = &mut seen.known else { continue };
        inherited.retain(|id| running.contains(id));
        old.retain(|id| inherited.contains(id));
        if old.is_empty() && !inherited.is_empty() {
            due.push(Due { asked: seen.asked, key: (*key).clone(), whole, inherited: inherited.clone() });
        }
    }
    due
}

/// The groups that belong to this cluster. Where each zone of a group is served, one with a node shows it for all.
fn of_this_cluster(
    groups: &HashMap<GroupKey, Seen>,
    views: &BTreeMap<&GroupKey, &GroupView>,
    nodes: &HashSet<ProviderId>,
) -> HashSet<GroupKey> {
    let is_ours = |(key, view): &(&&GroupKey, &&GroupView)| {
        groups.get(**key).is_some_and(|seen| matches!(seen.known, Known::Ours))
            || running(view).iter().any(|id| nodes.contains(*id))
    };
    views.iter().filter(is_ours).map(|(_, view)| view.whole()).collect()
}

impl Seen {
    fn first(view: &GroupView) -> Self {
        let inherited = running(view).into_iter().cloned().collect();
        Self { identity: view.identity, known: Known::Unproven { inherited, old: HashSet::new() }, asked: None }
    }

    /// How many instances show that it belongs to another cluster, if any do.
    fn foreign(&self) -> Option<usize> {
        match &self.known {
            Known::Unproven { old, .. } if !old.is_empty() => Some(old.len()),
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ReportedInstance;

    /// The group, with one instance.
    fn view(arn: Option<&str>, instance: &str) -> GroupView {
        let reported =
            ReportedInstance { id: instance.into(), state: InstanceState::Running, failure: None, exists: true };
        let key = GroupKey { source: "us".into(), name: "web".into() };
        let identity = arn.map(|arn| Identity::of(&[arn]));
        GroupView { identity, ..GroupView::with_instances(key, vec![reported]) }
    }

    #[test]
    fn a_group_that_is_created_again_is_not_ours_because_the_old_one_was() {
        let mut groups = HashMap::new();
        let mut note = |view: GroupView| {
            note_groups(&mut groups, &[(&view.key, &view)].into());
            let seen = groups.get_mut(&view.key).expect("noted");
            let before = std::mem::replace(&mut seen.known, Known::Ours);
            match before {
                Known::Ours => None,
                Known::Unproven { inherited, .. } => Some(inherited.into_iter().collect::<Vec<_>>()),
            }
        };
        assert_eq!(note(view(Some("first"), "i-1")), Some(vec!["i-1".into()]));
        assert_eq!(note(view(Some("first"), "i-2")), None, "it stays ours whatever it launches");
        assert_eq!(note(view(None, "i-2")), None);
        assert_eq!(note(view(Some("second"), "i-3")), Some(vec!["i-3".into()]), "another group under its name");
    }
}
