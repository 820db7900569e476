//! Work beside the keeper, so that none of it delays a write (law 12): reads that no write waits for, launch activity, polls
//! of operations, and the template. Each is a task of its own, and what it finds comes back to the keeper's loop.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::reader::{GroupReader, ReadResult};
use crate::cloud::{CloudError, Failure, LaunchActivity, OperationHandle, Progress, ReadOnlyCloud, Shortfall};
use crate::fleet::limits::{
    HOLD_MAX, OPERATION_LIFE, POLL_EVERY, POLL_LIMIT, POLL_MIN, POLL_PAUSE_MAX, POLLS_FAIL_FOR, POLLS_REFUSED_MAX,
    READ_LIMIT,
};
use crate::fleet::mailbox::Adoption;
use crate::fleet::operation::OperationId;
use crate::fleet::snapshot::GroupKey;
use crate::fleet::template_builder::BuiltTemplate;
use crate::tasks::{TaskKind, Tasks};

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
/// A wait for a template.
const TEMPLATE: &str = "template";

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
pub(super) struct SideTasks {
    tasks: JoinSet<Finding>,
    supervision: Tasks,
    group: Arc<str>,
    is_reading: bool,
    is_read_wanted: bool,
    is_reading_activity: bool,
}

impl SideTasks {
    pub(super) fn new(supervision: &Tasks, group: &GroupKey) -> Self {
        Self {
            tasks: JoinSet::new(),
            supervision: supervision.clone(),
            group: group.to_string().into(),
            is_reading: false,
            is_read_wanted: false,
            is_reading_activity: false,
        }
    }

    /// Starts work; a panic in it is noted, and is a finding.
    fn spawn(&mut self, work: &'static str, finding: impl Future<Output = Finding> + Send + 'static) {
        let (tasks, group) = (self.supervision.clone(), Arc::clone(&self.group));
        self.tasks.spawn(async move {
            tasks.guard(TaskKind::SideTask, finding).await.unwrap_or_else(|panic| {
                tasks.note(TaskKind::SideTask, &format!("{work} of {group}"));
                tracing::error!(
                    group = &*group,
                    work,
                    panic,
                    "background work of the node group panicked; the next reading starts it again"
                );
                Finding::Panicked(work)
            })
        });
    }

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
        self.spawn(READ, read);
    }

    /// Reads the launch activity, unless it is being read.
    pub(super) fn read_activity(&mut self, reader: &GroupReader, shortfall: Shortfall) {
        if self.is_reading_activity {
            return;
        }
        self.is_reading_activity = true;
        let reader = reader.clone();
        let read = async move { Finding::Activity(reader.launch_activity(shortfall, READ_LIMIT).await) };
        self.spawn(ACTIVITY, read);
    }

    /// Polls an operation to its end, which shows in what is returned as well.
    pub(super) fn poll(
        &mut self,
        cloud: &ReadOnlyCloud,
        group: Arc<str>,
        operation: OperationId,
        handle: OperationHandle,
    ) -> watch::Receiver<Option<PollEnd>> {
        let (sender, outcome) = watch::channel(None);
        let (cloud, tasks) = (Arc::clone(cloud), self.supervision.clone());
        self.tasks.spawn(async move {
            let polling = tasks.guard(TaskKind::SideTask, poll_to_end(&cloud, &group, operation, &handle)).await;
            let end = polling.unwrap_or_else(|panic| {
                tasks.note(TaskKind::SideTask, &format!("poll of {group}"));
                tracing::error!(
                    group = &*group, %operation, panic,
                    "the poll of an operation panicked; observations alone show what becomes of it"
                );
                PollEnd::Unpollable
            });
            sender.send_replace(Some(end.clone()));
            Finding::Polled(operation, end)
        });
        outcome
    }

    /// Waits for a template.
    pub(super) fn await_template(&mut self, built: tokio::sync::oneshot::Receiver<BuiltTemplate>) {
        self.spawn(TEMPLATE, async move { Finding::Template(built.await.ok()) });
    }

    /// Whether there is anything to wait for.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// What the next task to end found; `None` where there is no task.
    pub(super) async fn next(&mut self) -> Option<Finding> {
        // A task catches its own panics, and is cancelled only with the keeper.
        let finding = self.tasks.join_next().await?.unwrap_or(Finding::Panicked(TEMPLATE));
        match &finding {
            Finding::Read(..) | Finding::Panicked(READ) => self.is_reading = false,
            Finding::Activity(_) | Finding::Panicked(ACTIVITY) => self.is_reading_activity = false,
            _ => {}
        }
        Some(finding)
    }

    /// Whether another read was wanted while one ran. Asking clears it.
    pub(super) fn take_read_wanted(&mut self) -> bool {
        std::mem::take(&mut self.is_read_wanted)
    }
}

