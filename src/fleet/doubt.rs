//! Observations that contradict themselves (law 5). An in-tree provider once believed a capacity of 0 for 90 running nodes,
//! and 89 of them died (#9452). Headcount neither publishes such an observation nor writes on it until a second read confirms it.

use std::fmt;

use super::accounting::Accounting;
use super::census::{Census, census};
use super::in_flight::InFlight;
use super::observation::{Observation, count};
use super::state::GroupState;
use crate::cloud::{Counts, Instance};

/// Why an observation is not believed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The capacity is below the live instances.
    CapacityBelowLive {
        /// The capacity, with writes that are not visible yet.
        capacity: u32,
        /// The instances that live and count.
        live: u32,
    },
    /// The capacity fell by half or more, and nothing that Headcount did explains it.
    CapacityFell {
        /// The capacity before, without instances being deleted.
        before: u32,
        /// The capacity read, likewise.
        after: u32,
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
            Self::CapacityFell { before, after } => write!(formatter, "the capacity fell from {before} to {after}"),
            Self::InstancesGone { before, after } => {
                write!(formatter, "only {after} of {before} instances are listed")
            }
        }
    }
}

/// Why a group's first observation cannot be believed by itself, if it cannot.
pub(super) fn doubt_first(observation: &Observation) -> Option<Doubt> {
    let Census { capacity, live, .. } = census(observation, &InFlight::default());
    (capacity < live).then_some(Doubt::CapacityBelowLive { capacity, live })
}

/// Why an observation cannot be believed by itself, if it cannot.
///
/// A capacity below the live instances is no contradiction where a reduction of ours caused it: an instance came up in the
/// meantime, and that is a reason to raise the capacity back at once.
pub(super) fn doubt(state: &GroupState, observation: &Observation) -> Option<Doubt> {
    let (previous, in_flight) = (state.observation(), state.in_flight());
    // This observation shows what the one before could not: whether the capacity still counts what is being deleted.
    let next = in_flight.after(observation);
    let (before, now) = (census(previous, in_flight), census(observation, &next));
    let expected = now.live.saturating_add(known_to_count(observation, &next));
    // Instances that grew at an unchanged capacity are the cloud's own surplus, and no contradiction. A confirmed
    // contradiction stays confirmed as long as the capacity does not fall further. But no cloud makes a surplus of nothing:
    // under a capacity of 0, another client's new instances would be taken for one.
    let is_surplus_of_nothing = now.capacity == 0 && now.live > before.live;
    let has_fallen = now.capacity < before.capacity;
    // Those that were beyond the capacity before still are, whatever a deletion takes out of it.
    let in_capacity = expected.saturating_sub(in_flight.surplus());
    if now.capacity < in_capacity && (has_fallen || is_surplus_of_nothing) && !state.has_lowered(observation) {
        return Some(Doubt::CapacityBelowLive { capacity: now.capacity, live: expected });
    }
    // Deletions explain a capacity of 0, but no list shows yet that they are done. A wrong read of 0 looks the same.
    let is_emptied_unseen = now.capacity == 0 && observation.detailed < observation.begun && observation.counted() > 0;
    if is_emptied_unseen && before.capacity > 0 {
        return Some(Doubt::CapacityFell { before: before.capacity, after: 0 });
    }
    if has_halved(before.remaining, now.remaining) {
        return Some(Doubt::CapacityFell { before: before.remaining, after: now.remaining });
    }
    let (staying_before, staying_now) = (staying(previous, in_flight), staying(observation, &next));
    has_halved(staying_before, staying_now)
        .then_some(Doubt::InstancesGone { before: staying_before, after: staying_now })
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

/// A fall by half or more. From 2 to 1 is what evictions do every day; 0 is always doubted.
fn has_halved(before: u32, after: u32) -> bool {
    before > after && after <= before / 2 && (after == 0 || before - after > 1)
}

/// Listed instances that a read has to show again. Those of a deletion without a response are among them: one wrong read must
/// not settle it.
fn staying(observation: &Observation, in_flight: &InFlight) -> u32 {
    let stays = |instance: &&Instance| !in_flight.is_leaving(instance) || in_flight.may_live_on(instance);
    count(observation.instances.iter().filter(stays).count())
}

impl Doubt {
    /// Whether a second observation that is doubted for `other` says the same. A surplus that the cloud makes itself changes
    /// from read to read: where the capacity is too low, the capacity alone has to be the same.
    pub(super) fn is_confirmed_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::CapacityBelowLive { capacity, .. }, Self::CapacityBelowLive { capacity: second, .. }) => {
                capacity == second
            }
            _ => self == other,
        }
    }
}
