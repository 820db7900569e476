//! A moment on the clock that drives node groups. Decisions never read a clock: each event comes with its moment.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment, as the time since the driver's clock began. A recording has it in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub(crate) struct Time(Duration);

impl From<u64> for Time {
    fn from(nanoseconds: u64) -> Self {
        Self(Duration::from_nanos(nanoseconds))
    }
}

impl From<Time> for u64 {
    fn from(time: Time) -> Self {
        Self::try_from(time.0.as_nanos()).unwrap_or(Self::MAX)
    }
}

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
