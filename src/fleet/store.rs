//! The only place that writes the snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::Instant;

use super::limits::{GONE_NODE_LIFE, UNLISTED_FOR};
use super::snapshot::{GroupKey, GroupView, Listed, Snapshot, Unlisted};
use crate::cloud::{GroupName, ProviderId, ZoneName};
use crate::group::ClusterNodes;
use crate::group::{GroupStatus, ReportedInstance};

/// The current snapshot, and the state that the next one is built from.
#[derive(Debug)]
pub(super) struct Store {
    current: ArcSwap<Snapshot>,
    draft: Mutex<Draft>,
    cluster_nodes: ArcSwap<ClusterNodes>,
    published: watch::Sender<u64>,
    /// Why groups that were never served cannot be read.
    unread: Mutex<BTreeMap<GroupKey, String>>,
}

#[derive(Debug, Default)]
struct Draft {
    snapshot: Snapshot,
    /// The sources that have a group of this name. If there are two, the group's ID changes.
    owners: HashMap<GroupName, BTreeSet<Arc<str>>>,
    /// Gone instances, oldest first, to forget in time.
    gone: VecDeque<(Instant, ProviderId)>,
    /// Whether new instances are listed at once.
    lists_at_once: bool,
    /// IDs that groups were served under before this change.
    left: Vec<Arc<str>>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            current: ArcSwap::default(),
            draft: Mutex::default(),
            cluster_nodes: ArcSwap::default(),
            published: watch::Sender::new(0),
            unread: Mutex::default(),
        }
    }
}

impl Store {
    /// The snapshot of this moment.
    pub(super) fn load(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// What is published about a group.
    pub(super) fn view(&self, key: &GroupKey) -> Option<Arc<GroupView>> {
        self.load().served(key).map(|(_, view)| Arc::clone(view))
    }

    /// Notes why a group that is not served cannot be read; `None` once it can be, or is gone.
    pub(super) fn note_unread(&self, key: &GroupKey, reason: Option<String>) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => unread.insert(key.clone(), reason),
            None => unread.remove(key),
        };
    }

    /// The groups that are not served because they cannot be read, with the reasons.
    pub(super) fn unread(&self) -> BTreeMap<GroupKey, String> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lists new instances at once from now on.
    pub(super) fn list_new_at_once(&self) {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).lists_at_once = true;
    }

    /// Changes each time something is published.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// The ID that a group is served under, or would be.
    pub(super) fn served_id(&self, key: &GroupKey) -> Arc<str> {
        if let Some((id, _)) = self.load().served(key) {
            return Arc::clone(id);
        }
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).served_id(key)
    }

    /// What the Kubernetes API says about the cluster's nodes, as far as it may be read.
    pub(super) fn cluster_nodes(&self) -> arc_swap::Guard<Arc<ClusterNodes>> {
        self.cluster_nodes.load()
    }

    /// Stores what the Kubernetes API says about the cluster's nodes. The groups of nodes that changed are published
    /// again; after the first list, all groups are.
    pub(super) fn set_cluster_nodes(&self, nodes: ClusterNodes) {
        let nodes = Arc::new(nodes);
        let before = self.cluster_nodes.swap(Arc::clone(&nodes));
        let snapshot = self.load();
        if *before == ClusterNodes::Awaited {
            return snapshot.groups().for_each(|(_, view)| view.mailbox.publish_again());
        }
        let changed = nodes.changed_since(&before).into_iter().filter_map(|id| snapshot.group_of(id.as_str()));
        let groups: BTreeMap<_, _> = changed.map(|(id, view)| (id, &view.mailbox)).collect();
        groups.values().for_each(|mailbox| mailbox.publish_again());
    }

    /// Publishes a group. Returns the IDs that other groups of its name have left for it.
    pub(super) fn publish(&self, view: GroupView) -> Vec<Arc<str>> {
        self.edit(|draft| draft.publish(view))
    }

    /// Lists an instance under this spelling of its ID.
    pub(super) fn respell(&self, id: &ProviderId) {
        drop(self.edit(|draft| draft.respell(id)));
    }

    /// Takes a group out. Returns the ID that it was served under, and that which another one of its name has left.
    pub(super) fn retire(&self, key: &GroupKey) -> Vec<Arc<str>> {
        self.edit(|draft| draft.retire(key))
    }

    /// The zones of a group that are published; `None` among them is the group itself.
    pub(super) fn zones_of(&self, whole: &GroupKey) -> BTreeSet<Option<ZoneName>> {
        let snapshot = self.load();
        snapshot.groups().filter(|(_, view)| view.whole() == *whole).map(|(_, view)| view.zone.clone()).collect()
    }

    /// Whether a group, or a zone of it, is served.
    pub(super) fn serves(&self, whole: &GroupKey) -> bool {
        self.load().groups().any(|(_, view)| view.whole() == *whole)
    }

    /// Takes a group out, or all of its zones that are served. Returns the IDs that nothing is served under any more.
    pub(super) fn retire_all(&self, whole: &GroupKey) -> Vec<Arc<str>> {
        let snapshot = self.load();
        let served = snapshot.groups().filter(|(_, view)| view.whole() == *whole);
        served.flat_map(|(_, view)| self.retire(&view.key)).collect()
    }

    fn edit(&self, change: impl FnOnce(&mut Draft)) -> Vec<Arc<str>> {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut draft);
        self.current.store(Arc::new(draft.snapshot.clone()));
        let left = mem::take(&mut draft.left);
        drop(draft);
        self.published.send_modify(|version| *version += 1);
        left
    }
}

