//! What every read is served from: an immutable snapshot of all groups, swapped atomically. Readers take no lock.
//!
//! Publishing one group copies nothing of the others: both maps share their structure with the snapshot before.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use imbl::{HashMap as SharedMap, OrdMap};
use tokio::sync::watch;
use tokio::time::Instant;

use super::limits::{GONE_NODE_LIFE, UNLISTED};
use super::mailbox::Mailbox;
use super::options::Options;
use super::status::{GroupStatus, ReportedInstance};
use crate::cloud::{Family, GroupName, InstanceState, Permit, ProviderId};
use crate::template::NodeTemplate;

/// Which group: the source and the name there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// The source.
    pub source: Arc<str>,
    /// The name in its cloud.
    pub name: GroupName,
}

/// `source/name`: the group's permanent name, whatever ID it is served under.
impl fmt::Display for GroupKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.source, self.name)
    }
}

/// What is published of a group.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// Which group.
    pub key: GroupKey,
    /// Its cloud's family.
    pub family: Family,
    /// The least number of nodes.
    pub min: u32,
    /// The greatest number of nodes; the target size where the group cannot grow, so that CA does not choose it.
    pub max: u32,
    /// Target size and instances.
    pub status: Arc<GroupStatus>,
    /// The node it would grow by.
    pub template: TemplateState,
    /// Options that override CA's flags.
    pub options: Options,
    /// When the capacity was read.
    pub observed: Instant,
    /// Whether it may grow.
    pub growth: Permit,
    /// Whether its instances may be deleted.
    pub removal: Permit,
    /// Why the last observation is not used until another one confirms it.
    pub doubt: Option<Arc<str>>,
    /// Where its requests go.
    pub mailbox: Mailbox,
    /// Instances and placeholders that appeared a moment ago, and until when they are not listed.
    pub newcomers: Newcomers,
}

/// Instances and placeholders that are not listed yet.
///
/// CA 1.36 and later run a second loop some 10 ms after a scale-up. What is listed as Creating in that loop times out as "long
/// unregistered" in the very loop in which the scale-up times out. Long unregistered instances count as provisioned, so CA takes
/// the scale-up for a success and tries the same group forever, instead of backing it off. An instance that CA sees a whole scan
/// interval or more after the scale-up times out in a later loop. With scan intervals of 10 s (CA's default), anything longer
/// than the moment between the two loops does: the next loop is 10 s away. With 2 s, the 6 s of `UNLISTED` are three loops, so that one
/// slow loop does not bring the two timeouts together again. The target size includes them all the while.
pub type Newcomers = Arc<BTreeMap<ProviderId, Instant>>;

impl GroupView {
    /// The instances that CA is to see at this moment. A failed one is listed at once, so that CA backs the group off.
    pub fn listed(&self, now: Instant) -> impl Iterator<Item = &ReportedInstance> {
        let is_new = move |id: &ProviderId| self.newcomers.get(id).is_some_and(|until| now < *until);
        self.status.instances.iter().filter(move |reported| {
            reported.failure.is_some() || reported.state == InstanceState::Deleting || !is_new(&reported.id)
        })
    }
}

/// The state of a group's template.
#[derive(Clone, Debug)]
pub enum TemplateState {
    /// Being built for the first time.
    Pending,
    /// Built.
    Ready(Arc<NodeTemplate>),
    /// Cannot be built, for this reason.
    Unavailable(Arc<str>),
}

/// All groups at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    groups: OrdMap<Arc<str>, Arc<GroupView>>,
    index: SharedMap<ProviderId, Listed>,
}

#[derive(Clone, Debug)]
struct Listed {
    group: Arc<GroupKey>,
    /// Since when there is no such instance any more.
    gone: Option<Instant>,
}

impl Snapshot {
    /// Every group, by the ID it is served under.
    pub fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<GroupView>)> {
        self.groups.iter()
    }

    /// The group of this ID, and the ID as it is served.
    pub fn group(&self, id: &str) -> Option<(&Arc<str>, &Arc<GroupView>)> {
        self.groups.get_key_value(id)
    }

    /// The group that lists, or until a short while ago listed, this instance. Case does not matter.
    pub fn group_of(&self, provider_id: &str) -> Option<(&Arc<str>, &Arc<GroupView>)> {
        let listed = self.index.get(&ProviderId::from(provider_id))?;
        if listed.gone.is_some_and(|gone| gone.elapsed() > GONE_NODE_LIFE) {
            return None;
        }
        self.served(&listed.group)
    }

    /// The group under whichever of its two possible IDs it is served.
    fn served(&self, key: &GroupKey) -> Option<(&Arc<str>, &Arc<GroupView>)> {
        match self.groups.get_key_value(key.name.as_str()) {
            Some((id, view)) if view.key == *key => Some((id, view)),
            _ => self.groups.get_key_value(key.to_string().as_str()),
        }
    }
}

/// The one place the snapshot is written from.
#[derive(Debug)]
pub(super) struct Store {
    current: ArcSwap<Snapshot>,
    draft: Mutex<Draft>,
    /// Nodes that CA has marked for deletion.
    marked: ArcSwap<BTreeSet<ProviderId>>,
    published: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Draft {
    snapshot: Snapshot,
    /// Sources that have a group of this name, to see when two do.
    owners: HashMap<GroupName, BTreeSet<Arc<str>>>,
    /// Gone instances, oldest first, to forget in time.
    gone: VecDeque<(Instant, ProviderId)>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            current: ArcSwap::default(),
            draft: Mutex::default(),
            marked: ArcSwap::default(),
            published: watch::Sender::new(0),
        }
    }
}

