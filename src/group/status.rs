//! The status of a group: a pure function of the last observation, the operations in flight, and the placeholders. No
//! count is incremented or decremented anywhere (law 3).

use std::sync::Arc;

use super::census::Census;
use super::in_flight::InFlight;
use super::observation::{Observation, count};
use super::placeholder::Placeholder;
use crate::cloud::{Failure, InstanceState, ProviderId};

/// Target size and instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// The target size, in nodes.
    pub target: u32,
    /// The cloud's capacity that the target was derived from, with writes that no read shows yet.
    pub capacity: u32,
    /// Live instances.
    pub live: u32,
    /// What CA gave back or the cloud took away, and a capacity that is not lowered still holds.
    pub unfilled: u32,
    /// The instances to report, placeholders for missing ones included.
    pub instances: Vec<ReportedInstance>,
}

/// One instance, as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedInstance {
    /// Its ID.
    pub id: ProviderId,
    /// Its state.
    pub state: InstanceState,
    /// Why it will never be a node. Set only in state Creating, because CA reads it only there.
    pub failure: Option<Arc<Failure>>,
    /// Whether the instance exists; a placeholder's does not.
    pub exists: bool,
}

/// Derives the status to report.
pub(crate) fn status(
    census: Census,
    observation: &Observation,
    in_flight: &InFlight,
    placeholders: &[Placeholder],
) -> GroupStatus {
    let mut instances: Vec<ReportedInstance> = Vec::with_capacity(observation.instances.len() + placeholders.len());
    for instance in &observation.instances {
        let (state, failure) = if in_flight.is_leaving(instance) {
            (InstanceState::Deleting, None)
        } else if instance.failure.is_some() {
            (InstanceState::Creating, instance.failure.clone())
        } else {
            (instance.state, None)
        };
        instances.push(ReportedInstance { id: instance.id.clone(), state, failure, exists: true });
    }
    for placeholder in placeholders.iter().filter(|placeholder| placeholder.in_target()) {
        instances.push(ReportedInstance {
            id: placeholder.id.clone(),
            state: InstanceState::Creating,
            failure: placeholder.failure.clone(),
            exists: false,
        });
    }
    // Never more than the shortfall, which a deletion that was just accepted may have made smaller.
    let cancelled =
        count(placeholders.iter().filter(|placeholder| !placeholder.in_target()).count()).min(census.shortfall);
    let rolled_back = count(placeholders.iter().filter(|placeholder| !placeholder.in_capacity()).count());
    GroupStatus {
        target: census.remaining.saturating_sub(cancelled).saturating_add(rolled_back).saturating_add(in_flight.owed()),
        capacity: census.capacity,
        live: census.live,
        unfilled: if observation.reading.consistency.may_lower() { 0 } else { cancelled },
        instances,
    }
}

impl GroupStatus {
    /// The same, with these instances reported as running although the cloud lists them as failed. Evicted ones stay
    /// failed.
    pub(crate) fn with_running(mut self, is_node: impl Fn(&ProviderId) -> bool) -> Self {
        for reported in self.instances.iter_mut().filter(|reported| reported.exists) {
            let has_failed = reported.failure.as_ref().is_some_and(|failure| !failure.is_eviction);
            if has_failed && is_node(&reported.id) {
                (reported.state, reported.failure) = (InstanceState::Running, None);
            }
        }
        self
    }

    /// The same, with these running instances reported as being deleted and left out of the target.
    pub(crate) fn with_deleting(mut self, is_deleting: impl Fn(&ProviderId) -> bool) -> Self {
        let running = self.instances.iter_mut().filter(|reported| reported.state == InstanceState::Running);
        for reported in running.filter(|reported| is_deleting(&reported.id)) {
            reported.state = InstanceState::Deleting;
            self.target = self.target.saturating_sub(1);
        }
        self
    }

    /// How many reported instances are in this state.
    pub fn in_state(&self, state: InstanceState) -> u32 {
        count(self.instances.iter().filter(|instance| instance.state == state).count())
    }

    /// How many reported instances failed to be created.
    pub fn failed(&self) -> u32 {
        count(self.instances.iter().filter(|instance| instance.failure.is_some()).count())
    }
}
