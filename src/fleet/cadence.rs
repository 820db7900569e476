//! How often a source is listed: often while something changes in it, less often when it is idle, and rarely on a
//! standby, where another replica does the work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::{BUSY_FOR, IDLE_DEFAULT_MAX, STANDBY_INTERVAL_MAX};

/// By default, the interval of an idle source is this many times that of a busy one.
const IDLE_FACTOR: u32 = 4;
/// The interval of a standby is this many times that of a busy source.
const STANDBY_FACTOR: u32 = 20;

/// The intervals between listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    busy: Duration,
    idle: Duration,
}

/// What decides how often a source is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Operations run, instances are missing or not running, or something changed or was written in the last two
    /// minutes.
    Busy,
    /// None of that.
    Idle,
    /// No Cluster Autoscaler has called for ten minutes.
    Standby,
}

impl Cadence {
    /// A cadence from `refreshInterval` and, where it is configured, `idleRefreshInterval`. The latter is 4 times the
    /// former by default, but no more than 5 minutes, unless `refreshInterval` itself is longer.
    pub fn new(busy: Duration, idle: Option<Duration>) -> Self {
        let idle = idle.unwrap_or_else(|| (busy * IDLE_FACTOR).min(IDLE_DEFAULT_MAX));
        Self { busy, idle: idle.max(busy) }
    }

    /// The interval between listings of a busy source.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// The interval between listings at this pace. A standby is listed at least every 5 minutes, because probes may ask
    /// for a listing within the last 15.
    pub fn interval(&self, pace: Pace) -> Duration {
        match pace {
            Pace::Busy => self.busy,
            Pace::Idle => self.idle,
            Pace::Standby => (self.busy * STANDBY_FACTOR).min(STANDBY_INTERVAL_MAX).max(self.idle),
        }
    }
}

/// When something last happened in a source. Its keepers report it; its watcher and `Refresh` ask for it.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    /// Milliseconds from `began` to the last report.
    last: AtomicU64,
    quickened: Notify,
}

impl Pulse {
    /// A source that starts is busy.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0), quickened: Notify::new() }
    }

    /// Notes that something happens in the source now.
    pub(super) fn note_activity(&self) {
        let now = self.now();
        let before = self.last.swap(now, Ordering::AcqRel);
        if is_idle(before, now) {
            self.quickened.notify_one();
        }
    }

    /// Whether nothing has happened for a while.
    pub(super) fn is_idle(&self) -> bool {
        is_idle(self.last.load(Ordering::Acquire), self.now())
    }

    /// Waits until something happens in an idle source. For one waiter.
    pub(super) async fn quickened(&self) {
        self.quickened.notified().await;
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn is_idle(last: u64, now: u64) -> bool {
    Duration::from_millis(now.saturating_sub(last)) > BUSY_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn listings_are_15_s_apart_60_s_at_rest_and_5_min_on_a_standby() {
        let cadence = Cadence::new(seconds(15), None);
        let intervals = [Pace::Busy, Pace::Idle, Pace::Standby].map(|pace| cadence.interval(pace));
        assert_eq!(intervals, [seconds(15), seconds(60), seconds(300)]);
    }

    #[test]
    fn long_intervals_stay_within_what_probes_allow() {
        let cadence = Cadence::new(seconds(120), None);
        assert_eq!(cadence.interval(Pace::Idle), seconds(300));
        assert_eq!(cadence.interval(Pace::Standby), seconds(300));
        let cadence = Cadence::new(seconds(600), None);
        assert_eq!(cadence.interval(Pace::Standby), seconds(600), "what is configured counts");
    }

    #[test]
    fn a_source_is_never_listed_more_often_at_rest_than_while_it_is_busy() {
        assert_eq!(Cadence::new(seconds(15), Some(seconds(5))).interval(Pace::Idle), seconds(15));
        assert_eq!(Cadence::new(seconds(15), Some(seconds(400))).interval(Pace::Standby), seconds(400));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_is_at_rest_once_nothing_has_happened_for_two_minutes() {
        let pulse = Pulse::new();
        assert!(!pulse.is_idle(), "a source that starts is busy");
        tokio::time::advance(BUSY_FOR + seconds(1)).await;
        assert!(pulse.is_idle());
        let mut quickened = std::pin::pin!(pulse.quickened());
        assert!(futures_util::poll!(quickened.as_mut()).is_pending());
        pulse.note_activity();
        assert!(!pulse.is_idle());
        quickened.await;
    }
}
