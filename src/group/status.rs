//! The status of a group: a pure function of the last observation, the operations in flight, and the placeholders. No
//! count is incremented or decremented anywhere (law 3).

use std::sync::Arc;

use super::census::Census;
use super::in_flight::InFlight;
use super::observation::{Observation, count};
use super::placeholder::Placeholder;
use crate::cloud::{Counts, Failure, Instance, InstanceState, ProviderId};

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
    instances.extend(observation.instances.iter().map(|instance| reported(instance, in_flight)));
    instances.extend(placeholders.iter().filter(|placeholder| placeholder.in_target()).map(reported_missing));
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

/// Derives the status to report of one zone: its instances that live, and those that launches in it will end in or
/// failed to make. What the group lacks otherwise belongs to no zone.
pub(crate) fn status_of_zone(
    zone: &str,
    observation: &Observation,
    in_flight: &InFlight,
    placeholders: &[Placeholder],
) -> GroupStatus {
    let here = || observation.instances.iter().filter(|instance| instance.id.is_in(zone));
    let missing = || placeholders.iter().filter(|placeholder| placeholder.zone.as_deref() == Some(zone));
    let live = count(here().filter(|one| one.counts != Counts::No && !in_flight.is_leaving(one)).count());
    let in_target = || missing().filter(|placeholder| placeholder.in_target());
    let mut instances: Vec<ReportedInstance> = here().map(|instance| reported(instance, in_flight)).collect();
    instances.extend(in_target().map(reported_missing));
    GroupStatus {
        target: live.saturating_add(count(in_target().count())),
        capacity: live.saturating_add(count(missing().filter(|placeholder| placeholder.in_capacity()).count())),
        live,
        unfilled: 0,
        instances,
    }
}

fn reported(instance: &Instance, in_flight: &InFlight) -> ReportedInstance {
    let (state, failure) = if in_flight.is_leaving(instance) {
        (InstanceState::Deleting, None)
    } else if instance.failure.is_some() {
        (InstanceState::Creating, instance.failure.clone())
    } else {
        (instance.state, None)
    };
    ReportedInstance { id: instance.id.clone(), state, failure, exists: true }
}

fn reported_missing(placeholder: &Placeholder) -> ReportedInstance {
    ReportedInstance {
        id: placeholder.id.clone(),
        state: InstanceState::Creating,
        failure: placeholder.failure.clone(),
        exists: false,
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

    /// The same, with these instances reported as being deleted and left out of the target.
    pub(crate) fn with_deleting(mut self, is_deleting: impl Fn(&ProviderId) -> bool) -> Self {
        let is_left = |reported: &&mut ReportedInstance| reported.exists && reported.state != InstanceState::Deleting;
        for reported in self.instances.iter_mut().filter(is_left).filter(|reported| is_deleting(&reported.id)) {
            (reported.state, reported.failure) = (InstanceState::Deleting, None);
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
