//! Which launches have begun, and whether a list may lack the instances that they made.

use super::GroupState;
use crate::cloud::{Consistency, Reads};
use crate::group::Time;
use crate::group::limits::WATCH_EVERY;

impl GroupState {
    /// Whether the instances last read are those of the capacity last read. Where these are two calls, the capacity can
    /// have been raised in between, and what seems to be missing is not. With an unchanged etag, it was not.
    pub(crate) fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// Whether the capacity was raised so recently that the group may not have begun to launch.
    pub(crate) fn has_just_grown(&self) -> bool {
        self.grown.is_some_and(|grown| self.observation.begun.since(grown) < Consistency::LAUNCH_BEGINS)
    }

    /// When the launches of our last scale-up should have begun or failed, if nothing but a read shows what became of
    /// them. `None` where no instance is missing.
    pub(crate) fn launches_show_at(&self) -> Option<Time> {
        let unpolled = self.in_flight.operations().iter().filter(|operation| operation.is_unpolled_growth());
        let last = unpolled.map(|operation| operation.accepted).max()?;
        (self.census().shortfall > 0).then(|| last + Consistency::LAUNCH_BEGINS + WATCH_EVERY)
    }

    /// From when on a list shows all instances that a scale-up made, another client's too. `None` while one runs.
    ///
    /// A scale set and its VMs are two reads, and the list of VMs may lag: VMs that it does not show yet run all the
    /// same, and Azure deletes some VMs of its own choice when the capacity falls below them. An Auto Scaling group
    /// comes with its instances, and its activities tell what is under way.
    pub(crate) fn lists_all_from(&self) -> Option<Time> {
        let observation = &self.observation;
        if observation.reading.consistency.reads == Reads::Together {
            return Some(observation.detailed);
        }
        let mut operations = self.in_flight.operations().iter();
        let is_growing = operations.any(|operation| operation.is_growth() && operation.is_polled());
        (!is_growing).then(|| self.grown.map_or(observation.detailed, |grown| grown + Consistency::LAG))
    }

    /// Whether live instances may be missing from the list that was read last.
    pub(crate) fn may_lack_instances(&self) -> bool {
        self.lists_all_from().is_none_or(|from| self.observation.detailed < from)
    }
}
