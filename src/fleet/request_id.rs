//! The ID of a call on the gRPC port, which ties its log lines to the decision and to the cloud calls that it causes.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The ID of one call. Unique in a process, and unlikely to repeat after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(u64);

static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(u64::from(fastrand::u32(..)) << 16));

tokio::task_local! {
    static CURRENT: RequestId;
}

impl RequestId {
    /// An ID that no other call has.
    pub fn next() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs a future as part of this call.
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// The ID of the call that the current task serves.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|id| *id).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:012x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_knows_the_id_of_the_call_that_it_serves() {
        let id = RequestId::next();
        assert_eq!(id.scope(async { RequestId::current() }).await, Some(id));
        assert_eq!(RequestId::current(), None);
        assert_ne!(RequestId::next(), id);
    }
}
