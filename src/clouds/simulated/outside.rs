//! What is done to a world from outside, past the API, and how it is remembered.

use std::sync::Arc;
use std::time::Duration;

use super::group::Group;
use super::plan::{GroupPlan, Kind};
use super::record::{Author, Refusal};
use super::world::World;
use crate::cloud::{GroupReading, ProviderId};

impl World {
    /// Changes how a group is made or behaves. Launches and deletions are counted from one again.
    pub fn replan(&mut self, now: Duration, group: &str, change: impl FnOnce(&mut GroupPlan)) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| {
            change(&mut group.plan);
            (group.launches, group.deletions) = (0, 0);
            group.hints = Arc::new(group.plan.hints.clone());
            group.changed();
            group.retry_later(at);
        })
    }

    /// Takes up to so many running instances away. Answers which.
    pub fn evict(&mut self, now: Duration, group: &str, count: usize) -> Result<Vec<ProviderId>, Refusal> {
        self.edit(now, group, |group, at| group.evict(at, count))
    }

    /// Adds so many running instances, and raises the capacity by their number.
    pub fn add_instances(&mut self, now: Duration, group: &str, count: u32) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.attach(at, count))
    }

    /// Sets the capacity as somebody else would who uses the same API.
    pub fn set_desired_externally(&mut self, now: Duration, group: &str, to: u32) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| match group.plan.kind {
            Kind::AwsLike => group.set_desired(at, to, Author::Outside),
            Kind::AzureLike => group.resize(at, to, None, Author::Outside).map(|_| ()),
        })?
    }

    /// Remembers from now on how every group was, for as long as this.
    pub fn remember(&mut self, now: Duration, horizon: Duration) {
        self.advance(now);
        let memory = self.memory.get_or_insert_default();
        memory.reach_back(horizon);
        for group in self.groups.values() {
            memory.note(self.now, group);
        }
    }

    /// What a read of a group would have said so long ago, as far as it is remembered. `None` where there was no such
    /// group then.
    pub fn recall(&self, group: &str, ago: Duration) -> Option<GroupReading> {
        match self.memory.as_ref().and_then(|memory| memory.recall(group, self.now.saturating_sub(ago))) {
            Some(then) => then,
            None => self.view(group).map(Group::reading),
        }
    }
}
