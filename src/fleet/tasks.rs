//! The long-lived tasks of the process. A panic in one of them is logged, counted and shown; the task is started again, with growing
//! pauses. None of them ends unseen.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The pause before a task is started again after its first panic; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A task that ran for this long is taken to have recovered.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// How a task is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskHealth {
    /// How often it has panicked.
    pub panics: u64,
    /// When it last panicked.
    pub last: Option<Instant>,
}

impl TaskHealth {
    /// Whether it panicked a short time ago.
    pub fn is_failing(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed() < RECOVERED_AFTER)
    }
}

/// How the tasks that have panicked are doing.
#[derive(Clone, Debug, Default)]
pub struct Tasks(Arc<Mutex<BTreeMap<Arc<str>, TaskHealth>>>);

/// The supervision of one task.
#[derive(Debug)]
pub struct Restarts {
    tasks: Tasks,
    name: Arc<str>,
    begun: Instant,
    pause: Duration,
}

impl Tasks {
    /// The tasks that have panicked since the start.
    pub fn panicked(&self) -> Vec<(Arc<str>, TaskHealth)> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().map(|(name, health)| (Arc::clone(name), health.clone())).collect()
    }

    /// Notes that a task panicked.
    pub fn note(&self, name: &Arc<str>) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let health = tasks.entry(Arc::clone(name)).or_default();
        health.panics += 1;
        health.last = Some(Instant::now());
    }

    /// Supervises a task of this name, which starts now.
    pub fn supervise(&self, name: impl Into<Arc<str>>) -> Restarts {
        Restarts { tasks: self.clone(), name: name.into(), begun: Instant::now(), pause: PAUSE_MIN }
    }
}

impl Restarts {
    /// Whether the task is to run again after it ended this way; if so, after a pause.
    ///
    /// `while restarts.again(AssertUnwindSafe(task.run()).catch_unwind().await).await {}`
    pub async fn again<T>(&mut self, ended: Result<T, Box<dyn Any + Send>>) -> bool {
        let Err(panic) = ended else { return false };
        if self.begun.elapsed() > RECOVERED_AFTER {
            self.pause = PAUSE_MIN;
        }
        self.tasks.note(&self.name);
        tracing::error!(
            task = &*self.name,
            panic = message_of(&*panic),
            restart_in_seconds = self.pause.as_secs_f64(),
            "a task panicked; it will be started again"
        );
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.begun = Instant::now();
        true
    }
}

/// The message of a panic.
pub(super) fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again_with_growing_pauses() {
        let tasks = Tasks::default();
        let mut restarts = tasks.supervise("test");
        let mut started = Vec::new();
        let begun = Instant::now();
        loop {
            started.push(begun.elapsed().as_millis());
            let is_failing = started.len() < 5;
            let ended = AssertUnwindSafe(async { assert!(!is_failing, "boom") }).catch_unwind().await;
            if !restarts.again(ended).await {
                break;
            }
        }
        assert_eq!(started, [0, 200, 600, 1400, 3000]);
        let panics = |is_failing| {
            let [(name, health)] = &tasks.panicked()[..] else { panic!("one task") };
            assert_eq!((&**name, health.is_failing()), ("test", is_failing));
            health.panics
        };
        assert_eq!(panics(true), 4);
        sleep(RECOVERED_AFTER).await;
        assert_eq!(panics(false), 4);
    }
}
