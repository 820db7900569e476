//! The work that holds a group's write lock: a batch of requests, or a write that no caller waits for. One job at a
//! time.

use std::collections::BTreeSet;
use std::mem;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::event::Scope;
use super::limits::{ATTEMPT_PAUSE_MIN, CALLER_WAITS, DETAIL_LIMIT, LOST_PATIENCE, READ_AGAIN};
use super::lower::Lowering;
use super::observation::count;
use super::operation::OperationId;
use super::reading::{Fresh, Polls};
use super::refusal::WriteError;
use super::replace::Replace;
use super::state::WriteReason;
use super::time::Time;
use super::undo::Undo;
use crate::cloud::{CloudError, Deletion, LaunchActivity, ProviderId};

/// A piece of work, from its first read to the response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub work: Work,
    pub progress: Progress,
}

/// How far a job's calls are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The attempts at the job.
    pub attempts: Attempts,
    /// The attempts at a read that has less time than the rest.
    pub patience: Option<Attempts>,
    /// How far its read is.
    pub read: Read,
    /// What it waits for.
    pub call: Option<Call>,
    /// What the cloud answered, until the work takes it.
    pub answer: Answer,
}

/// What a job does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// Carries out requests of the Cluster Autoscaler.
    Batch(Batch),
    /// Sends a preempted deletion again.
    Resend(Resend),
    /// Raises the capacity back (law 11).
    Undo(Undo),
    /// Raises the capacity by what is owed for deleted instances.
    Replace(Replace),
    /// Lowers the capacity by what CA gave back.
    Lower(Lowering),
}

/// How far sending a preempted deletion again is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Resend {
    Read,
    Sent,
}

/// How far a read for a write is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) enum Read {
    /// Nothing was read for the next write.
    #[default]
    Idle,
    /// It is being read, or read again in a moment.
    Wanted(Wanted),
    /// The next write is computed on this.
    Met(Box<Fresh>),
    /// It failed.
    Failed(WriteError),
}

/// A read that a write needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub scope: Scope,
    /// Whether the cloud reported once that the group does not exist.
    pub is_gone: bool,
    /// Why an earlier attempt failed.
    pub before: Option<CloudError>,
    /// What polls have told since the read before this one.
    #[serde(default)]
    pub polls: Polls,
}

impl Wanted {
    pub(super) fn new(scope: Scope) -> Self {
        Self { scope, is_gone: false, before: None, polls: Polls::NotAsked }
    }
}

/// What the cloud answered to a job's last call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) enum Answer {
    #[default]
    None,
    Activity(Result<LaunchActivity, CloudError>),
    /// A capacity write got no response by then: a read has to show the outcome.
    CapacityLost(SentCapacity, Time, CloudError),
    Capacity(CapacityOutcome),
    Deletion(SentDeletion, Result<Deletion, CloudError>),
}

/// What became of one capacity write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum CapacityOutcome {
    /// The cloud accepted it.
    Accepted,
    /// Nothing was done, for a reason that may pass: recompute from a new read.
    Retry(CloudError),
    /// It failed, or its outcome is unknown.
    Failed(WriteError),
}

/// A call whose answer the job waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Call {
    /// A read, with the time that it had.
    Read(Scope, Duration),
    Activity,
    Polls,
    Capacity(SentCapacity),
    Deletion(SentDeletion),
}

/// A capacity write that was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SentCapacity {
    pub operation: OperationId,
    pub from: u32,
    pub to: u32,
    pub reason: WriteReason,
    /// When it was sent, by the cloud's clock.
    pub sent: SystemTime,
    /// The same moment.
    pub sent_at: Time,
    /// The instances being deleted that the capacity had no room for.
    pub without_room: BTreeSet<ProviderId>,
}

/// A deletion that was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SentDeletion {
    pub operation: OperationId,
    pub ids: Vec<ProviderId>,
    pub is_resent: bool,
    /// When it was sent, by the cloud's clock.
    pub sent: SystemTime,
    /// The instances in whose place the capacity is to be raised.
    #[serde(default)]
    pub owed: BTreeSet<ProviderId>,
}

impl SentDeletion {
    /// How many of these instances the capacity is to be raised for.
    pub(super) fn owed_for(&self, ids: &BTreeSet<ProviderId>) -> u32 {
        count(self.owed.intersection(ids).count())
    }
}

