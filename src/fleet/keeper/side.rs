//! Work beside the keeper, so that none of it delays a write (law 12): reads that no write waits for, launch activity, polls
//! of operations, and the template. Each is a task of its own, and what it finds comes back to the keeper's loop.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::reader::{GroupReader, ReadResult};
use crate::cloud::{CloudError, Failure, LaunchActivity, OperationHandle, Progress, ReadOnlyCloud, Shortfall};
use crate::fleet::limits::{OPERATION_LIFE, POLL_EVERY, POLL_LIMIT, POLL_MIN, POLLS_DENIED_MAX, READ_LIMIT};
use crate::fleet::mailbox::Adoption;
use crate::fleet::operation::OperationId;
use crate::fleet::template_builder::BuiltTemplate;

/// What work beside the keeper found.
#[derive(Debug)]
pub(super) enum Finding {
    /// The group was read with its instances.
    Read(ReadResult, Option<Adoption>),
    /// Its launch activity was read.
    Activity(Result<LaunchActivity, CloudError>),
    /// The operation's polls have ended.
    Polled(OperationId, PollEnd),
    /// The template was built, or could not be. `None` where the builder has ended.
    Template(Option<BuiltTemplate>),
    /// This work panicked.
    Panicked(&'static str),
}

/// A read of the group, as logs and `/readyz` call it.
const READ: &str = "read";
/// A read of its launch activity.
const ACTIVITY: &str = "launch activity";

/// Carries work out; a panic in it is a finding.
async fn guarded(work: &'static str, finding: impl Future<Output = Finding>) -> Finding {
    AssertUnwindSafe(finding).catch_unwind().await.unwrap_or(Finding::Panicked(work))
}

/// How the polls of an operation end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PollEnd {
    /// It succeeded, or the cloud has forgotten it.
    Succeeded,
    /// It failed.
    Failed(Failure),
    /// The cloud preferred another operation.
    Preempted,
    /// It cannot be polled: observations decide what became of it.
    Unpollable,
}

/// The tasks beside one keeper. They end with it.
#[derive(Default)]
pub(super) struct SideTasks {
    tasks: JoinSet<Finding>,
    is_reading: bool,
    is_read_wanted: bool,
    is_reading_activity: bool,
}

impl SideTasks {
    /// Reads the group with its instances. While such a read runs, another one is started after it.
    pub(super) fn read(&mut self, reader: &GroupReader, adoption: Option<Adoption>) {
        if self.is_reading {
            self.is_read_wanted = true;
            return;
        }
        self.is_reading = true;
        self.is_read_wanted = false;
        let reader = reader.clone();
        let read = async move { Finding::Read(reader.instances_or_gone_twice().await, adoption) };
        self.tasks.spawn(guarded(READ, read));
    }

    /// Reads the launch activity, unless it is being read.
    pub(super) fn read_activity(&mut self, reader: &GroupReader, shortfall: Shortfall) {
        if self.is_reading_activity {
            return;
        }
        self.is_reading_activity = true;
        let reader = reader.clone();
        let read = async move { Finding::Activity(reader.launch_activity(shortfall, READ_LIMIT).await) };
        self.tasks.spawn(guarded(ACTIVITY, read));
    }

    /// Polls an operation to its end.
    pub(super) fn poll(
        &mut self,
        cloud: &ReadOnlyCloud,
        group: Arc<str>,
        operation: OperationId,
        handle: OperationHandle,
    ) {
        let cloud = Arc::clone(cloud);
        self.tasks.spawn(async move {
            let polling = AssertUnwindSafe(poll_to_end(&cloud, &group, operation, &handle)).catch_unwind().await;
            let end = polling.unwrap_or_else(|_panic| {
                tracing::error!(
                    group = &*group, %operation,
                    "the poll of an operation panicked; observations alone show what becomes of it"
                );
                PollEnd::Unpollable
            });
            Finding::Polled(operation, end)
        });
    }

    /// Waits for a template.
    pub(super) fn await_template(&mut self, built: tokio::sync::oneshot::Receiver<BuiltTemplate>) {
        self.tasks.spawn(async move { Finding::Template(built.await.ok()) });
    }

    /// Whether there is anything to wait for.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// What the next task to end found; `None` where there is no task.
    pub(super) async fn next(&mut self) -> Option<Result<Finding, JoinError>> {
        let next = self.tasks.join_next().await;
        match &next {
            Some(Ok(Finding::Read(..))) => self.is_reading = false,
            Some(Ok(Finding::Activity(_))) => self.is_reading_activity = false,
            Some(Ok(Finding::Panicked(READ))) => self.is_reading = false,
            Some(Ok(Finding::Panicked(ACTIVITY))) => self.is_reading_activity = false,
            // Tasks are cancelled only with the keeper.
            Some(Err(_)) => (self.is_reading, self.is_reading_activity) = (false, false),
            _ => {}
        }
        next
    }

    /// Whether another read was wanted while one ran. Asking clears it.
    pub(super) fn take_read_wanted(&mut self) -> bool {
        std::mem::take(&mut self.is_read_wanted)
    }
}

/// Polls an operation until the cloud reports its end, or for as long as that makes sense.
async fn poll_to_end(cloud: &ReadOnlyCloud, group: &str, operation: OperationId, handle: &OperationHandle) -> PollEnd {
    let give_up = Instant::now() + OPERATION_LIFE;
    let (mut denied, mut is_warned) = (0, false);
    let mut pause = POLL_MIN;
    while Instant::now() < give_up {
        sleep(pause).await;
        pause = match timeout(POLL_LIMIT, cloud.follow(handle)).await {
            Ok(Ok(Progress::Running { ask_after })) => ask_after.unwrap_or(POLL_EVERY).max(POLL_MIN),
            Ok(Ok(Progress::Succeeded) | Err(CloudError::NotFound(_))) => return PollEnd::Succeeded,
            Ok(Ok(Progress::Failed(failure))) => return PollEnd::Failed(failure),
            Ok(Ok(Progress::Preempted)) => return PollEnd::Preempted,
            Ok(Err(error)) => {
                denied += u32::from(matches!(error, CloudError::Denied(_)));
                if denied >= POLLS_DENIED_MAX {
                    tracing::warn!(
                        group, %operation, %error,
                        "not permitted to poll operations; observations alone show what becomes of them"
                    );
                    return PollEnd::Unpollable;
                }
                if !std::mem::replace(&mut is_warned, true) {
                    tracing::warn!(group, %operation, %error, "operation cannot be polled; polling it again");
                }
                pause_after(&error)
            }
            Err(_elapsed) => {
                if !std::mem::replace(&mut is_warned, true) {
                    tracing::warn!(group, %operation, "operation cannot be polled in time; polling it again");
                }
                POLL_EVERY
            }
        };
    }
    PollEnd::Unpollable
}

fn pause_after(error: &CloudError) -> Duration {
    match error {
        CloudError::Throttled { retry_after: Some(pause), .. } => (*pause).clamp(POLL_EVERY, OPERATION_LIFE),
        _ => POLL_EVERY,
    }
}
