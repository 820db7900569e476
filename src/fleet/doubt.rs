//! Readings that contradict themselves (law 5). A capacity of 0 for 90 running nodes was once believed, and 89 of them
//! died (#9452): such a reading is neither published nor written on until a second one confirms it.

use std::fmt;

use super::census::{census, going};
use super::observation::{Observation, count};
use super::operation::Operation;
use super::state::GroupState;
use crate::cloud::{Counts, Instance, InstanceState};

/// Why a reading is not believed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The capacity is below the instances that live.
    CapacityBelowLive {
        /// The capacity read.
        desired: u32,
        /// The instances that live and count.
        live: u32,
    },
    /// The capacity fell by half or more, and nothing that Headcount did explains it.
    CapacityFell {
        /// The capacity before, without what was being deleted.
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
            Self::CapacityBelowLive { desired, live } => {
                write!(formatter, "capacity {desired} with {live} instances living")
            }
            Self::CapacityFell { before, after } => write!(formatter, "capacity fell from {before} to {after}"),
            Self::InstancesGone { before, after } => write!(formatter, "of {before} instances {after} are listed"),
        }
    }
}

/// Whether a reading can be believed by itself.
///
/// A capacity below what lives is no contradiction where a reduction of ours made it so: an instance came up in between,
/// and that is a reason to raise the capacity back at once.
pub(super) fn doubt(state: &GroupState, reading: &Observation) -> Option<Doubt> {
    let (previous, operations) = (state.observation(), state.operations());
    // This reading shows what the one before could not: whether the capacity still counts what was being deleted.
    let shown = state.operations_after(reading);
    let now = census(reading, &shown);
    let known = previous.map(|previous| (previous, census(previous, operations)));
    let there = now.live.saturating_add(known_to_count(reading, &shown));
    // A contradiction that was confirmed is none any more. Where the same capacity is read and means something else (a
    // scale-up was taken to lag, and has settled since), or more live than did (a deletion failed), it is a new one.
    let confirmed = known.is_some_and(|(previous, before)| {
        previous.reading.desired == reading.reading.desired
            && before.desired == now.desired
            && before.live.saturating_add(known_to_count(previous, operations)) >= there
    });
    if now.desired < there && !confirmed && !state.lowered(reading) {
        return Some(Doubt::CapacityBelowLive { desired: now.desired, live: there });
    }
    let (previous, before) = known?;
    if halved(before.remaining, now.remaining) {
        return Some(Doubt::CapacityFell { before: before.remaining, after: now.remaining });
    }
    let (listed_before, listed) = (staying(previous, operations), staying(reading, &shown));
    halved(listed_before, listed).then_some(Doubt::InstancesGone { before: listed_before, after: listed })
}

/// Instances on their way out that are still listed, and that this cloud was seen to count until they are gone.
fn known_to_count(reading: &Observation, operations: &[Operation]) -> u32 {
    let going = going(operations);
    let counts = |instance: &&Instance| instance.counts != Counts::No && going.get(&instance.id) == Some(&Some(true));
    count(reading.instances.iter().filter(counts).count())
}

/// A fall by half or more; from 1 to 0 or 2 to 1 is within what evictions do every day, but 0 is never taken on trust.
fn halved(before: u32, after: u32) -> bool {
    before > after && after <= before / 2 && (after == 0 || before - after > 1)
}

fn staying(observation: &Observation, operations: &[Operation]) -> u32 {
    let going = going(operations);
    let stays = |instance: &&Instance| instance.state != InstanceState::Deleting && !going.contains_key(&instance.id);
    count(observation.instances.iter().filter(stays).count())
}

/// Whether a second reading says the same as the doubted one.
pub(super) fn confirms(doubted: &Observation, second: &Observation) -> bool {
    doubted.reading.desired == second.reading.desired && doubted.instances.len() == second.instances.len()
}
