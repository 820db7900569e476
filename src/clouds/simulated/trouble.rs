//! What can go wrong with a launch or a deletion, as a plan lays it down beforehand.

use std::time::Duration;

use super::chance::{Pick, Span};
use crate::cloud::{Failure, FailureClass};

/// A failure that a plan foresees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFailure {
    /// What CA makes of it.
    pub class: FailureClass,
    /// The cloud's code.
    pub code: String,
    /// The cloud's message.
    pub message: String,
}

impl PlannedFailure {
    /// A failure for want of capacity or quota.
    pub fn out_of_resources(code: &str, message: &str) -> Self {
        Self { class: FailureClass::OutOfResources, code: code.to_owned(), message: message.to_owned() }
    }

    /// Any other failure.
    pub fn other(code: &str, message: &str) -> Self {
        Self { class: FailureClass::Other, code: code.to_owned(), message: message.to_owned() }
    }

    /// The failure as it is reported when it has happened.
    pub(super) fn at(&self, at: Duration) -> Failure {
        Failure {
            class: self.class,
            code: self.code.clone(),
            message: self.message.clone(),
            at: super::world::wall_clock(at),
            is_explained: true,
        }
    }
}

/// How a launch ends.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchOutcome {
    /// It succeeds.
    Fine,
    /// It fails after a time, and no machine comes of it.
    Fails {
        /// Why.
        failure: PlannedFailure,
        /// How long it takes to fail.
        after: Span,
        /// Whether the cloud then takes the instance out of the group's capacity again.
        rollback: bool,
    },
    /// A machine comes of it, and it is of no use (a VM extension failed, a lifecycle hook was abandoned). A scale set
    /// keeps such a machine as failed; an Auto Scaling group terminates and replaces it.
    Breaks {
        /// Why.
        failure: PlannedFailure,
        /// How long the machine takes to fail.
        after: Span,
    },
    /// The write that asks for it is refused at once.
    Refused(PlannedFailure),
}

impl LaunchOutcome {
    /// A failure after so many seconds which leaves the capacity as it was asked for.
    pub fn fails(failure: PlannedFailure, after: Span) -> Self {
        Self::Fails { failure, after, rollback: false }
    }

    /// A failure after so many seconds, after which the cloud takes the capacity back.
    pub fn rolls_back(failure: PlannedFailure, after: Span) -> Self {
        Self::Fails { failure, after, rollback: true }
    }
}

/// How a deletion ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It succeeds.
    Fine,
    /// It is accepted and fails when it should be done; the instance runs on.
    FailsLater(PlannedFailure),
    /// It is refused at once: for this instance on an Auto Scaling group, as a whole on a scale set.
    Refused(PlannedFailure),
}

/// Outcomes, and which launches or deletions they befall. The first that befalls one decides; none means fine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Troubles<T>(pub(super) Vec<(Pick, T)>);

impl<T> Default for Troubles<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Troubles<T> {
    /// The outcome that befalls the `nth`, among those of the wanted sort.
    pub(super) fn befalling(&self, nth: u32, rng: &mut fastrand::Rng, wanted: impl Fn(&T) -> bool) -> Option<&T> {
        self.0
            .iter()
            .filter(|(_, outcome)| wanted(outcome))
            .find_map(|(pick, outcome)| pick.befalls(nth, rng).then_some(outcome))
    }
}
