//! The long-lived tasks of the process. If one panics, or ends although it should not, it is logged by name, counted,
//! shown by `/readyz`, and started again with growing pauses. None of them ends unnoticed.

#[cfg(feature = "faults")]
mod defects;
#[cfg(not(feature = "faults"))]
#[path = "no_defects.rs"]
mod defects;
mod kind;
mod restarts;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::defects::Defects;
pub use self::kind::TaskKind;
pub use self::restarts::Restarts;
use self::restarts::message_of;
use crate::metrics::FamilySpec;

/// A task that ran for this long is taken to have recovered.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

const RESTARTS: FamilySpec =
    FamilySpec::counter("headcount_task_restarts", &["task"], "Tasks that ended unexpectedly and were started again");

/// The families of this module.
pub const TASK_FAMILIES: [FamilySpec; 1] = [RESTARTS];

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

/// The state of the tasks that have failed.
#[derive(Clone, Debug, Default)]
pub struct Tasks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    failed: Mutex<BTreeMap<Arc<str>, TaskHealth>>,
    restarts: Family<TaskLabel, Counter>,
    defects: Defects,
    /// Ends the pauses of tasks that wait to be started again.
    input_changed: Notify,
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
        Self { failed: Mutex::default(), restarts, defects: Defects::default(), input_changed: Notify::new() }
    }
}

impl Tasks {
    /// The tasks that have failed since the start.
    pub fn failed(&self) -> Vec<(Arc<str>, TaskHealth)> {
        let failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.iter().map(|(name, health)| (Arc::clone(name), health.clone())).collect()
    }

    /// Registers the counts.
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

    /// What tasks read has changed: those that panicked start again at once.
    pub fn input_changed(&self) {
        self.0.input_changed.notify_waiters();
    }

    /// Supervises a task, which starts now. `of` says which one of its kind; it may be empty.
    pub fn supervise(&self, kind: TaskKind, of: &str) -> Restarts {
        Restarts::new(self.clone(), kind, name_of(kind, of))
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
        let defect = self.0.defects.meet(kind);
        let work = async {
            tokio::select! {
                biased;
                done = work => done,
                never = defect => never,
            }
        };
        AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| message_of(&*panic).to_owned())
    }
}

fn name_of(kind: TaskKind, of: &str) -> Arc<str> {
    if of.is_empty() { kind.as_str().into() } else { format!("{} {of}", kind.as_str()).into() }
}
