//! One instance of the simulated world.

use std::time::Duration;

use super::outcome::PlannedFailure;
use crate::cloud::ProviderId;

/// The lifecycle phase of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Requested, and not listed yet (AWS: an activity in progress).
    Requested,
    /// Listed, and being created (AWS: Pending).
    Creating,
    /// Running (AWS: InService).
    Running,
    /// Created, but unusable (Azure: provisioning failed).
    Broken,
    /// Running, but not part of the capacity (AWS: Standby).
    Standby,
    /// Being deleted (AWS: Terminating).
    Deleting,
}

impl Phase {
    /// Whether the instance is listed and stays until something removes it. Standby does not count.
    pub fn lives(self) -> bool {
        matches!(self, Self::Creating | Self::Running | Self::Broken)
    }
}

/// The next change of an instance's phase that is already decided.
#[derive(Clone, Debug)]
pub(super) enum Transition {
    /// It is listed; the next transition follows after this time.
    Listed(Duration, Box<Transition>),
    /// It runs.
    Running,
    /// Its launch fails.
    LaunchFails {
        /// Why.
        failure: PlannedFailure,
        /// Whether the cloud then lowers the capacity by this instance.
        rollback: bool,
    },
    /// Its launch fails in this zone and starts again in another one.
    ZoneFails(PlannedFailure),
    /// It is created, but unusable.
    Breaks(PlannedFailure),
    /// It is gone.
    Gone,
    /// Its deletion fails.
    DeletionFails(PlannedFailure),
}

/// Whether the group's capacity counts an instance that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionAccounting {
    /// The capacity counts the instance until it is gone.
    UntilGone,
    /// The capacity was lowered when the deletion was accepted; it is raised again if the deletion fails.
    Released,
    /// The deletion does not change the capacity.
    None,
}

/// One instance of the simulated world, with everything that the cloud knows about it.
/// [`Instance`](crate::cloud::Instance) shows only a part of that.
#[derive(Clone, Debug)]
pub struct Member {
    /// The cloud's ID: `i-…` on AWS, a number within the scale set on Azure.
    pub id: String,
    /// The provider ID that its kubelet reports.
    pub provider_id: ProviderId,
    /// Its zone.
    pub zone: String,
    /// Its instance type.
    pub instance_type: String,
    /// Its lifecycle phase.
    pub phase: Phase,
    /// When it was requested, since the beginning of the world.
    pub since: Duration,
    /// Why it is broken, and since when.
    pub failure: Option<(PlannedFailure, Duration)>,
    pub(super) transition: Option<(Duration, Transition)>,
    pub(super) accounting: DeletionAccounting,
    /// The phase that it returns to if its deletion fails.
    pub(super) resumes: Phase,
    pub(super) operation: Option<u64>,
    pub(super) activity: Option<u64>,
    /// Whether the cloud lists it without an ID.
    pub(super) lacks_id: bool,
}

impl Member {
    /// Whether the group's capacity counts it.
    pub fn counts(&self) -> bool {
        self.phase.lives() || (self.phase == Phase::Deleting && self.accounting == DeletionAccounting::UntilGone)
    }
}
