//! The group's numbers, derived from the last observation and the operations in flight and from nothing else (law 3).
//!
//! Two things need care. A cloud may take a deleted instance out of its capacity when it accepts the deletion, or only
//! when the machine is gone; which it did is what the first reading after it showed, kept with the operation. And a
//! read may lag behind a write: while a capacity write is unseen, a read that still says `from` means `to`.

use std::collections::BTreeMap;

use super::observation::Observation;
use super::operation::{Kind, Operation};
use crate::cloud::{Counts, Instance, InstanceState, ProviderId};

/// The numbers of one group at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Census {
    /// The capacity, with writes that no read has shown yet.
    pub desired: u32,
    /// Instances that live, are not being deleted, and are part of the capacity.
    pub live: u32,
    /// The capacity less the instances being deleted that it still counts.
    pub remaining: u32,
    /// Instances the capacity asks for and the cloud does not list.
    pub shortfall: u32,
}

/// Takes the census.
pub(super) fn census(observation: &Observation, operations: &[Operation]) -> Census {
    let desired = desired(observation.reading.desired, operations);
    let going = going(operations);
    let (mut live, mut counted, mut deleting) = (0_u32, 0_u32, false);
    for instance in &observation.instances {
        let asked = going.get(&instance.id);
        if instance.state != InstanceState::Deleting && asked.is_none() {
            live += u32::from(instance.counts != Counts::No);
        } else {
            deleting = true;
            counted += u32::from(capacity_counts(instance, asked.copied().flatten()));
        }
    }
    // What was read bounds the error of a guess: a capacity of 4 with 4 that live counts none of those on their way out.
    // A guess it is where nobody saw which habit the cloud has (a restart), and where the capacity was read a moment later
    // than the instances and had already lost some that the list still shows.
    let counted = counted.min(observation.reading.desired.saturating_sub(live));
    let remaining = if deleting { desired.min(live.max(desired.saturating_sub(counted))) } else { desired };
    Census { desired, live, remaining, shortfall: remaining.saturating_sub(live) }
}

/// Whether an instance on its way out is still part of the capacity; in doubt, yes.
fn capacity_counts(instance: &Instance, seen: Option<bool>) -> bool {
    match (instance.counts, instance.state) {
        (Counts::No, _) => false,
        (Counts::Yes, InstanceState::Deleting) => true,
        _ => seen.unwrap_or(true),
    }
}

/// The capacity that a read means, given the writes it may not show yet.
pub(super) fn desired(read: u32, operations: &[Operation]) -> u32 {
    operations.iter().fold(read, |desired, operation| operation.shadows(desired).unwrap_or(desired))
}

/// Instances whose deletion was accepted, and whether the capacity still counts them as far as was seen.
pub(super) fn going(operations: &[Operation]) -> BTreeMap<&ProviderId, Option<bool>> {
    operations
        .iter()
        .filter_map(|operation| match &operation.kind {
            Kind::Delete { ids, counted, .. } => Some(ids.iter().map(|id| (id, *counted))),
            Kind::Capacity { .. } => None,
        })
        .flatten()
        .collect()
}
