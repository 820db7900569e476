//! Panics on request, for the tests of the supervision. Only tests have them (the feature `faults`).

use tokio::sync::watch;

use super::{TaskKind, Tasks};

/// Which kind of task is to panic.
#[derive(Debug)]
pub(super) struct Defects(watch::Sender<Option<TaskKind>>);

impl Default for Defects {
    fn default() -> Self {
        Self(watch::channel(None).0)
    }
}

impl Defects {
    /// Panics as soon as a test asks for a panic of this kind of task after this call.
    pub(super) fn meet<T>(&self, kind: TaskKind) -> impl Future<Output = T> + use<T> {
        let mut requests = self.0.subscribe();
        async move {
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
        self.0.defects.0.send_replace(Some(kind));
    }
}
