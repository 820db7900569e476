//! The clock that node groups are driven by.

use std::time::Duration;

use tokio::time::Instant;

use crate::group::Time;

/// Translates between the runtime's clock and the moments that decisions are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    /// A clock that began at this moment.
    pub(super) fn started(at: Instant) -> Self {
        Self(at)
    }

    /// This moment.
    pub(super) fn now(self) -> Time {
        self.time(Instant::now())
    }

    /// A moment of the runtime's clock. Those before this clock began are its beginning.
    pub(super) fn time(self, instant: Instant) -> Time {
        Time::after_start(instant.saturating_duration_since(self.0))
    }

    /// The same moment on the runtime's clock.
    pub(super) fn instant(self, time: Time) -> Instant {
        self.0 + time.since_start().min(Self::FAR)
    }

    /// Longer than any process runs, and short enough to be added to a moment.
    const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
}
