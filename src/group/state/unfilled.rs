//! Capacity of a scale set that no instance fills, and that is not lowered.
//!
//! Azure may delete `old − new` VMs when a scale set's capacity is lowered, whatever lives (dataplat/dbatools #10540).
//! So what CA gives back leaves the target and stays in the capacity until an instance takes its place. Azure does not
//! launch it by itself.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{GroupState, size};
use crate::cloud::{CapacityIs, Consistency, Missing, Provisioning};
use crate::group::observation::count;
use crate::group::placeholder::{Placeholder, PlaceholderState};

/// What a scale set has shown of how its capacity counts: the first scale-up over unfilled capacity shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KindOfCapacity {
    /// Nothing, or not clearly.
    Unknown,
    /// Such a scale-up is under way. It leads to this many live instances if the capacity is nominal, and to more if new
    /// capacities are compared with the live instances.
    Growing { if_nominal: u32 },
    /// The capacity is nominal.
    Nominal,
}

impl GroupState {
    /// Whether a lower capacity deletes nothing while it is not below the live instances. That of several zones which
    /// are served is not lowered: what CA gives back in one is still being launched, or has a launch of its own.
    pub(crate) fn may_lower(&self) -> bool {
        self.observation.reading.consistency.may_lower() && !self.has_separate_zones()
    }

    /// How much of the capacity CA gave back that is to be lowered.
    pub(crate) fn deferred(&self) -> u32 {
        if self.may_lower() { self.cancelled() } else { 0 }
    }

    /// How much of the capacity no instance fills and is not lowered.
    pub(crate) fn unfilled(&self) -> u32 {
        if self.observation.reading.consistency.may_lower() {
            return 0;
        }
        self.empty()
    }

    /// How much of the capacity no instance fills, and is not in the target.
    fn empty(&self) -> u32 {
        self.cancelled().min(self.census().shortfall)
    }

    /// How much of the maximum is taken up by capacity that no instance fills. None where the cloud launches what is
    /// missing by itself, or in a quiet scale set that is known to be nominal: there, a capacity above the maximum makes
    /// no more instances than were requested.
    pub(crate) fn taken_by_unfilled(&self) -> u32 {
        let makes_no_more = self.is_nominal() && self.is_quiet();
        if self.observation.reading.consistency.missing == Missing::Retried || makes_no_more {
            return 0;
        }
        self.empty()
    }

    /// Whether the capacity is known to be nominal. What the configuration says wins over what the group has shown.
    pub(crate) fn is_nominal(&self) -> bool {
        match self.observation.reading.consistency.capacity_is {
            CapacityIs::Nominal => true,
            CapacityIs::Actual => false,
            CapacityIs::Unknown => self.kind_of_capacity == KindOfCapacity::Nominal,
        }
    }

    /// Whether an instance may still take the place of a placeholder, or its capacity is still to be lowered.
    pub(crate) fn is_settling_placeholders(&self) -> bool {
        self.deferred() > 0 || self.placeholders.iter().any(Placeholder::in_target)
    }

    /// How many instances may exist that no list shows: being launched, as far as nothing tells that they failed.
    pub(crate) fn pending(&self) -> u32 {
        let is_pending = |one: &&Placeholder| one.state == PlaceholderState::Pending && one.failure.is_none();
        count(self.placeholders.iter().filter(is_pending).count())
    }

    /// The youngest placeholders stand for what a write of ours asked for.
    pub(crate) fn note_requested(&mut self, number: u32) {
        let pending = self.placeholders.iter_mut().rev().filter(|one| one.state == PlaceholderState::Pending);
        pending.take(size(number)).for_each(|placeholder| placeholder.is_requested = true);
    }

    /// Whether nothing runs that adds or deletes instances, and the last that did succeeded.
    fn is_quiet(&self) -> bool {
        self.observation.reading.provisioning == Provisioning::Succeeded
    }

    /// Takes out of the target what is missing in a scale set in which nothing runs, and that no write of ours asked
    /// for: evicted VMs, VMs that another client deleted one by one, what an earlier process was given back. Azure
    /// launches none of it.
    pub(crate) fn note_unfilled(&mut self, is_first: bool) {
        let observation = &self.observation;
        let is_left_out = observation.reading.consistency.missing == Missing::LeftOut && !self.may_lower();
        let is_whole = observation.detailed == observation.begun;
        let is_growing = self.in_flight.operations().iter().any(|operation| operation.is_growth());
        if !is_left_out || !is_whole || !self.is_quiet() || is_growing {
            return;
        }
        // A list without any VM may be wrong (law 5), however often it is read within the time that lists lag.
        let (is_empty, at) = (self.census().live == 0 && !is_first, observation.at);
        let is_old = |since: SystemTime| at.duration_since(since).is_ok_and(|missing| missing > Consistency::LAG);
        let is_found = |one: &&mut Placeholder| {
            let is_pending = one.state == PlaceholderState::Pending && !one.is_requested && one.failure.is_none();
            is_pending && (!is_empty || is_old(one.since))
        };
        // VMs that Azure lists without an ID exist, and no instance stands for them.
        let missing = self.census().shortfall.saturating_sub(observation.reading.without_id);
        let number = size(missing.saturating_sub(self.cancelled()));
        let found = self.placeholders.iter_mut().filter(is_found).take(number);
        found.for_each(|one| one.state = PlaceholderState::Cancelled);
    }

    /// Notes a scale-up from one capacity to another, if there is unfilled capacity that it may fill.
    pub(crate) fn note_growth_over_unfilled(&mut self, (from, to): (u32, u32)) {
        let is_first = self.kind_of_capacity == KindOfCapacity::Unknown && self.in_flight.operations().len() == 1;
        let shows = is_first && to > from && self.unfilled() > 0;
        self.learn_no_kind_of_capacity();
        if shows {
            self.kind_of_capacity =
                KindOfCapacity::Growing { if_nominal: self.census().live.saturating_add(to - from) };
        }
    }

    /// Learns nothing from a scale-up that failed, or beside which instances left: less lives than it made.
    pub(crate) fn learn_no_kind_of_capacity(&mut self) {
        if self.is_learning_kind_of_capacity() {
            self.kind_of_capacity = KindOfCapacity::Unknown;
        }
    }

    /// Learns from what the first scale-up over unfilled capacity made, once lists show all of it. Where no poll told
    /// how it ended, or another operation preempted it, more may come while something runs, and some may have failed.
    pub(crate) fn note_kind_of_capacity(&mut self) {
        let KindOfCapacity::Growing { if_nominal } = self.kind_of_capacity else { return };
        if self.may_lack_instances() || self.observation.reading.provisioning == Provisioning::Running {
            return;
        }
        let live = count(self.observation.instances.iter().filter(|one| !self.in_flight.is_leaving(one)).count());
        let is_nominal = self.is_quiet() && live == if_nominal;
        self.kind_of_capacity = if is_nominal { KindOfCapacity::Nominal } else { KindOfCapacity::Unknown };
    }

    /// Whether a list of instances is to show how the scale set counts.
    pub(crate) fn is_learning_kind_of_capacity(&self) -> bool {
        matches!(self.kind_of_capacity, KindOfCapacity::Growing { .. })
    }
}
