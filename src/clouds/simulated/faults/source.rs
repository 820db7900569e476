//! How tests change and inspect a simulated source.

use std::time::Duration;

use super::{Call, Faults, ReadFault};
use crate::cloud::{CloudError, GroupName, GroupReading};
use crate::clouds::simulated::source::lock;
use crate::clouds::simulated::{CallKind, Killed, Refusal, Simulated, errors};

impl Simulated {
    /// Runs a function on the faults, under their lock.
    pub fn faults<R>(&self, act: impl FnOnce(&mut Faults) -> R) -> R {
        let (result, horizon) = {
            let mut faults = lock(&self.faults);
            (act(&mut faults), faults.horizon())
        };
        if !horizon.is_zero() {
            self.world(|world, now| world.keep_past_readings(now, horizon));
        }
        result
    }

    /// The calls that were made to the [`Cloud`](crate::cloud::Cloud) trait, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.faults).calls().cloned().collect()
    }

    /// Every unnamed instance that was deleted because of a capacity write of the caller.
    pub fn killed_unnamed(&self) -> Vec<Killed> {
        self.world(|world, _| world.killed_unnamed())
    }

    /// Hides a group. Returns whether there was one.
    pub fn remove_group(&self, group: &str) -> bool {
        self.world(|world, now| world.remove_group(now, group))
    }

    /// Shows a hidden group again. Returns whether there is one.
    pub fn restore_group(&self, group: &str) -> bool {
        self.world(|world, now| world.restore_group(now, group))
    }

    /// Ends all deletions of a group that are under way now, each as it would have ended later.
    pub fn end_deletions(&self, group: &str) -> Result<(), Refusal> {
        self.world(|world, now| world.end_deletions(now, group))
    }

    /// Has the cloud list this many instances of a group without an ID for this long.
    pub fn hide_ids(&self, group: &str, count: usize, lasts: Duration) -> Result<(), Refusal> {
        self.world(|world, now| world.hide_ids(now, group, count, lasts))
    }

    /// Adds this many running instances, and raises the capacity by their number.
    pub fn add_instances(&self, group: &str, count: u32) -> Result<(), Refusal> {
        self.world(|world, now| world.add_instances(now, group, count))
    }

    /// Sets the capacity as another client.
    pub fn set_desired_externally(&self, group: &str, to: u32) -> Result<(), Refusal> {
        self.world(|world, now| world.set_desired_externally(now, group, to))
    }

    /// Applies the next read fault of a group to its reading.
    pub(in super::super) fn apply_read_fault(
        &self,
        kind: CallKind,
        group: &GroupName,
        reading: Option<GroupReading>,
    ) -> Result<Option<GroupReading>, CloudError> {
        let read_fault = lock(&self.faults).read_fault(self.elapsed(), kind, group.as_str());
        let Some(read_fault) = read_fault else { return Ok(reading) };
        match read_fault {
            ReadFault::Capacity(desired) => Ok(reading.map(|reading| GroupReading { desired, ..reading })),
            ReadFault::NoInstances => {
                Ok(reading.map(|reading| GroupReading { instances: Some(Vec::new()), ..reading }))
            }
            ReadFault::Missing => Ok(None),
            ReadFault::Stale(ago) => Ok(self.world(|world, _| world.reading_ago(group.as_str(), ago))),
            ReadFault::Broken => Err(errors::malformed(kind, group.as_str())),
        }
    }
}
