//! Whether a source's cloud responds. CA makes one call at a time: while it waits for a cloud that does not respond, its
//! groups on other clouds do not grow either.

use std::sync::atomic::{AtomicBool, Ordering};

/// What the watcher and the keepers of a source know about its cloud.
#[derive(Debug, Default)]
pub(super) struct Reach {
    is_lost: AtomicBool,
}

impl Reach {
    /// A listing got no response.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// The cloud responded.
    pub(super) fn regain(&self) {
        self.is_lost.store(false, Ordering::Relaxed);
    }

    /// Whether the last listing got no response, and nothing has since.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}
