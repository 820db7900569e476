//! Our recent writes to a group that its zones share: what they make of its capacity, whatever a read shows of them.
//!
//! Each zone is decided about by itself. This is what one zone has to know of the writes to another one: what is left
//! of the group's minimum and maximum, and whether a capacity is too low because of a deletion of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::part::{count, excess, living, zone_of};
use crate::cloud::{GroupReading, ProviderId};

/// For how long a write counts: as long as a capacity that it left too low is raised back (law 11), and as reads may
/// lag.
pub(super) const COUNTS_FOR: Duration = Duration::from_secs(60);
/// How long after a launch the capacity may still follow (assumed: AWS does not document it).
const CAPACITY_FOLLOWS: Duration = Duration::from_secs(10);
/// How long after a read of the activities it says which instances are additional (assumed). They are read again before
/// a capacity is raised back.
const ADDITIONAL_FRESH: Duration = Duration::from_secs(5);
/// How long reads may lag behind a capacity that was raised back (assumed: AWS promises no read-after-write).
const READS_LAG: Duration = Duration::from_secs(30);

/// Our writes of the last minute to one group.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The capacity without any of them, as the last read that shows them all has it.
    before: u32,
    deletions: BTreeMap<ProviderId, SentDeletion>,
    /// By token: a repetition is the same launch.
    launches: BTreeMap<String, SentLaunch>,
    /// What the activities said last.
    additional: Option<Additional>,
    /// The last time that the capacity was raised back.
    raised: Option<Raise>,
    /// Live instances that are known not to be additional.
    within: BTreeSet<ProviderId>,
}

/// Instances that the group launched for reasons of its own, and that replace no others.
#[derive(Debug)]
struct Additional {
    /// By [`ProviderId::instance`].
    instances: Vec<String>,
    /// When the read of the activities began.
    read: Instant,
}

/// A capacity that was raised back.
#[derive(Clone, Copy, Debug)]
struct Raise {
    from: u32,
    to: u32,
    at: Instant,
}

/// Which instances beyond the capacity our deletions are held to be the reason for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// All for which they may be: the group may also have launched them for a reason of its own.
    Possible,
    /// Only those for which they are.
    Certain,
}

#[derive(Debug)]
struct SentDeletion {
    zone: String,
    sent: Instant,
    /// Whether the call lowers the capacity by one. The instance gives up its place then, unless it was already going
    /// for another reason (autoscaler #2930).
    lowers: bool,
}

#[derive(Debug)]
struct SentLaunch {
    /// How many instances were requested, and later how many were launched.
    number: u32,
    ended: Option<Instant>,
    /// What it launched, by [`ProviderId::instance`], once that is known.
    instances: Vec<String>,
}

impl SentLaunch {
    fn has_launched(&self, id: &ProviderId) -> bool {
        self.instances.iter().any(|name| name == id.instance())
    }
}

impl Ledger {
    fn is_empty(&self) -> bool {
        self.deletions.is_empty() && self.launches.is_empty()
    }

    /// The capacity that the writes lead to.
    pub(super) fn capacity(&self) -> u32 {
        self.before.saturating_add(self.launched()).saturating_sub(self.lowering())
    }

    /// How many instances are launched, or were.
    fn launched(&self) -> u32 {
        self.launches.values().map(|launch| launch.number).sum()
    }

    fn lowering(&self) -> u32 {
        count(self.deletions.values().filter(|deletion| deletion.lowers).count())
    }

    /// Whether a launch is under way or ended so recently that its capacity may still follow.
    fn is_launching(&self, now: Instant) -> bool {
        let follows = |at: Instant| now.saturating_duration_since(at) <= CAPACITY_FOLLOWS;
        self.launches.values().any(|launch| launch.ended.is_none_or(follows))
    }

    /// Whether a reading is younger than all deletions.
    fn is_shown_by(&self, whole: &GroupReading) -> bool {
        !living(whole).any(|one| self.deletions.contains_key(&one.id))
    }

    /// How many of the deleted instances a reading is too old to show, and how many of them lower the capacity.
    pub(super) fn unshown_by(&self, whole: &GroupReading) -> (u32, u32) {
        let unshown: Vec<_> = living(whole).filter_map(|one| self.deletions.get(&one.id)).collect();
        (count(unshown.len()), count(unshown.iter().filter(|deletion| deletion.lowers).count()))
    }

    /// By how much those deletions lower the capacity that a reading shows.
    fn lowering_shown_by(&self, whole: &GroupReading) -> u32 {
        let (_, unshown) = self.unshown_by(whole);
        self.lowering().saturating_sub(unshown)
    }

    /// By how much the capacity is below what it was before our deletions.
    fn lowered(&self, whole: &GroupReading) -> u32 {
        self.before.saturating_add(self.launched()).saturating_sub(whole.desired)
    }

    /// Whether our deletions may be why the capacity is so low: each lowers it by one, and AWS lowers it for each call
    /// that names an instance.
    fn explains(&self, whole: &GroupReading) -> bool {
        self.lowered(whole) <= self.lowering_shown_by(whole).saturating_mul(2)
    }

