//! The long-lived tasks of the process. One that panics, or ends although it should not, is logged by its name, counted and shown, and
//! started again, with growing pauses. None of them ends unseen.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::metrics::FamilySpec;

/// The pause before a task is started again after its first panic; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A task that ran for this long is taken to have recovered.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

const RESTARTS: FamilySpec =
    FamilySpec::counter("headcount_task_restarts", &["task"], "Tasks that ended unexpectedly and were started again");

/// The families of this module.
pub const TASK_FAMILIES: [FamilySpec; 1] = [RESTARTS];

/// What a task does. All of them are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Lists a source.
    Source,
    /// Owns a node group.
    NodeGroup,
    /// Reads, polls or looks something up beside a node group's task.
    SideTask,
    /// Builds the node templates of a source.
    Templates,
    /// Says when the fleet is ready.
    Readiness,
    /// Learns from nodes.
    Learning,
    /// Watches the nodes of the cluster.
    NodeWatch,
    /// Writes Kubernetes Events.
    Events,
    /// Accepts connections on the gRPC port.
    GrpcPort,
    /// Serves one connection of the gRPC port.
    GrpcConnection,
    /// Reports to grpc.health.v1.
    HealthReporter,
    /// Reads the TLS files.
    TlsFiles,
    /// Accepts connections on the admin port, which serves the probes and the metrics.
    AdminPort,
    /// Serves one request of the admin port.
    AdminRequest,
    /// Reloads the configuration.
    Reload,
    /// Handles the signals that end the process.
    Signals,
    /// Fetches prices.
    Prices,
    /// Plays the demo's cloud.
    Demo,
}

impl TaskKind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Source,
        Self::NodeGroup,
        Self::SideTask,
        Self::Templates,
        Self::Readiness,
        Self::Learning,
        Self::NodeWatch,
        Self::Events,
        Self::GrpcPort,
        Self::GrpcConnection,
        Self::HealthReporter,
        Self::TlsFiles,
        Self::AdminPort,
        Self::AdminRequest,
        Self::Reload,
        Self::Signals,
        Self::Prices,
        Self::Demo,
    ];

    /// What logs, metrics and `/readyz` call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::NodeGroup => "node group",
            Self::SideTask => "side task",
            Self::Templates => "templates",
            Self::Readiness => "readiness",
            Self::Learning => "learning from nodes",
            Self::NodeWatch => "node watch",
            Self::Events => "events",
            Self::GrpcPort => "gRPC port",
            Self::GrpcConnection => "gRPC connection",
            Self::HealthReporter => "health reporter",
            Self::TlsFiles => "TLS files",
            Self::AdminPort => "admin port",
            Self::AdminRequest => "admin request",
            Self::Reload => "reload",
            Self::Signals => "signals",
            Self::Prices => "prices",
            Self::Demo => "demo",
        }
    }
}

/// How a task is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskHealth {
    /// How often it has panicked or ended.
    pub failures: u64,
    /// When it last did.
    pub last: Option<Instant>,
}

impl TaskHealth {
    /// Whether it failed a short time ago.
    pub fn is_failing(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed() < RECOVERED_AFTER)
    }
}

/// How the tasks that have failed are doing.
#[derive(Clone, Debug, Default)]
pub struct Tasks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    failed: Mutex<BTreeMap<Arc<str>, TaskHealth>>,
    restarts: Family<TaskLabel, Counter>,
    defects: watch::Sender<Option<TaskKind>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabel {
    task: &'static str,
}

impl Default for Shared {
    fn default() -> Self {
        let restarts = Family::<TaskLabel, Counter>::default();
        for kind in TaskKind::ALL {
            drop(restarts.get_or_create(&TaskLabel { task: kind.as_str() }));
        }
        Self { failed: Mutex::default(), restarts, defects: watch::channel(None).0 }
    }
}

/// The supervision of one task.
#[derive(Debug)]
pub struct Restarts {
    tasks: Tasks,
    kind: TaskKind,
    name: Arc<str>,
    begun: Instant,
    pause: Duration,
    is_endless: bool,
}

impl Tasks {
    /// The tasks that have failed since the start.
    pub fn failed(&self) -> Vec<(Arc<str>, TaskHealth)> {
        let failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.iter().map(|(name, health)| (Arc::clone(name), health.clone())).collect()
    }

    /// Has a registry serve the counts.
    pub fn register(&self, registry: &mut Registry) {
        RESTARTS.register(registry, self.0.restarts.clone());
    }

    /// Notes that a task failed. `of` says which one of its kind; it may be empty.
    pub fn note(&self, kind: TaskKind, of: &str) {
        self.note_named(kind, &name_of(kind, of));
    }

