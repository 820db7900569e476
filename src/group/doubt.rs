//! Observations that contradict themselves (law 5). An in-tree provider once accepted a capacity of 0 for 90 running
//! nodes, and its next write deleted 89 of them (#9452). Headcount neither publishes such an observation nor computes a
//! write from it until a second read confirms it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::accounting::Accounting;
use super::census::{Census, census};
use super::in_flight::InFlight;
use super::observation::{Observation, count};
use super::state::GroupState;
use crate::cloud::{Counts, Instance};

/// Why an observation is not used at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Doubt {
    /// The capacity is below the live instances.
    CapacityBelowLive {
        /// The capacity, with writes that are not visible yet.
        capacity: u32,
        /// The live instances.
        live: u32,
    },
    /// The capacity fell by half or more, and nothing that Headcount did explains it.
    CapacityFell {
        /// The capacity before, without instances being deleted.
        before: u32,
        /// The capacity that was read, also without instances being deleted.
        after: u32,
        /// The instances that were read, also without those being deleted.
        listed: u32,
    },
    /// Half or more of the instances are gone, and nothing that Headcount did explains it.
    InstancesGone {
        /// The instances before.
        before: u32,
        /// The instances read.
        after: u32,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CapacityBelowLive { capacity, live } => {
                write!(formatter, "the capacity is {capacity}, but {live} instances are live")
            }
            Self::CapacityFell { before, after, .. } => write!(formatter, "the capacity fell from {before} to {after}"),
            Self::InstancesGone { before, after } => {
                write!(formatter, "only {after} of {before} instances are listed")
            }
        }
    }
}

/// Why a group's first observation is in doubt, if it is.
pub(crate) fn doubt_first(observation: &Observation) -> Option<Doubt> {
    let in_flight = InFlight::default();
    // As in `doubt`: instances that are protected stay beyond any capacity.
    if in_flight.is_protected(observation) {
        return None;
    }
    let Census { capacity, live, .. } = census(observation, &in_flight);
    (capacity < live).then_some(Doubt::CapacityBelowLive { capacity, live })
}

/// Why an observation is in doubt, if it is.
///
/// A capacity below the live instances is no contradiction if our own reduction caused it: an instance came up in the
/// meantime, and the capacity must be raised back at once.
pub(crate) fn doubt(state: &GroupState, observation: &Observation) -> Option<Doubt> {
    let (previous, in_flight) = (state.observation(), state.in_flight());
    // This observation shows what the one before could not: whether the capacity still counts what is being deleted.
    let next = in_flight.after(observation, &state.activity().launched);
    let (before, now) = (census(previous, in_flight), census(observation, &next));
    // Nothing is deleted for a capacity below instances that are protected, so it contradicts nothing.
    let is_protected = next.is_protected(observation);
    let now = if is_protected { now.with_all_live() } else { now };
    let expected = now.live.saturating_add(known_to_count(observation, &next));
    // More instances at an unchanged capacity are the cloud's own surplus, and no contradiction. A confirmed
    // contradiction stays confirmed as long as the capacity does not fall further. But no cloud launches a surplus in a
    // group of capacity 0: new instances there may be another client's.
    let is_surplus_of_nothing = now.capacity == 0 && now.live > before.live;
    let has_fallen = now.capacity < before.capacity;
    // Instances that were beyond the capacity before still are, however far a deletion lowers it.
    let in_capacity = expected.saturating_sub(in_flight.surplus());
    let is_too_low = now.capacity < in_capacity && !is_protected;
    let has_lowered = state.has_lowered(observation, next.unshown());
    if is_too_low && (has_fallen || is_surplus_of_nothing) && !has_lowered {
        return Some(Doubt::CapacityBelowLive { capacity: now.capacity, live: expected });
    }
    // Deletions explain a capacity of 0, but no list shows yet that they are done. A wrong read of 0 looks the same.
    let is_emptied_unseen = now.capacity == 0 && observation.detailed < observation.begun && observation.counted() > 0;
    let listed = staying(observation, &next);
    if is_emptied_unseen && before.capacity > 0 {
        return Some(Doubt::CapacityFell { before: before.capacity, after: 0, listed });
    }
    if has_halved(before.remaining, now.remaining) {
        return Some(Doubt::CapacityFell { before: before.remaining, after: now.remaining, listed });
    }
    let listed_before = staying(previous, in_flight);
    has_halved(listed_before, listed).then_some(Doubt::InstancesGone { before: listed_before, after: listed })
}

/// Listed instances being deleted that the capacity was seen to count.
fn known_to_count(observation: &Observation, in_flight: &InFlight) -> u32 {
    let is_counted = |instance: &&Instance| {
        instance.counts != Counts::No
            && in_flight.deletes(&instance.id)
            && in_flight.accounting(&instance.id) == Accounting::Counted
    };
    count(observation.instances.iter().filter(is_counted).count())
}

/// Whether a number fell by half or more. A fall from 2 to 1 does not count, because evictions cause it every day. A
/// fall to 0 always does.
fn has_halved(before: u32, after: u32) -> bool {
    before > after && after <= before / 2 && (after == 0 || before - after > 1)
}

/// The listed instances that the next read should show again. Those of a deletion without a response are included,
/// because one wrong read must not settle that deletion.
fn staying(observation: &Observation, in_flight: &InFlight) -> u32 {
    let stays = |instance: &&Instance| !in_flight.is_leaving(instance) || in_flight.may_live_on(instance);
    count(observation.instances.iter().filter(stays).count())
}

impl Doubt {
    /// Whether a second observation with the doubt `other` confirms the first. A fall may go on, as in a zone outage, but
    /// not by half again, of the capacity or of the instances: that would be a doubt of its own. If the capacity is below
    /// the live instances, the second one shows the same capacity: only the cloud's own surplus changes from read to read.
    pub(crate) fn is_confirmed_by(&self, other: &Self) -> bool {
        let goes_on = |after: u32, second: u32| second <= after && !has_halved(after, second);
        match (self, other) {
            (
                Self::CapacityBelowLive { capacity, live },
                Self::CapacityBelowLive { capacity: second, live: others },
            ) => capacity == second && !has_halved(*live, *others),
            (
                Self::CapacityFell { before, after, listed },
                Self::CapacityFell { before: second_before, after: second, listed: second_listed },
            ) => before == second_before && goes_on(*after, *second) && !has_halved(*listed, *second_listed),
            (Self::InstancesGone { before, after }, Self::InstancesGone { before: second_before, after: second }) => {
                before == second_before && goes_on(*after, *second)
            }
            _ => false,
        }
    }
}
