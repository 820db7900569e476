//! The supervision of one task: it is started again after a panic, with growing pauses.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{RECOVERED_AFTER, TaskKind, Tasks};

/// The pause before a task is started again after its first panic; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

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

impl Restarts {
    /// Begins to supervise a task.
    pub(super) fn new(tasks: Tasks, kind: TaskKind, name: Arc<str>) -> Self {
        Self { tasks, kind, name, begun: Instant::now(), pause: PAUSE_MIN, is_endless: false }
    }

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
        tokio::select! {
            () = sleep(self.pause) => self.pause = (self.pause * 2).min(PAUSE_MAX),
            () = self.tasks.0.input_changed.notified() => self.pause = PAUSE_MIN,
        }
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
    async fn a_task_that_panicked_starts_again_at_once_when_what_it_reads_has_changed() {
        let (tasks, starts) = (Tasks::default(), Arc::new(AtomicU64::new(0)));
        let (shared, counted) = (tasks.clone(), Arc::clone(&starts));
        let task = tokio::spawn(async move {
            let mut restarts = shared.supervise(TaskKind::Source, "test");
            let run = || async {
                counted.fetch_add(1, Ordering::Relaxed);
                panic!("boom")
            };
            while restarts.run::<()>(run()).await {}
        });
        sleep(Duration::from_secs(40)).await;
        let before = starts.load(Ordering::Relaxed);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(starts.load(Ordering::Relaxed), before, "it pauses for long by now");
        tasks.input_changed();
        sleep(Duration::from_millis(700)).await;
        assert_eq!(starts.load(Ordering::Relaxed), before + 3, "at once, and then with the first pauses");
        task.abort();
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
}