    /// Takes what a reading shows: what other clients changed is no part of our writes, and old writes are settled.
    pub(super) fn note(&mut self, whole: &GroupReading, now: Instant) {
        let live: BTreeSet<ProviderId> = living(whole).map(|one| one.id.clone()).collect();
        self.within.retain(|id| live.contains(id));
        let ours = live.iter().filter(|id| self.launches.values().any(|launch| launch.has_launched(id)));
        self.within.extend(ours.cloned());
        let is_old = |at: Instant| now.saturating_duration_since(at) > COUNTS_FOR;
        let launched = self.launches.extract_if(.., |_, launch| launch.ended.is_some_and(is_old));
        let launched: u32 = launched.map(|(_, launch)| launch.number).sum();
        // What lives on was never deleted.
        let deleted = self.deletions.extract_if(.., |_, deletion| is_old(deletion.sent));
        let deleted = count(deleted.filter(|(id, deletion)| deletion.lowers && !live.contains(id)).count());
        self.before = self.before.saturating_add(launched).saturating_sub(deleted);
        if self.is_empty() {
            (self.before, self.additional) = (whole.desired, None);
        } else if self.is_shown_by(whole) && !self.is_launching(now) {
            if !self.explains(whole) {
                // Another client lowered it. Nothing is raised back to what was before.
                (self.before, self.deletions) = (whole.desired.saturating_sub(self.launched()), BTreeMap::new());
            }
            self.before = self.before.max(whole.desired.saturating_sub(self.launched()));
        }
        if excess(whole) == 0 && self.is_shown_by(whole) {
            self.within = live;
        }
    }

    /// The capacity was raised back.
    pub(super) fn note_raised(&mut self, from: u32, to: u32, now: Instant) {
        self.raised = Some(Raise { from, to, at: now });
    }

    /// A reading with the capacity that we raised it to, where it shows the one before.
    pub(super) fn dated(&mut self, mut whole: GroupReading, now: Instant) -> GroupReading {
        let lags = |raise: &Raise| now.saturating_duration_since(raise.at) <= READS_LAG && whole.desired == raise.from;
        self.raised = self.raised.filter(lags);
        if let Some(Raise { to, .. }) = self.raised {
            whole.desired = to;
        }
        whole
    }

    /// The group launched these for reasons of its own.
    pub(super) fn note_additional(&mut self, instances: &[String], read: Instant) {
        self.additional = Some(Additional { instances: instances.to_vec(), read });
    }

    /// How many instances the group is about to terminate because of our deletions: they gave up more places than
    /// instances went.
    fn owed(&self, whole: &GroupReading, evidence: Evidence, now: Instant) -> u32 {
        if self.is_launching(now) || !self.explains(whole) {
            return 0;
        }
        let (beyond, lowered) = (excess(whole), self.lowered(whole));
        let is_fresh = |known: &&Additional| now.saturating_duration_since(known.read) <= ADDITIONAL_FRESH;
        match (self.additional.as_ref().filter(is_fresh), evidence) {
            (Some(Additional { instances, .. }), _) => {
                let unknown = living(whole).filter(|one| !self.within.contains(&one.id));
                let own = unknown.filter(|one| instances.iter().any(|name| name == one.id.instance())).count();
                beyond.saturating_sub(count(own)).min(lowered)
            }
            (None, Evidence::Possible) => beyond.min(lowered),
            (None, Evidence::Certain) => {
                let within = count(self.within.len()).saturating_sub(whole.desired).min(lowered);
                within.max(beyond.min(lowered.saturating_sub(self.lowering_shown_by(whole))))
            }
        }
    }

    /// The part of [`Ledger::owed`] that a zone shows: first those with deletions, each as many as it deleted. A zone that
    /// has no instances left shows none, and the others show them in its place.
    pub(super) fn owed_in(&self, zone: &str, whole: &GroupReading, evidence: Evidence, now: Instant) -> u32 {
        let mut live: BTreeMap<&str, u32> = BTreeMap::new();
        for zone in living(whole).filter_map(|one| zone_of(&one.id)) {
            *live.entry(zone).or_default() += 1;
        }
        let deleted = |name: &str| {
            count(self.deletions.values().filter(|deletion| deletion.lowers && deletion.zone == name).count())
        };
        let mut left = self.owed(whole, evidence, now);
        let mut owed: BTreeMap<&str, u32> = BTreeMap::new();
        for is_first in [true, false] {
            for (name, live) in &live {
                let owed = owed.entry(name).or_default();
                let most = if is_first { (*live).min(deleted(name)) } else { *live };
                let share = most.saturating_sub(*owed).min(left);
                *owed += share;
                left -= share;
            }
        }
        owed.get(zone).copied().unwrap_or_default()
    }

    /// An instance of a zone is being deleted.
    pub(super) fn delete(&mut self, zone: &str, id: ProviderId, lowers: bool, now: Instant) {
        self.deletions.insert(id, SentDeletion { zone: zone.to_owned(), sent: now, lowers });
    }

    /// The cloud did not delete these.
    pub(super) fn not_deleted<'a>(&mut self, ids: impl IntoIterator<Item = &'a ProviderId>) {
        ids.into_iter().for_each(|id| drop(self.deletions.remove(id)));
    }

    /// Whether a launch was sent before.
    pub(super) fn has_launch(&self, token: &str) -> bool {
        self.launches.contains_key(token)
    }

    /// As many instances are being launched.
    pub(super) fn launch(&mut self, token: &str, number: u32) {
        self.launches.insert(token.to_owned(), SentLaunch { number, ended: None, instances: Vec::new() });
    }

    /// A launch has ended, or has no outcome. `launched` are the instances that it made; `None` if that is not known.
    pub(super) fn end_launch(&mut self, token: &str, launched: Option<&[String]>, now: Instant) {
        let Some(launch) = self.launches.get_mut(token) else { return };
        launch.ended = Some(now);
        match launched {
            None => {}
            Some([]) => drop(self.launches.remove(token)),
            Some(launched) => (launch.number, launch.instances) = (count(launched.len()), launched.to_vec()),
        }
    }
}
