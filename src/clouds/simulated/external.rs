//! Changes of the world that do not come through the API of the caller, and past readings.

use std::sync::Arc;
use std::time::Duration;

use super::group::Group;
use super::plan::{GroupPlan, GroupStyle};
use super::record::{Author, Refusal};
use super::world::World;
use crate::cloud::{GroupReading, ProviderId};

impl World {
    /// Changes the plan of a group. Launches and deletions are counted from one again.
    pub fn replan(&mut self, now: Duration, group: &str, change: impl FnOnce(&mut GroupPlan)) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| {
            change(&mut group.plan);
            (group.launches, group.deletions) = (0, 0);
            group.hints = Arc::new(group.plan.hints.clone());
            group.changed();
            group.retry_later(at);
        })
    }

    /// Evicts up to this many running instances, and returns them.
    pub fn evict(&mut self, now: Duration, group: &str, count: usize) -> Result<Vec<ProviderId>, Refusal> {
        self.edit(now, group, |group, at| group.evict(at, count))
    }

    /// Adds this many running instances, and raises the capacity by their number.
    pub fn add_instances(&mut self, now: Duration, group: &str, count: u32) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.attach(at, count))
    }

    /// Has the cloud launch this many running instances beyond the capacity, and remove as many after this time.
    pub fn launch_surplus(&mut self, now: Duration, group: &str, count: u32, lasts: Duration) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.launch_surplus(at, count, lasts))
    }

    /// Sets the capacity as another client of the same API.
    pub fn set_desired_externally(&mut self, now: Duration, group: &str, to: u32) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| match group.plan.style {
            GroupStyle::AutoScaling => group.set_desired(at, to, Author::External),
            GroupStyle::ScaleSet => group.resize(at, to, None, Author::External).map(|_| ()),
        })?
    }

    /// Keeps readings of every group from now on, for this long.
    pub fn keep_past_readings(&mut self, now: Duration, horizon: Duration) {
        self.advance(now);
        let past_readings = self.past_readings.get_or_insert_default();
        past_readings.keep_for(horizon);
        for group in self.groups.values() {
            past_readings.record(self.now, group);
        }
    }

    /// The reading of a group this long ago, as far as readings are kept. `None` if the group did not exist then.
    pub fn reading_ago(&self, group: &str, ago: Duration) -> Option<GroupReading> {
        match self
            .past_readings
            .as_ref()
            .and_then(|past_readings| past_readings.at(group, self.now.saturating_sub(ago)))
        {
            Some(then) => then,
            None => self.group(group).map(Group::reading),
        }
    }
}
