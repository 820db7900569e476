//! Trying again within a caller's time: conflicts, and throttles whose pause ends in time (law 2).

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cloud::CloudError;
use crate::fleet::limits::{ATTEMPT_PAUSE_MAX, ATTEMPT_PAUSE_MIN, LOST_PATIENCE};

/// The attempts at one write.
#[derive(Debug)]
pub(super) struct Attempts {
    until: Instant,
    /// The end of the caller's time, if `until` is earlier because the cloud did not respond lately.
    until_reached: Option<Instant>,
    pause: Duration,
}

impl Attempts {
    /// Attempts that end at this moment.
    pub(super) fn until(until: Instant) -> Self {
        Self { until, until_reached: None, pause: ATTEMPT_PAUSE_MIN }
    }

    /// The same at a cloud that did not respond lately: they end soon, unless it responds.
    pub(super) fn of_lost_cloud(until: Instant) -> Self {
        let soon = until.min(Instant::now() + LOST_PATIENCE);
        Self { until_reached: Some(until), ..Self::until(soon) }
    }

    /// The cloud has responded.
    pub(super) fn reached(&mut self) {
        self.until = self.until_reached.take().unwrap_or(self.until);
    }

    /// Whether they end early because the cloud does not respond.
    pub(super) fn is_lost(&self) -> bool {
        self.until_reached.is_some()
    }

    /// The time that is left.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// When the next attempt begins, if the time allows for one.
    pub(super) fn next(&self) -> Instant {
        Instant::now() + self.pause
    }

    /// When the next attempt after `error` begins, if the time allows for one.
    pub(super) fn next_after(&self, error: &CloudError) -> Instant {
        Instant::now() + self.pause_after(error)
    }

    /// Waits before the next attempt, as long as the cloud asked for after `error`. `false` where the time does not allow for
    /// another one.
    pub(super) async fn again_after(&mut self, error: &CloudError) -> bool {
        self.wait(self.pause_after(error)).await
    }

    fn pause_after(&self, error: &CloudError) -> Duration {
        match error {
            CloudError::Throttled { retry_after: Some(pause), .. } => (*pause).max(self.pause),
            _ => self.pause,
        }
    }

    /// Waits before the next attempt. `false` where the time does not allow for another one.
    pub(super) async fn again(&mut self) -> bool {
        self.wait(self.pause).await
    }

    async fn wait(&mut self, pause: Duration) -> bool {
        if Instant::now() + pause >= self.until {
            return false;
        }
        self.pause = (self.pause * 2).min(ATTEMPT_PAUSE_MAX);
        sleep(pause).await;
        true
    }
}