    fn note_named(&self, kind: TaskKind, name: &Arc<str>) {
        self.0.restarts.get_or_create(&TaskLabel { task: kind.as_str() }).inc();
        let mut failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let health = failed.entry(Arc::clone(name)).or_default();
        health.failures += 1;
        health.last = Some(Instant::now());
    }

    /// Supervises a task, which starts now. `of` says which one of its kind; it may be empty.
    pub fn supervise(&self, kind: TaskKind, of: &str) -> Restarts {
        let (tasks, name) = (self.clone(), name_of(kind, of));
        Restarts { tasks, kind, name, begun: Instant::now(), pause: PAUSE_MIN, is_endless: false }
    }

    /// Starts a task that has no end, and starts it again whenever it panics or ends.
    pub fn spawn<F, T>(&self, kind: TaskKind, of: &str, mut start: F) -> JoinHandle<()>
    where
        F: FnMut() -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let mut restarts = self.supervise(kind, of).endless();
        tokio::spawn(async move { while restarts.run(start()).await {} })
    }

    /// Runs something. A panic in it is an error with the panic's message, and is not noted.
    pub async fn guard<T>(&self, kind: TaskKind, work: impl Future<Output = T>) -> Result<T, String> {
        let mut defects = self.0.defects.subscribe();
        let defect = async {
            while defects.changed().await.is_ok() {
                assert!(*defects.borrow_and_update() != Some(kind), "a defect that a test asked for");
            }
            std::future::pending().await
        };
        let work = async {
            tokio::select! {
                biased;
                done = work => done,
                never = defect => never,
            }
        };
        AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| message_of(&*panic).to_owned())
    }

    /// Makes every running task of a kind panic. Only tests of the supervision do that.
    pub fn break_down(&self, kind: TaskKind) {
        self.0.defects.send_replace(Some(kind));
    }
}

impl Restarts {
    /// A task that must not end.
    #[must_use]
    pub fn endless(self) -> Self {
        Self { is_endless: true, ..self }
    }

    /// Runs the task. Returns whether it is to run again; if so, after a pause.
    ///
    /// `while restarts.run(task.run()).await {}`
    pub async fn run<T>(&mut self, task: impl Future<Output = T>) -> bool {
        self.begun = Instant::now();
        let ended = self.tasks.guard(self.kind, task).await;
        if ended.is_ok() && !self.is_endless {
            return false;
        }
        if self.begun.elapsed() > RECOVERED_AFTER {
            self.pause = PAUSE_MIN;
        }
        self.tasks.note_named(self.kind, &self.name);
        let (task, restart_in_seconds) = (&*self.name, self.pause.as_secs_f64());
        match ended {
            Err(panic) => {
                tracing::error!(task, panic, restart_in_seconds, "a task panicked; it will be started again");
            }
            Ok(_) => tracing::error!(task, restart_in_seconds, "a task ended; it will be started again"),
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

fn name_of(kind: TaskKind, of: &str) -> Arc<str> {
    if of.is_empty() { kind.as_str().into() } else { format!("{} {of}", kind.as_str()).into() }
}

/// The message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again_with_growing_pauses() {
        let tasks = Tasks::default();
        let mut restarts = tasks.supervise(TaskKind::Source, "test");
        let mut started = Vec::new();
        let begun = Instant::now();
        loop {
            started.push(begun.elapsed().as_millis());
            let is_failing = started.len() < 5;
            if !restarts.run(async { assert!(!is_failing, "boom") }).await {
                break;
            }
        }
        assert_eq!(started, [0, 200, 600, 1400, 3000]);
        let failures = |is_failing| {
            let [(name, health)] = &tasks.failed()[..] else { panic!("one task") };
            assert_eq!((&**name, health.is_failing()), ("source test", is_failing));
            health.failures
        };
        assert_eq!(failures(true), 4);
        sleep(RECOVERED_AFTER).await;
        assert_eq!(failures(false), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_must_not_end_is_started_again_too() {
        let (tasks, starts) = (Tasks::default(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&starts);
        let task = tasks.spawn(TaskKind::Reload, "", move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                if number >= 2 {
                    std::future::pending().await
                }
            }
        });
        sleep(Duration::from_secs(1)).await;
        assert_eq!((starts.load(Ordering::Relaxed), task.is_finished()), (3, false));
        tasks.break_down(TaskKind::Prices);
        tasks.break_down(TaskKind::Reload);
        sleep(Duration::from_secs(1)).await;
        assert_eq!((starts.load(Ordering::Relaxed), task.is_finished()), (4, false));
        let [(name, health)] = &tasks.failed()[..] else { panic!("one task") };
        assert_eq!((&**name, health.failures), ("reload", 3));
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = TaskKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), TaskKind::ALL.len());
    }
}
