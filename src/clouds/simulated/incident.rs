//! What happens to a simulated cloud without a call: other launches and deletions, evictions, instances of the cloud's
//! own, lost responses and outages. The demo plays it, and the tests use it.
//!
//! These are methods of [`Simulated`] and [`World`] alone. The trait of a cloud has none of them, so nothing can cause
//! them on a real one.

use std::sync::Arc;
use std::time::Duration;

use super::call::{CallFault, CallKind};
use super::plan::GroupPlan;
use super::record::Refusal;
use super::source::{Simulated, lock};
use super::world::World;
use crate::cloud::ProviderId;

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

    /// Deletes one instance as somebody does who does not tell the group. Returns whether there was one.
    pub fn delete_behind(&mut self, now: Duration, group: &str, id: &ProviderId) -> Result<bool, Refusal> {
        self.edit(now, group, |group, at| {
            let found = group.find(id.instance());
            found.is_some_and(|serial| !group.lose(at, &[serial]).is_empty())
        })
    }
}

impl Simulated {
    /// Changes the plan of a group.
    pub fn replan(&self, group: &str, change: impl FnOnce(&mut GroupPlan)) -> Result<(), Refusal> {
        self.world(|world, now| world.replan(now, group, change))
    }

    /// Evicts up to this many running instances, and returns them.
    pub fn evict(&self, group: &str, count: usize) -> Result<Vec<ProviderId>, Refusal> {
        self.world(|world, now| world.evict(now, group, count))
    }

    /// Has the cloud launch this many running instances beyond the capacity, and remove as many after this time.
    pub fn launch_surplus(&self, group: &str, count: u32, lasts: Duration) -> Result<(), Refusal> {
        self.world(|world, now| world.launch_surplus(now, group, count, lasts))
    }

    /// Loses the response to the next call of this kind for a group. The call takes effect.
    pub fn lose_response(&self, kind: CallKind, group: &str) {
        lock(&self.faults).script(Some(kind), Some(group), 1, CallFault::LostResponse);
    }

    /// Ends or restores the connection to the cloud: while there is none, no call arrives.
    pub fn set_reachable(&self, is_reachable: bool) {
        lock(&self.faults).down = !is_reachable;
    }
}