impl Draft {
    fn publish(&mut self, mut view: GroupView) {
        self.forget_gone();
        let key = Arc::new(view.key.clone());
        let (id, previous) = match self.snapshot.served(&key) {
            Some((id, view)) => (Arc::clone(id), Some(Arc::clone(view))),
            None => {
                self.admit(&key);
                let id = self.served_id(&key);
                if *id == *key.spare_id() {
                    tracing::warn!(group = %id, taken = %key.name, "another node group is served under the ID of this \
                        one, which gets another ID");
                }
                (id, None)
            }
        };
        view.status = self.spelled(view.status);
        view.unlisted = self.unlisted(previous.as_deref(), &view.status);
        self.reindex(&key, previous.as_ref().map(|view| view.status.as_ref()), &view.status);
        self.snapshot.groups.insert(id, Arc::new(view));
    }

    /// The instances and placeholders that appeared a moment ago. What a process finds at its start, what reappears,
    /// and what comes from another group is listed at once.
    fn unlisted(&self, previous: Option<&GroupView>, status: &GroupStatus) -> Unlisted {
        let Some(previous) = previous.filter(|_| !self.lists_at_once) else { return Unlisted::default() };
        let (now, were) = (Instant::now(), ids(&previous.status));
        let until = |id: &ProviderId| match were.contains(id) || self.snapshot.index.contains_key(id) {
            true => previous.unlisted.get(id).copied().filter(|until| now < *until),
            false => Some(now + UNLISTED_FOR),
        };
        let listed_later = |reported: &ReportedInstance| Some((reported.id.clone(), until(&reported.id)?));
        Arc::new(status.instances.iter().filter_map(listed_later).collect())
    }

    /// Updates the index. Two groups list an instance that moves, until the list of the old one is read again; it then
    /// belongs to the group that listed it last.
    fn reindex(&mut self, key: &Arc<GroupKey>, before: Option<&GroupStatus>, after: &GroupStatus) {
        let (were, stay) = (before.map(ids).unwrap_or_default(), ids(after));
        for id in &stay {
            if !self.is_indexed(key, id, were.contains(id)) {
                self.index(key, (*id).clone(), None);
            }
        }
        let gone = |reported: &&ReportedInstance| !stay.contains(&reported.id);
        for reported in before.into_iter().flat_map(|status| &status.instances).filter(gone) {
            self.remember_gone(key, reported);
        }
    }

    fn index(&mut self, key: &Arc<GroupKey>, id: ProviderId, gone: Option<Instant>) {
        let asked_as = self.snapshot.index.get(&id).map(|listed| Arc::clone(&listed.asked_as)).unwrap_or_default();
        self.snapshot.index.insert(id, Listed { group: Arc::clone(key), gone, asked_as });
    }

    /// The status with each ID as its node spells it, or as it was first listed. Azure returns the same ID in several
    /// spellings, and CA compares the listed IDs with those of its nodes as exact strings.
    fn spelled(&self, status: Arc<GroupStatus>) -> Arc<GroupStatus> {
        let other_spelling = |id: &ProviderId| {
            let known = self.snapshot.index.get_key_value(id).map(|(known, _)| known);
            known.filter(|known| known.as_str() != id.as_str()).cloned()
        };
        if !status.instances.iter().any(|reported| other_spelling(&reported.id).is_some()) {
            return status;
        }
        let mut status = GroupStatus::clone(&status);
        for reported in &mut status.instances {
            if let Some(known) = other_spelling(&reported.id) {
                reported.id = known;
            }
        }
        Arc::new(status)
    }

