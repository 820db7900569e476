//! Our recent writes to a group that its zones share: what they make of its capacity, whatever a read shows of them.
//!
//! Each zone is decided about by itself. This is what one zone has to know of the writes to another one: what is left
//! of the group's minimum and maximum, and whether a capacity is too low because of a deletion of ours.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::part::{count, excess, is_live};
use crate::cloud::{GroupReading, ProviderId};

/// For how long a write counts: as long as a capacity that it left too low is raised back (law 11), and as reads may
/// lag.
pub(super) const COUNTS_FOR: Duration = Duration::from_secs(60);
/// How long after a launch the capacity may still follow (assumed: AWS does not document it).
const CAPACITY_FOLLOWS: Duration = Duration::from_secs(10);

/// Our writes of the last minute to one group.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The capacity without any of them, as the last read that shows them all has it.
    before: u32,
    deletions: BTreeMap<ProviderId, SentDeletion>,
    /// By token: a repetition is the same launch.
    launches: BTreeMap<String, SentLaunch>,
}

#[derive(Debug)]
struct SentDeletion {
    zone: String,
    sent: Instant,
    /// Whether it lowers the capacity by one.
    lowers: bool,
}

#[derive(Debug)]
struct SentLaunch {
    /// How many instances were requested, and later how many were launched.
    number: u32,
    ended: Option<Instant>,
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
        !whole.instances.iter().flatten().any(|one| is_live(one) && self.deletions.contains_key(&one.id))
    }

    /// How many of the deleted instances a reading is too old to show, and how many of them lower the capacity.
    pub(super) fn unshown_by(&self, whole: &GroupReading) -> (u32, u32) {
        let live = whole.instances.iter().flatten().filter(|one| is_live(one));
        let unshown: Vec<_> = live.filter_map(|one| self.deletions.get(&one.id)).collect();
        (count(unshown.len()), count(unshown.iter().filter(|deletion| deletion.lowers).count()))
    }

    /// By how much more than one for each deletion the capacity fell, if our deletions may be why: AWS lowers it for
    /// each call that names an instance, also for one that was going already (autoscaler #2930).
    fn lowered_too_far(&self, whole: &GroupReading) -> u32 {
        let missing = self.capacity().saturating_sub(whole.desired);
        if missing <= self.lowering() { missing } else { 0 }
    }

    /// Takes what a reading shows: what other clients changed is no part of our writes, and old writes are settled.
    pub(super) fn note(&mut self, whole: &GroupReading, now: Instant) {
        let is_old = |at: Instant| now.saturating_duration_since(at) > COUNTS_FOR;
        let launched = self.launches.extract_if(.., |_, launch| launch.ended.is_some_and(is_old));
        let launched: u32 = launched.map(|(_, launch)| launch.number).sum();
        let deleted = self.deletions.extract_if(.., |_, deletion| is_old(deletion.sent));
        let deleted = count(deleted.filter(|(_, deletion)| deletion.lowers).count());
        self.before = self.before.saturating_add(launched).saturating_sub(deleted);
        let is_dated = self.is_shown_by(whole) && !self.is_launching(now);
        if self.is_empty() || (is_dated && self.lowered_too_far(whole) == 0) {
            self.before = whole.desired.saturating_add(self.lowering()).saturating_sub(self.launched());
        }
    }

    /// How many instances the group is about to terminate because of our deletions in this zone: its capacity is to be
    /// raised back for them.
    pub(super) fn excess_in(&self, zone: &str, whole: &GroupReading, now: Instant) -> u32 {
        if self.is_launching(now) || !self.is_shown_by(whole) {
            return 0;
        }
        let mut by_zone: BTreeMap<&str, u32> = BTreeMap::new();
        for deletion in self.deletions.values().filter(|deletion| deletion.lowers) {
            *by_zone.entry(&deletion.zone).or_default() += 1;
        }
        let mut left = self.lowered_too_far(whole).min(excess(whole));
        for (name, deleted) in by_zone {
            let share = deleted.min(left);
            if name == zone {
                return share;
            }
            left -= share;
        }
        0
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
        self.launches.insert(token.to_owned(), SentLaunch { number, ended: None });
    }

    /// A launch has ended, or has no outcome. `launched` are the instances that it made; `None` if that is not known.
    pub(super) fn end_launch(&mut self, token: &str, launched: Option<u32>, now: Instant) {
        let Some(launch) = self.launches.get_mut(token) else { return };
        (launch.number, launch.ended) = (launched.unwrap_or(launch.number), Some(now));
        if launched == Some(0) {
            self.launches.remove(token);
        }
    }
}