impl Store {
    /// The snapshot of this moment.
    pub(super) fn load(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// What is published of a group.
    pub(super) fn view(&self, key: &GroupKey) -> Option<Arc<GroupView>> {
        self.load().served(key).map(|(_, view)| Arc::clone(view))
    }

    /// Changes each time something is published.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// The ID a group is served under, or would be.
    pub(super) fn served_id(&self, key: &GroupKey) -> Arc<str> {
        if let Some((id, _)) = self.load().served(key) {
            return Arc::clone(id);
        }
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).served_id(key)
    }

    /// Nodes that CA has marked for deletion, as far as the Kubernetes API may be read.
    pub(super) fn marked(&self) -> arc_swap::Guard<Arc<BTreeSet<ProviderId>>> {
        self.marked.load()
    }

    /// Notes which nodes CA has marked for deletion. The groups of those that changed are published again.
    pub(super) fn set_marked(&self, marked: BTreeSet<ProviderId>) {
        let before = self.marked.swap(Arc::new(marked.clone()));
        let snapshot = self.load();
        for id in before.symmetric_difference(&marked) {
            if let Some((_, view)) = snapshot.group_of(id.as_str()) {
                view.mailbox.publish_again();
            }
        }
    }

    /// Publishes a group.
    pub(super) fn publish(&self, view: GroupView) {
        self.edit(|draft| draft.publish(view));
    }

    /// Takes a group out.
    pub(super) fn retire(&self, key: &GroupKey) {
        self.edit(|draft| draft.retire(key));
    }

    fn edit(&self, change: impl FnOnce(&mut Draft)) {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut draft);
        self.current.store(Arc::new(draft.snapshot.clone()));
        drop(draft);
        self.published.send_modify(|version| *version += 1);
    }
}

impl Draft {
    fn publish(&mut self, mut view: GroupView) {
        self.forget_gone();
        let key = Arc::new(view.key.clone());
        let previous = self.snapshot.served(&key).map(|(_, view)| Arc::clone(view));
        if previous.is_none() {
            self.admit(&key);
        }
        view.newcomers = self.newcomers(previous.as_deref(), &view.status);
        self.reindex(&key, previous.as_ref().map(|view| view.status.as_ref()), &view.status);
        let id = self.served_id(&key);
        self.snapshot.groups.insert(id, Arc::new(view));
    }

    /// What appeared a moment ago. Everything that a process finds at its start is listed at once, and so is what comes back.
    fn newcomers(&self, previous: Option<&GroupView>, status: &GroupStatus) -> Newcomers {
        let Some(previous) = previous else { return Newcomers::default() };
        let now = Instant::now();
        let until = |id: &ProviderId| match self.snapshot.index.contains_key(id) {
            true => previous.newcomers.get(id).copied().filter(|until| now < *until),
            false => Some(now + UNLISTED),
        };
        let listed_later = |reported: &ReportedInstance| Some((reported.id.clone(), until(&reported.id)?));
        Arc::new(status.instances.iter().filter_map(listed_later).collect())
    }

    fn reindex(&mut self, key: &Arc<GroupKey>, before: Option<&GroupStatus>, after: &GroupStatus) {
        let stay: BTreeSet<&ProviderId> = after.instances.iter().map(|reported| &reported.id).collect();
        let were: BTreeSet<&ProviderId> =
            before.into_iter().flat_map(|status| &status.instances).map(|reported| &reported.id).collect();
        for id in stay.difference(&were) {
            let listed = Listed { group: Arc::clone(key), gone: None };
            self.snapshot.index.insert((*id).clone(), listed);
        }
        let gone = |reported: &&ReportedInstance| !stay.contains(&reported.id);
        for reported in before.into_iter().flat_map(|status| &status.instances).filter(gone) {
            self.remember_gone(key, reported);
        }
    }

    fn remember_gone(&mut self, key: &Arc<GroupKey>, reported: &ReportedInstance) {
        let id = reported.id.clone();
        if reported.exists {
            let now = Instant::now();
            self.snapshot.index.insert(id.clone(), Listed { group: Arc::clone(key), gone: Some(now) });
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
        for reported in &view.status.instances {
            self.snapshot.index.remove(&reported.id);
        }
        self.snapshot.groups.remove(&id);
        if let Some(owners) = self.owners.get_mut(&key.name) {
            owners.remove(&key.source);
            if let Some(last) = owners.first().filter(|_| owners.len() == 1).cloned() {
                self.rename(&GroupKey { source: last, name: key.name.clone() });
            } else if owners.is_empty() {
                self.owners.remove(&key.name);
            }
        }
    }

    /// Notes a group's name; where it is the second of that name, both are served as `source/name` from now on.
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

    /// Serves a group under the ID that is right now.
    fn rename(&mut self, key: &GroupKey) {
        let Some((old, view)) = self.snapshot.served(key).map(|(id, view)| (Arc::clone(id), Arc::clone(view))) else {
            return;
        };
        self.snapshot.groups.remove(&old);
        let id = self.served_id(key);
        self.snapshot.groups.insert(id, view);
    }

    fn served_id(&self, key: &GroupKey) -> Arc<str> {
        let shared = self.owners.get(&key.name).is_some_and(|owners| owners.len() > 1);
        if shared { key.to_string().into() } else { Arc::clone(&key.name.0) }
    }
}
