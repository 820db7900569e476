//! The time of the probes. Tests have one of their own.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

/// Time since a beginning, and waiting.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time since the beginning.
    fn now(&self) -> Duration;

    /// Waits.
    async fn sleep(&self, duration: Duration);
}

/// The time of the runtime, since this was made.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(Instant);

impl Default for TokioClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

#[async_trait]
impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        sleep(duration).await;
    }
}
