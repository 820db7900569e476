//! What a simulated cloud keeps on record: operations, activities, happenings, and instances killed unnamed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::trouble::PlannedFailure;
use crate::cloud::ProviderId;

/// What an operation was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// A new capacity.
    Resize,
    /// Deletion of named instances.
    Delete,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As asked.
    Succeeded,
    /// Otherwise.
    Failed(PlannedFailure),
    /// Given up for a later operation.
    Preempted,
}

/// An operation that the cloud accepted.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its number within its group.
    pub number: u64,
    /// What was asked.
    pub kind: OperationKind,
    /// When it was accepted.
    pub started: Duration,
    /// How and when it ended; `None` while it is under way.
    pub ending: Option<(Duration, Ending)>,
    /// Instances whose part in it is not over.
    pub(super) pending: usize,
    /// The first thing that went wrong in it.
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

/// How an activity stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivityStatus {
    /// Under way.
    InProgress,
    /// Done.
    Successful,
    /// Given up because it was no longer wanted.
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
    /// How it stands.
    pub status: ActivityStatus,
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
    /// The one who uses the cloud through its API.
    Caller,
    /// Someone else.
    Outside,
}

/// An instance that was deleted because a write lowered the capacity, without anyone having named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// When the cloud chose it.
    pub at: Duration,
    /// Its group.
    pub group: Arc<str>,
    /// The instance.
    pub id: ProviderId,
    /// The capacity that it was killed for.
    pub capacity: u32,
    /// Who lowered the capacity.
    pub author: Author,
}

/// Something that happened, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since the beginning of the world.
    pub at: Duration,
    /// The group it happened to.
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
    /// There is no such thing.
    NotFound,
    /// The group is not as the write supposes: its version differs (`PreconditionFailed`) or it is busy.
    Conflict,
    /// No quota or capacity.
    OutOfResources,
    /// Not allowed as it was asked.
    Refused,
}

/// A write that the cloud refused at once, with nothing done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why, in a word.
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

    /// A refusal as a plan foresees it.
    pub(super) fn planned(failure: &PlannedFailure) -> Self {
        let kind = match failure.class {
            crate::cloud::FailureClass::OutOfResources => RefusalKind::OutOfResources,
            crate::cloud::FailureClass::Other => RefusalKind::Refused,
        };
        Self::new(kind, &failure.code, failure.message.clone())
    }
}

/// What became of a deletion request, by the cloud's instance IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Deletion began.
    pub accepted: Vec<String>,
    /// Gone or going already.
    pub already_gone: Vec<String>,
    /// Refused, with the reason.
    pub refused: Vec<(String, Refusal)>,
    /// The operation, where there is one to follow.
    pub operation: Option<u64>,
}
