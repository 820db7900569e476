//! Work beside the keeper, so that none of it delays a write (law 12): reads that no write waits for, launch activity,
//! polls of operations, and the template. Each is a task of its own, and what it finds comes back to the keeper's loop.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use super::context::KeeperContext;
use super::reader::GroupReader;
use crate::cloud::{CloudError, GroupReading, LaunchRequest, OperationHandle, Progress, ReadOnlyCloud, Shortfall};
use crate::fleet::limits::{
    POLL_EVERY, POLL_LAUNCH_MAX, POLL_LAUNCH_MIN, POLL_LIMIT, POLL_MIN, POLL_PAUSE_MAX, POLLS_FAIL_FOR,
    POLLS_REFUSED_MAX, READ_LIMIT, WRITE_LIMIT,
};
use crate::fleet::snapshot::GroupKey;
use crate::fleet::template_builder::BuiltTemplate;
use crate::group::{CALLER_WAITS, Event, ListingKey, OPERATION_LIFE, OperationId, PollEnd};
use crate::tasks::{TaskKind, Tasks};

/// What work beside the keeper found.
#[derive(Debug)]
pub(super) enum Finding {
    /// Something that the group is told.
    Event(Box<Event>),
    /// The template that was requested was built, or could not be. `None` where the builder has ended.
    Template(TemplateId, Option<Box<BuiltTemplate>>),
    /// Nothing.
    Nothing,
}

/// Names a request for a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TemplateId(u64);

impl Finding {
    fn of(event: Event) -> Self {
        Self::Event(Box::new(event))
    }
}

/// What an operation that is polled changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polled {
    /// The capacity. No caller waits for its end.
    Capacity,
    /// Instances go. At first, their callers may wait for the outcome.
    Deletion,
}

impl Polled {
    /// The pause before the next poll, unless the cloud asks for another one.
    fn pause(self, running: Duration) -> Duration {
        match self {
            Self::Capacity => (running / 2).clamp(POLL_LAUNCH_MIN, POLL_LAUNCH_MAX),
            Self::Deletion if running < CALLER_WAITS => POLL_MIN,
            Self::Deletion => (running / 10).clamp(POLL_EVERY, POLL_LAUNCH_MAX),
        }
    }
}

/// A read of the group, as logs and `/readyz` call it.
const READ: &str = "read";
/// A read of its launch activity.
const ACTIVITY: &str = "launch activity";
/// A launch.
const LAUNCH: &str = "launch";
/// A wait for a template.
const TEMPLATE: &str = "template";

/// The tasks beside one keeper. They end with it.
pub(super) struct SideTasks {
    tasks: JoinSet<Finding>,
    supervision: Tasks,
    group: Arc<str>,
    /// The template that is awaited: of those requested before it, none is of use any more.
    template: TemplateId,
}

impl SideTasks {
    pub(super) fn new(supervision: &Tasks, group: &GroupKey) -> Self {
        let (tasks, supervision, group) = (JoinSet::new(), supervision.clone(), group.to_string().into());
        Self { tasks, supervision, group, template: TemplateId::default() }
    }

