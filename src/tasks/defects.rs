//! Panics on request, for the tests of the supervision. Only tests have this code (the feature `faults`).

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::{TaskKind, Tasks};

/// Names the kind of the task that panics once, when it starts. Tests use it to make a task of another process panic.
const VARIABLE: &str = "HEADCOUNT_DEFECT";

/// Which kind of task is to panic.
#[derive(Debug)]
pub(super) struct Defects {
    requests: watch::Sender<Option<TaskKind>>,
    at_start: Mutex<Option<TaskKind>>,
}

impl Default for Defects {
    fn default() -> Self {
        let named = std::env::var(VARIABLE).ok();
        let at_start = TaskKind::ALL.into_iter().find(|kind| named.as_deref() == Some(kind.as_str()));
        Self { requests: watch::channel(None).0, at_start: Mutex::new(at_start) }
    }
}

impl Defects {
    /// Panics as soon as a test asks for a panic of this kind of task after this call, or at once if the environment
    /// does.
    pub(super) fn meet<T>(&self, kind: TaskKind) -> impl Future<Output = T> + use<T> {
        let mut requests = self.requests.subscribe();
        let mut at_start = self.at_start.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = at_start.take_if(|named| *named == kind).is_some();
        async move {
            assert!(!is_first, "a defect that the environment asked for");
            while requests.changed().await.is_ok() {
                assert!(*requests.borrow_and_update() != Some(kind), "a defect that a test asked for");
            }
            std::future::pending().await
        }
    }
}

impl Tasks {
    /// Makes every running task of a kind panic.
    pub fn break_down(&self, kind: TaskKind) {
        self.0.defects.requests.send_replace(Some(kind));
    }
}
