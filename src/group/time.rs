//! A moment on the clock that drives node groups. Decisions never read a clock: each event comes with its moment.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, as the time since the driver's clock began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Time(Duration);

impl Time {
    /// The moment this long after the clock began.
    pub(crate) fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long this is after the clock began.
    pub(crate) fn since_start(self) -> Duration {
        self.0
    }

    /// How long this is after an earlier moment; zero if it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }
}