impl Job {
    /// A job with this much time.
    pub(super) fn new(work: Work, attempts: Attempts) -> Self {
        Self {
            work,
            progress: Progress { attempts, patience: None, read: Read::Idle, call: None, answer: Answer::None },
        }
    }

    /// A job that no caller waits for.
    pub(super) fn of_our_own(work: Work, now: Time) -> Self {
        Self::new(work, Attempts::until(now + CALLER_WAITS))
    }
}

impl Progress {
    /// The attempts at its current read.
    pub(super) fn reading(&mut self) -> &mut Attempts {
        self.patience.as_mut().unwrap_or(&mut self.attempts)
    }

    /// Gives the next read a short time.
    pub(super) fn read_briefly(&mut self, now: Time) {
        self.patience = Some(Attempts::until(self.attempts.end().min(now + DETAIL_LIMIT)));
    }

    /// When it goes on, if it pauses.
    pub(super) fn paused_until(&self) -> Option<Time> {
        self.patience.as_ref().and_then(|patience| patience.retry_at).max(self.attempts.retry_at)
    }

    /// Ends the pause.
    pub(super) fn resume(&mut self) {
        self.attempts.retry_at = None;
        if let Some(patience) = &mut self.patience {
            patience.retry_at = None;
        }
    }

    /// What was read for the next write.
    pub(super) fn fresh(&self) -> Option<&Fresh> {
        if let Read::Met(fresh) = &self.read { Some(fresh.as_ref()) } else { None }
    }

    /// The same, which is then no longer fresh: a write consumes it, or something happened since.
    pub(super) fn take_fresh(&mut self) -> Option<Fresh> {
        match mem::take(&mut self.read) {
            Read::Met(fresh) => Some(*fresh),
            other => {
                self.read = other;
                None
            }
        }
    }

    /// The answer to its last call.
    pub(super) fn take_answer(&mut self) -> Answer {
        mem::take(&mut self.answer)
    }
}

/// The attempts at one write within a caller's time: conflicts, and throttles whose pause ends in time (law 2).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attempts {
    until: Time,
    /// The end of the caller's time, if `until` is earlier because the cloud did not respond lately.
    until_reached: Option<Time>,
    pause: Duration,
    /// When the next attempt begins.
    retry_at: Option<Time>,
}

impl Attempts {
    /// Attempts that end at this moment.
    pub(super) fn until(until: Time) -> Self {
        Self { until, until_reached: None, pause: ATTEMPT_PAUSE_MIN, retry_at: None }
    }

    /// The same at a cloud that did not respond lately: they end soon, unless it responds.
    pub(super) fn of_lost_cloud(self, now: Time) -> Self {
        Self { until: self.until.min(now + LOST_PATIENCE), until_reached: Some(self.until), ..self }
    }

    /// The cloud has responded.
    pub(super) fn reached(&mut self) {
        self.until = self.until_reached.take().unwrap_or(self.until);
    }

    /// Whether they end early because the cloud does not respond.
    pub(super) fn is_lost(&self) -> bool {
        self.until_reached.is_some()
    }

    /// They end no sooner than at this moment.
    pub(super) fn last_until(&mut self, until: Time) {
        self.until = self.until.max(until);
    }

    /// When they end.
    pub(super) fn end(&self) -> Time {
        self.until
    }

    /// The time that is left.
    pub(super) fn left(&self, now: Time) -> Duration {
        self.until.since(now)
    }

    /// Whether no attempt was made before this one.
    pub(super) fn is_first(&self) -> bool {
        self.pause == ATTEMPT_PAUSE_MIN
    }

    /// When the next attempt after `error` begins, if the time allows for one.
    pub(super) fn next(&self, now: Time, error: Option<&CloudError>) -> Time {
        let pause = match error {
            Some(CloudError::Throttled { retry_after: Some(pause), .. }) => (*pause).max(self.pause),
            _ => self.pause,
        };
        now + pause
    }

    /// Pauses before the next attempt, as long as the cloud asked for after `error`. `false` where the time does not
    /// allow for another one.
    pub(super) fn again(&mut self, now: Time, error: Option<&CloudError>) -> bool {
        let next = self.next(now, error);
        if next >= self.until {
            return false;
        }
        self.pause = (self.pause * 2).min(READ_AGAIN);
        self.retry_at = Some(next);
        true
    }

    /// Pauses for this long.
    pub(super) fn pause(&mut self, until: Time) {
        self.retry_at = Some(until);
    }
}
