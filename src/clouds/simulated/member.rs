//! One simulated instance.

use std::time::Duration;

use super::trouble::PlannedFailure;
use crate::cloud::ProviderId;

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Asked for, and not listed yet (AWS: an activity in progress).
    Requested,
    /// Listed, and on its way (AWS: Pending).
    Creating,
    /// There (AWS: InService).
    Running,
    /// There, and of no use (Azure: provisioning failed).
    Broken,
    /// There, and no part of the capacity (AWS: Standby).
    Standby,
    /// Going (AWS: Terminating).
    Deleting,
}

impl Phase {
    /// Whether the instance is listed and stays unless something is done to it, standby left aside.
    pub fn lives(self) -> bool {
        matches!(self, Self::Creating | Self::Running | Self::Broken)
    }
}

/// What an instance will come to, as far as it is decided.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// It will be listed, and meet the next fate so much later.
    Appear(Duration, Box<Fate>),
    /// It will run.
    Run,
    /// Its launch will fail.
    Fail {
        /// Why.
        failure: PlannedFailure,
        /// Whether the cloud takes it out of the capacity then.
        rollback: bool,
    },
    /// It will be there and of no use.
    Break(PlannedFailure),
    /// It will be gone.
    Go,
    /// Its deletion will fail.
    Stay(PlannedFailure),
}

/// What the deletion of an instance has to do with the group's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The capacity includes the instance until it is gone.
    UntilGone,
    /// The capacity was lowered when the deletion was accepted; it is raised again if the deletion fails.
    GivenUp,
    /// Nothing.
    None,
}

/// One simulated instance.
#[derive(Clone, Debug)]
pub struct Member {
    /// The cloud's ID: `i-…` on AWS, a number within the scale set on Azure.
    pub id: String,
    /// The ID as a kubelet would report it.
    pub provider_id: ProviderId,
    /// Its zone.
    pub zone: String,
    /// Its instance type.
    pub instance_type: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// When it was asked for, since the beginning of the world.
    pub since: Duration,
    /// Why it is broken, and since when.
    pub failure: Option<(PlannedFailure, Duration)>,
    pub(super) fate: Option<(Duration, Fate)>,
    pub(super) claim: Claim,
    /// What it is again if its deletion fails.
    pub(super) resumes: Phase,
    pub(super) operation: Option<u64>,
    pub(super) activity: Option<u64>,
}

impl Member {
    /// Whether the group's capacity includes it.
    pub fn counts(&self) -> bool {
        self.phase.lives() || (self.phase == Phase::Deleting && self.claim == Claim::UntilGone)
    }
}
