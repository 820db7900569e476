//! The group's numbers, derived from the last observation and what is in flight, and from nothing else (law 3).
//!
//! Two things need care. A cloud may take an instance out of its capacity when it accepts the deletion, or only when
//! the instance is gone: see [`super::accounting`]. And a read may lag behind a write: until a read has shown a
//! capacity write from `from` to `to`, a read of `from` counts as `to`.

use super::accounting::Accounting;
use super::in_flight::InFlight;
use super::observation::Observation;
use crate::cloud::{Counts, Instance, InstanceState};

/// The numbers of one group at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    /// The capacity as read, or as our writes set it where no read shows them yet.
    pub capacity: u32,
    /// Instances that live, are not being deleted, and are part of the capacity.
    pub live: u32,
    /// The capacity less the instances being deleted that it still counts.
    pub remaining: u32,
    /// Instances that the capacity asks for and the cloud does not list.
    pub shortfall: u32,
    /// Listed instances of the capacity whose deletion the cloud accepted after this read.
    pub unread: u32,
}

impl Census {
    /// The same, where all live instances are there to stay, whatever the capacity is.
    pub(crate) fn with_all_live(self) -> Self {
        let remaining = self.remaining.max(self.live);
        Self { remaining, shortfall: remaining - self.live, ..self }
    }
}

/// Takes the census.
pub(crate) fn census(observation: &Observation, in_flight: &InFlight) -> Census {
    let capacity = in_flight.capacity(&observation.reading);
    let (mut live, mut counted, mut unread, mut is_deleting) = (0_u32, 0_u32, 0_u32, false);
    for instance in &observation.instances {
        if in_flight.is_leaving(instance) {
            is_deleting = true;
            if instance.state != InstanceState::Deleting && in_flight.is_unread(&instance.id) {
                unread += u32::from(instance.counts != Counts::No);
            } else {
                counted += u32::from(is_counted(instance, in_flight.accounting(&instance.id)));
            }
        } else {
            live += u32::from(instance.counts != Counts::No);
        }
    }
    // A capacity that was read before a deletion was accepted counts its instances, however many others are live.
    let after_unread = capacity.saturating_sub(unread);
    // A capacity cannot count more instances than its own value: a capacity of 4 with 4 live instances counts none of
    // those being deleted. This limit matters after a restart, when no observation has shown how the cloud counts. It
    // also matters if the capacity was read a moment after the instances and had already fallen by some that the list
    // still shows. Live instances beyond the capacity do not use up any of it.
    let in_capacity = live.saturating_sub(in_flight.surplus());
    let counted = counted.min(observation.reading.desired.saturating_sub(in_capacity).saturating_sub(unread));
    let remaining =
        if is_deleting { after_unread.min(in_capacity.max(after_unread.saturating_sub(counted))) } else { capacity };
    Census { capacity, live, remaining, shortfall: remaining.saturating_sub(live), unread }
}

/// Whether the capacity still counts an instance being deleted. If that is unknown, it is assumed to.
fn is_counted(instance: &Instance, accounting: Accounting) -> bool {
    match (instance.counts, instance.state) {
        (Counts::No, _) => false,
        (Counts::Yes, InstanceState::Deleting) => true,
        _ => !accounting.is_uncounted(),
    }
}
