//! The snapshot: all groups at one moment, immutable and swapped atomically. Every read is served from it, without a
//! lock.
//!
//! Publishing one group does not copy the others: both maps share their structure with the previous snapshot.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::{HashMap as SharedMap, OrdMap};
use tokio::time::Instant;

use super::limits::GONE_NODE_LIFE;
use super::mailbox::Mailbox;
use super::options::Options;
use crate::cloud::{Family, GroupName, Identity, InstanceState, Permit, ProviderId, ZoneName};
use crate::group::{GroupStatus, ReportedInstance};
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

impl GroupKey {
    /// The ID that the group is served under where another one has taken `source/name`: names of Auto Scaling groups may
    /// have slashes.
    pub(super) fn spare_id(&self) -> String {
        format!("{}//{}", self.source, self.name)
    }
}

/// What is published about a group.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// Which group.
    pub key: GroupKey,
    /// The zone that it is, if its group is served as one node group for each.
    pub zone: Option<ZoneName>,
    /// Which group it is of those that had its name.
    pub identity: Option<Identity>,
    /// Its cloud's family.
    pub family: Family,
    /// The least number of nodes.
    pub min: u32,
    /// The greatest number of nodes; the target size where the group cannot grow, so that CA does not choose it.
    pub max: u32,
    /// Target size and instances.
    pub status: Arc<GroupStatus>,
    /// Instances that the cloud keeps after their deletion, until somebody terminates them.
    pub retained: u32,
    /// Its node template.
    pub template: TemplateState,
    /// Options that override CA's flags.
    pub options: Options,
    /// When the capacity was read.
    pub observed: Instant,
    /// Whether it may grow.
    pub growth: Permit,
    /// Why the cloud refused to launch instances in it on request, although it is to grow so.
    pub launches_refused: Option<Arc<str>>,
    /// Whether its instances may be deleted.
    pub removal: Permit,
    /// Why the last observation is not used until another one confirms it.
    pub doubt: Option<Arc<str>>,
    /// The mailbox of its keeper.
    pub mailbox: Mailbox,
    /// Instances and placeholders that appeared a moment ago, and until when they are not listed.
    pub unlisted: Unlisted,
}

/// Instances and placeholders that are not listed yet.
///
/// CA 1.36 and later run a second loop some 10 ms after a scale-up. An instance that is listed as Creating in that loop
/// becomes "long unregistered" in the same loop in which the scale-up times out. CA counts long unregistered instances
/// as provisioned, so it treats the scale-up as a success and tries the same group forever, instead of backing it off.
///
/// Headcount therefore lists a new instance one scan interval or more after the scale-up, so that it times out in a
/// later loop. With CA's default interval of 10 s, any delay is enough that outlasts the second loop. With an interval
/// of 2 s, the 6 s of `UNLISTED_FOR` are three loops, so that one slow loop does not bring the two timeouts together
/// again. The target size includes these instances from the beginning.
pub type Unlisted = Arc<BTreeMap<ProviderId, Instant>>;

impl GroupView {
    /// A group of AWS with these instances, for tests.
    #[cfg(test)]
    pub(super) fn with_instances(key: GroupKey, instances: Vec<ReportedInstance>) -> Self {
        let number = u32::try_from(instances.len()).expect("few");
        let status = GroupStatus { target: number, capacity: number, live: number, unfilled: 0, instances };
        Self {
            key,
            zone: None,
            identity: None,
            family: Family::Aws,
            min: 0,
            max: 10,
            status: Arc::new(status),
            retained: 0,
            template: TemplateState::Pending,
            options: Options::default(),
            observed: Instant::now(),
            growth: Permit::Granted,
            launches_refused: None,
            removal: Permit::Granted,
            doubt: None,
            mailbox: Mailbox::new(&tokio::sync::mpsc::channel(1).0),
            unlisted: Unlisted::default(),
        }
    }

    /// The group that it is, or is a zone of.
    pub fn whole(&self) -> GroupKey {
        let name = self.key.name.as_str();
        let whole = self.zone.as_ref().and_then(|zone| name.strip_suffix(&**zone)?.strip_suffix('/'));
        GroupKey { source: Arc::clone(&self.key.source), name: GroupName::from(whole.unwrap_or(name)) }
    }

    /// The instances to list to CA now. A failed one is listed at once, so that CA backs off the group.
    pub fn listed(&self, now: Instant) -> impl Iterator<Item = &ReportedInstance> {
        let is_new = move |id: &ProviderId| self.unlisted.get(id).is_some_and(|until| now < *until);
        self.status.instances.iter().filter(move |reported| {
            reported.failure.is_some() || reported.state == InstanceState::Deleting || !is_new(&reported.id)
        })
    }
}

/// The state of a group's template.
#[derive(Clone, Debug, Default)]
pub enum TemplateState {
    /// Being built for the first time.
    #[default]
    Pending,
    /// Built.
    Ready(Arc<NodeTemplate>),
    /// Cannot be built, for this reason.
    Unavailable(Arc<str>),
}

/// All groups at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(super) groups: OrdMap<Arc<str>, Arc<GroupView>>,
    pub(super) index: SharedMap<ProviderId, Listed>,
}

/// An instance, and the group that lists it.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub group: Arc<GroupKey>,
    /// Since when the instance has been gone.
    pub gone: Option<Instant>,
    /// A hash of the spelling that a node of this instance was last asked about in; 0 before that.
    pub asked_as: Arc<AtomicU64>,
}

impl Snapshot {
    /// Every group, by the ID it is served under.
    pub fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<GroupView>)> {
        self.groups.iter()
    }

    /// The group with this ID, and the ID as it is served.
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

    /// Whether a node asks about this instance in another spelling than it is listed in, for the first time or twice in a
    /// row. Once is not enough later: a person may ask as well, and CA asks in every loop.
    pub(super) fn is_spelled_anew(&self, provider_id: &str) -> bool {
        let Some((id, listed)) = self.index.get_key_value(&ProviderId::from(provider_id)) else { return false };
        let mut hasher = DefaultHasher::new();
        hasher.write(provider_id.as_bytes());
        let spelling = hasher.finish().max(1);
        let before = listed.asked_as.swap(spelling, Ordering::Relaxed);
        id.as_str() != provider_id && (before == 0 || before == spelling)
    }

    /// The group, under the one of its possible IDs that it is served under.
    pub(super) fn served(&self, key: &GroupKey) -> Option<(&Arc<str>, &Arc<GroupView>)> {
        // The name of another group may look like any of them.
        let under = |id: &str| self.groups.get_key_value(id).filter(|(_, view)| view.key == *key);
        under(key.name.as_str()).or_else(|| under(&key.to_string())).or_else(|| under(&key.spare_id()))
    }
}