    /// Starts work; a panic in it is noted, and ends it with `if_panicked`.
    fn spawn(
        &mut self,
        work: &'static str,
        if_panicked: Finding,
        finding: impl Future<Output = Finding> + Send + 'static,
    ) {
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
                if_panicked
            })
        });
    }

    /// Reads the group with its instances.
    pub(super) fn read(&mut self, reader: &GroupReader, listing: Option<ListingKey>) {
        let reader = reader.clone();
        let read = async move { Finding::of(Event::ReadBeside(reader.instances_or_gone_twice().await, listing)) };
        self.spawn(READ, Finding::of(Event::ReadPanicked(listing)), read);
    }

    /// Reads the launch activity.
    pub(super) fn read_activity(&mut self, reader: &GroupReader, shortfall: Shortfall) {
        let reader = reader.clone();
        let read =
            async move { Finding::of(Event::ActivityBeside(reader.launch_activity(shortfall, READ_LIMIT).await)) };
        self.spawn(ACTIVITY, Finding::of(Event::ActivityPanicked), read);
    }

    /// Launches instances.
    pub(super) fn launch(
        &mut self,
        context: &KeeperContext,
        reader: &GroupReader,
        (operation, basis, launch): (OperationId, Box<GroupReading>, LaunchRequest),
    ) {
        let (context, timed_out) = (context.clone(), reader.timed_out("launch"));
        let panicked = Finding::of(Event::Launched(operation, Err(timed_out.clone())));
        let launching = async move {
            let outcome = timeout(WRITE_LIMIT, context.launch(&basis, &launch)).await;
            Finding::of(Event::Launched(operation, outcome.unwrap_or(Err(timed_out))))
        };
        self.spawn(LAUNCH, panicked, launching.in_current_span());
    }

    /// Polls an operation to its end.
    pub(super) fn poll(
        &mut self,
        cloud: &ReadOnlyCloud,
        group: Arc<str>,
        operation: OperationId,
        polled: Polled,
        handle: OperationHandle,
    ) {
        let (cloud, tasks) = (Arc::clone(cloud), self.supervision.clone());
        self.tasks.spawn(async move {
            let polling =
                tasks.guard(TaskKind::SideTask, poll_to_end(&cloud, &group, operation, polled, &handle)).await;
            let end = polling.unwrap_or_else(|panic| {
                tasks.note(TaskKind::SideTask, &format!("poll of {group}"));
                tracing::error!(
                    group = &*group, %operation, panic,
                    "the poll of an operation panicked; observations alone show what becomes of it"
                );
                PollEnd::Unpollable
            });
            Finding::of(Event::Polled(operation, end))
        });
    }

    /// Waits for a template.
    pub(super) fn await_template(&mut self, built: tokio::sync::oneshot::Receiver<BuiltTemplate>) -> TemplateId {
        self.template.0 += 1;
        let id = self.template;
        let built = async move { Finding::Template(id, built.await.ok().map(Box::new)) };
        self.spawn(TEMPLATE, Finding::Template(id, None), built);
        id
    }

    /// Whether there is anything to wait for.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// What the next task to end found; `None` where there is no task.
    pub(super) async fn next(&mut self) -> Option<Finding> {
        // A task catches its own panics, and is cancelled only with the keeper.
        Some(self.tasks.join_next().await?.unwrap_or(Finding::Nothing))
    }
}

/// Polls an operation until the cloud reports its end, or for as long as that makes sense.
async fn poll_to_end(
    cloud: &ReadOnlyCloud,
    group: &str,
    operation: OperationId,
    polled: Polled,
    handle: &OperationHandle,
) -> PollEnd {
    let accepted = Instant::now();
    let give_up = accepted + OPERATION_LIFE;
    let usual = || polled.pause(accepted.elapsed());
    let (mut refused, mut is_warned) = (0, false);
    let (mut pause, mut heard) = (usual(), accepted);
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
                let pause = pause_after(&error).min(give_up.saturating_duration_since(Instant::now()));
                if matches!(error, CloudError::Throttled { retry_after: Some(_), .. }) {
                    // The cloud has asked for it: that no poll succeeds meanwhile says nothing.
                    heard += pause;
                }
                pause
            }
            Err(_elapsed) if heard.elapsed() > POLLS_FAIL_FOR => {
                tracing::warn!(group, %operation, "operation cannot be polled in time; observations alone show what \
                    becomes of it");
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
            tracing::warn!(group, %operation, %error, "operation cannot be polled; observations alone show what \
                becomes of it")
        }
    }
}

fn pause_after(error: &CloudError) -> Duration {
    match error {
        CloudError::Throttled { retry_after: Some(pause), .. } => (*pause).max(POLL_EVERY),
        _ => POLL_EVERY,
    }
}