    fn respell(&mut self, id: &ProviderId) {
        let Some(listed) = self.snapshot.index.remove(id) else { return };
        let key = Arc::clone(&listed.group);
        self.snapshot.index.insert(id.clone(), listed);
        let Some((served, view)) = self.snapshot.served(&key) else { return };
        let (served, status) = (Arc::clone(served), self.spelled(Arc::clone(&view.status)));
        let view = GroupView { status, ..GroupView::clone(view) };
        self.snapshot.groups.insert(served, Arc::new(view));
    }

    /// Whether the index is right about an instance that this group lists. Another group that listed it later keeps it.
    fn is_indexed(&self, key: &Arc<GroupKey>, id: &ProviderId, was_listed: bool) -> bool {
        let listed = self.snapshot.index.get(id).filter(|listed| listed.gone.is_none());
        listed.is_some_and(|listed| listed.group == *key || was_listed)
    }

    /// Whether an instance is this group's. One that moved to another group is not, although this group listed it until
    /// now.
    fn belongs_to(&self, key: &GroupKey, id: &ProviderId) -> bool {
        self.snapshot.index.get(id).is_some_and(|listed| *listed.group == *key)
    }

    fn remember_gone(&mut self, key: &Arc<GroupKey>, reported: &ReportedInstance) {
        let id = reported.id.clone();
        if !self.belongs_to(key, &id) {
            return;
        }
        if reported.exists {
            let now = Instant::now();
            self.index(key, id.clone(), Some(now));
            self.gone.push_back((now, id));
        } else {
            self.snapshot.index.remove(&id);
        }
    }

    fn forget_gone(&mut self) {
        while let Some((since, _)) = self.gone.front()
            && since.elapsed() > GONE_NODE_LIFE
        {
            let Some((since, id)) = self.gone.pop_front() else { return };
            // It may have come back, or gone again later.
            if self.snapshot.index.get(&id).is_some_and(|listed| listed.gone == Some(since)) {
                self.snapshot.index.remove(&id);
            }
        }
    }

    fn retire(&mut self, key: &GroupKey) {
        let Some((id, view)) = self.snapshot.served(key).map(|(id, view)| (Arc::clone(id), Arc::clone(view))) else {
            return;
        };
        for id in ids(&view.status) {
            if self.belongs_to(key, id) {
                self.snapshot.index.remove(id);
            }
        }
        self.snapshot.groups.remove(&id);
        self.left.push(id);
        if let Some(owners) = self.owners.get_mut(&key.name) {
            owners.remove(&key.source);
            if let Some(last) = owners.first().filter(|_| owners.len() == 1).cloned() {
                self.rename(&GroupKey { source: last, name: key.name.clone() });
            } else if owners.is_empty() {
                self.owners.remove(&key.name);
            }
        }
    }

    /// Notes a group's name. If it is the second of that name, both are served as `source/name` from now on.
    fn admit(&mut self, key: &GroupKey) {
        let owners = self.owners.entry(key.name.clone()).or_default();
        owners.insert(Arc::clone(&key.source));
        if owners.len() < 2 {
            return;
        }
        tracing::warn!(
            group = %key.name, sources = ?owners,
            "several sources have a node group of this name; serving each as source/name"
        );
        let others: Vec<_> = owners.iter().filter(|source| **source != key.source).cloned().collect();
        for source in others {
            self.rename(&GroupKey { source, name: key.name.clone() });
        }
    }

    /// Serves a group under its current ID.
    fn rename(&mut self, key: &GroupKey) {
        let Some((old, view)) = self.snapshot.served(key).map(|(id, view)| (Arc::clone(id), Arc::clone(view))) else {
            return;
        };
        self.snapshot.groups.remove(&old);
        let id = self.served_id(key);
        self.snapshot.groups.insert(Arc::clone(&id), view);
        if id != old {
            self.left.push(old);
        }
    }

    /// Names of Auto Scaling groups may have slashes, so an ID may be taken by a group whose name is the whole of it.
    fn served_id(&self, key: &GroupKey) -> Arc<str> {
        // It may not be one of the owners yet.
        let shared = self.owners.get(&key.name).is_some_and(|owners| owners.iter().any(|owner| *owner != key.source));
        let id: Arc<str> = if shared { key.to_string().into() } else { Arc::clone(&key.name.0) };
        match self.snapshot.groups.get(&id) {
            Some(other) if other.key != *key => key.spare_id().into(),
            _ => id,
        }
    }
}

fn ids(status: &GroupStatus) -> BTreeSet<&ProviderId> {
    status.instances.iter().map(|reported| &reported.id).collect()
}

#[cfg(test)]
mod tests;
