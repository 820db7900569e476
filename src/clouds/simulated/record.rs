//! The records of a simulated cloud: operations, activities, events, and instances that it deleted unnamed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::outcome::PlannedFailure;
use crate::cloud::ProviderId;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Sets the capacity.
    Resize,
    /// Deletes named instances.
    Delete,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Successfully.
    Succeeded,
    /// With a failure.
    Failed(PlannedFailure),
    /// Stopped for a later operation.
    Preempted,
}

/// An operation that the cloud accepted.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its number within its group.
    pub number: u64,
    /// What it does.
    pub kind: OperationKind,
    /// When it was accepted.
    pub started: Duration,
    /// How and when it ended; `None` while it is in progress.
    pub ending: Option<(Duration, Ending)>,
    /// The number of instances whose part in it is not over.
    pub(super) pending: usize,
    /// The first failure in it.
    pub(super) failure: Option<PlannedFailure>,
}

/// What an activity of an Auto Scaling group is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// Launching an instance.
    Launch,
    /// Terminating one.
    Terminate,
}

/// The status of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivityStatus {
    /// In progress.
    InProgress,
    /// Done.
    Successful,
    /// Cancelled because it was no longer needed.
    Cancelled,
    /// Failed.
    Failed(PlannedFailure),
}

/// An activity of an Auto Scaling group.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Its number within its group.
    pub number: u64,
    /// What it is about.
    pub kind: ActivityKind,
    /// The instance; a launch that failed has none.
    pub instance: Option<String>,
    /// When it began.
    pub started: Duration,
    /// When it ended.
    pub ended: Option<Duration>,
    /// Its status.
    pub status: ActivityStatus,
    /// It failed, and a launch in another zone began at once.
    pub is_made_up_for: bool,
    /// The cloud does it for a reason of its own (instance refresh, rebalancing, maintenance).
    pub is_own: bool,
}

impl Activity {
    /// The message that AWS would show with it.
    pub fn status_message(&self) -> Option<String> {
        let ActivityStatus::Failed(PlannedFailure { code, message, .. }) = &self.status else {
            return None;
        };
        Some(match self.kind {
            ActivityKind::Launch => {
                format!("Could not launch On-Demand Instances. {code} - {message} Launching EC2 instance failed.")
            }
            ActivityKind::Terminate => format!("{code} - {message} Terminating EC2 instance failed."),
        })
    }
}

/// Who wrote a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The caller under test.
    Caller,
    /// Another client.
    External,
}

/// An instance that was deleted because a write lowered the capacity, although no client named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// When the cloud chose it.
    pub at: Duration,
    /// Its group.
    pub group: Arc<str>,
    /// The instance.
    pub id: ProviderId,
    /// The capacity that the cloud deleted it to reach.
    pub capacity: u32,
    /// Who lowered the capacity.
    pub author: Author,
}

/// An event, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since the beginning of the world.
    pub at: Duration,
    /// Its group.
    pub group: Arc<str>,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.group, self.what)
    }
}

/// Why the cloud refused a write at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Not found.
    NotFound,
    /// The group's etag differs (`PreconditionFailed`), or the group is busy.
    Conflict,
    /// No quota or capacity.
    OutOfResources,
    /// Not allowed or invalid.
    Refused,
}

/// A write that the cloud refused at once, with nothing done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The class of the reason.
    pub kind: RefusalKind,
    /// The cloud's code.
    pub code: String,
    /// The cloud's message.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(kind: RefusalKind, code: &str, message: impl Into<String>) -> Self {
        Self { kind, code: code.to_owned(), message: message.into() }
    }

    /// A refusal that a plan prescribes.
    pub(super) fn planned(failure: &PlannedFailure) -> Self {
        let kind = match failure.class {
            crate::cloud::FailureClass::OutOfResources => RefusalKind::OutOfResources,
            crate::cloud::FailureClass::Other => RefusalKind::Refused,
        };
        Self::new(kind, &failure.code, failure.message.clone())
    }
}

/// The result of a deletion request, by the cloud's instance IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionResult {
    /// Deletion began.
    pub accepted: Vec<String>,
    /// Gone or being deleted already.
    pub already_gone: Vec<String>,
    /// Refused, with the reason.
    pub refused: Vec<(String, Refusal)>,
    /// The operation of a scale set.
    pub operation: Option<u64>,
}