/// Polls an operation until the cloud reports its end, or for as long as that makes sense.
async fn poll_to_end(cloud: &ReadOnlyCloud, group: &str, operation: OperationId, handle: &OperationHandle) -> PollEnd {
    let accepted = Instant::now();
    let give_up = accepted + OPERATION_LIFE;
    // At first a caller may wait for the outcome.
    let usual = || if accepted.elapsed() < HOLD_MAX { POLL_MIN } else { POLL_EVERY };
    let (mut refused, mut is_warned) = (0, false);
    let (mut pause, mut heard) = (POLL_MIN, accepted);
    while Instant::now() < give_up {
        sleep(pause).await;
        pause = match timeout(POLL_LIMIT, cloud.follow(handle)).await {
            Ok(Ok(Progress::Running { ask_after })) => {
                refused = 0;
                heard = Instant::now();
                ask_after.unwrap_or_else(usual).clamp(POLL_MIN, POLL_PAUSE_MAX)
            }
            Ok(Ok(Progress::Succeeded)) => return PollEnd::Succeeded,
            Ok(Ok(Progress::Failed(failure))) => return PollEnd::Failed(failure),
            Ok(Ok(Progress::Preempted)) => return PollEnd::Preempted,
            Ok(Err(error)) => {
                refused = if is_refusal(&error) { refused + 1 } else { 0 };
                if refused >= POLLS_REFUSED_MAX || heard.elapsed() > POLLS_FAIL_FOR {
                    warn_of_refusal(group, operation, &error);
                    return PollEnd::Unpollable;
                }
                if !std::mem::replace(&mut is_warned, true) {
                    tracing::warn!(group, %operation, %error, "operation cannot be polled; polling it again");
                }
                pause_after(&error)
            }
            Err(_elapsed) if heard.elapsed() > POLLS_FAIL_FOR => {
                tracing::warn!(group, %operation, "operation cannot be polled in time; observations alone show what becomes of it");
                return PollEnd::Unpollable;
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

/// Whether polling again would get the same response. A conflict may pass.
fn is_refusal(error: &CloudError) -> bool {
    !error.may_pass() && !matches!(error, CloudError::Conflict(_))
}

fn warn_of_refusal(group: &str, operation: OperationId, error: &CloudError) {
    match error {
        CloudError::Denied(_) => tracing::warn!(
            group, %operation, %error,
            "not permitted to poll operations; observations alone show what becomes of them"
        ),
        CloudError::NotFound(_) => tracing::warn!(
            group, %operation, %error,
            "the cloud does not know the operation any more; observations alone show what became of it"
        ),
        _ => {
            tracing::warn!(group, %operation, %error, "operation cannot be polled; observations alone show what becomes of it")
        }
    }
}

fn pause_after(error: &CloudError) -> Duration {
    match error {
        CloudError::Throttled { retry_after: Some(pause), .. } => (*pause).clamp(POLL_EVERY, POLLS_FAIL_FOR),
        _ => POLL_EVERY,
    }
}
