//! The outcomes of launches and deletions that a plan prescribes.

use std::time::{Duration, SystemTime};

use super::chance::{Pick, Span};
use crate::cloud::{Failure, FailureClass};

/// A failure that a plan prescribes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFailure {
    /// How CA treats it.
    pub class: FailureClass,
    /// The cloud's code.
    pub code: String,
    /// The cloud's message.
    pub message: String,
}

impl PlannedFailure {
    /// A failure for lack of capacity or quota.
    pub fn out_of_resources(code: &str, message: &str) -> Self {
        Self { class: FailureClass::OutOfResources, code: code.to_owned(), message: message.to_owned() }
    }

    /// Any other failure.
    pub fn other(code: &str, message: &str) -> Self {
        Self { class: FailureClass::Other, code: code.to_owned(), message: message.to_owned() }
    }

    /// The failure as it is reported at this time.
    pub(super) fn at(&self, at: Duration) -> Failure {
        self.as_of(super::world::wall_clock(at))
    }

    /// The same, by the cloud's clock.
    pub(super) fn as_of(&self, at: SystemTime) -> Failure {
        Failure {
            class: self.class,
            code: self.code.clone(),
            message: self.message.clone(),
            at,
            is_explained: true,
            is_eviction: false,
        }
    }
}

/// How a launch ends.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchOutcome {
    /// It succeeds.
    Fine,
    /// It fails after a time, without an instance.
    Fails {
        /// Why.
        failure: PlannedFailure,
        /// How long it takes to fail.
        after: Span,
        /// Whether the cloud then lowers the group's capacity again.
        rollback: bool,
    },
    /// It fails in one zone after a time; an Auto Scaling group of several zones launches in another one at once.
    FailsInZone {
        /// Why.
        failure: PlannedFailure,
        /// How long it takes to fail.
        after: Span,
    },
    /// It creates an unusable instance (a VM extension failed, a lifecycle hook was abandoned). A scale set keeps such
    /// an instance as failed; an Auto Scaling group terminates and replaces it.
    Breaks {
        /// Why.
        failure: PlannedFailure,
        /// How long the instance takes to fail.
        after: Span,
    },
    /// The write that requests it is refused at once.
    Refused(PlannedFailure),
}

impl LaunchOutcome {
    /// A failure after this time that leaves the capacity as requested.
    pub fn fails(failure: PlannedFailure, after: Span) -> Self {
        Self::Fails { failure, after, rollback: false }
    }

    /// A failure after this time, after which the cloud lowers the capacity again.
    pub fn rolls_back(failure: PlannedFailure, after: Span) -> Self {
        Self::Fails { failure, after, rollback: true }
    }
}

/// How a deletion ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It succeeds.
    Fine,
    /// It is accepted and fails at the end; the instance keeps running.
    FailsLater(PlannedFailure),
    /// It is refused at once: for this instance on an Auto Scaling group, as a whole on a scale set.
    Refused(PlannedFailure),
}

/// Outcomes, and the launches or deletions that have them. The first match decides. Without a match, all launches and
/// deletions succeed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OutcomeRules<T>(pub(super) Vec<(Pick, T)>);

impl<T> Default for OutcomeRules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> OutcomeRules<T> {
    /// The outcome of the `nth` launch or deletion, among the wanted outcomes.
    pub(super) fn outcome_for(&self, nth: u32, rng: &mut fastrand::Rng, wanted: impl Fn(&T) -> bool) -> Option<&T> {
        self.0
            .iter()
            .filter(|(_, outcome)| wanted(outcome))
            .find_map(|(pick, outcome)| pick.matches(nth, rng).then_some(outcome))
    }
}
