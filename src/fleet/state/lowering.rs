//! When a capacity may be lowered, and what a lowering leaves to look for.
//!
//! A cloud without preconditions takes a capacity that was computed on a reading as it comes: what is launched in between,
//! or asked for by somebody else, is then too much, and the cloud deletes as many as it likes. So nothing is lowered that
//! may just be growing, and whatever was written is remembered until no surplus can come of it any more.

use tokio::time::Instant;

use super::GroupState;
use crate::fleet::census::census;
use crate::fleet::limits::{HEAL_WINDOW, LAUNCH_BEGINS};
use crate::fleet::observation::{Observation, count};

/// The last reduction that was sent, whatever became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reduction {
    /// The lowest capacity that it and the deletions sent since account for.
    lowest: u32,
    /// When it was sent.
    sent: Instant,
    /// Whether instances are likely enough to come up under it that they are looked for.
    is_watched: bool,
}

impl GroupState {
    /// A capacity write is being sent. A reduction is remembered even if its answer never comes: an instance may come up
    /// under it all the same, whatever is written after it. So may one under a scale-up that the cloud cannot check against
    /// what it was computed on (`is_checked`): somebody else may have raised the capacity further in the meantime.
    pub(in crate::fleet) fn send_capacity(&mut self, from: u32, to: u32, is_checked: bool, now: Instant) {
        if to < from {
            self.reduction = Some(Reduction { lowest: to, sent: now, is_watched: true });
        } else if !is_checked && self.recent_reduction(now).is_none() {
            self.reduction = Some(Reduction { lowest: to, sent: now, is_watched: false });
        }
    }

    /// A deletion is being sent. It may lower the capacity further, even if its answer never comes.
    pub(in crate::fleet) fn send_delete(&mut self, number: usize) {
        if let Some(reduction) = &mut self.reduction {
            reduction.lowest = reduction.lowest.saturating_sub(count(number));
        }
    }

    /// The first reading after a start, with less capacity than lives and an instance launched just now: that is what a
    /// reduction leaves behind that a process before this one sent. A group that somebody else lowers launches nothing.
    pub(super) fn presume_reduction(&mut self, observation: &Observation) {
        let census = census(observation, &[]);
        let age = observation.activity.latest.and_then(|latest| observation.at.duration_since(latest).ok());
        if self.observation.is_none() && census.desired < census.live && age.is_some_and(|age| age <= HEAL_WINDOW) {
            self.reduction = Some(Reduction { lowest: census.desired, sent: observation.begun, is_watched: true });
        }
    }

    /// Whether a reduction was sent so recently that an instance may still come up under it.
    pub(in crate::fleet) fn has_just_lowered(&self, now: Instant) -> bool {
        self.recent_reduction(now).is_some_and(|reduction| reduction.is_watched)
    }

    /// Whether a recent reduction of ours, and the deletions sent since, are what made the capacity as low
    /// as it was read. Where it is lower still, somebody else lowers it, and means to.
    pub(in crate::fleet) fn lowered(&self, observation: &Observation) -> bool {
        let recent = self.recent_reduction(observation.begun);
        recent.is_some_and(|reduction| observation.reading.desired >= reduction.lowest)
    }

    /// Whether the instances last read are those of the capacity last read. Where these are two calls, the capacity can have
    /// been raised in between, and what is missing then is not missing. Where the version is the one of the reading before,
    /// nothing was: the instances were read between the two.
    pub(in crate::fleet) fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// Whether the capacity was raised so recently, by whomever, that the group may not have begun to launch. Where a write
    /// names the version it was computed on, there is no need to know.
    pub(in crate::fleet) fn has_just_grown(&self, observation: &Observation) -> bool {
        let is_young = |since: Instant| observation.begun.saturating_duration_since(since) < LAUNCH_BEGINS;
        let own = self.operations.iter().filter(|operation| operation.is_growth_without_handle());
        let seen = self.raised.filter(|_| observation.reading.etag.is_none());
        own.map(|operation| operation.accepted).chain(seen).any(is_young)
    }

    pub(super) fn recent_reduction(&self, now: Instant) -> Option<Reduction> {
        self.reduction.filter(|reduction| now.saturating_duration_since(reduction.sent) <= HEAL_WINDOW)
    }
}
