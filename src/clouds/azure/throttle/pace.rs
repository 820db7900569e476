//! Spreads lists of VMs that no write waits for. At startup, every scale set needs one. Sent together, they would use
//! up the budget that a subscription has for a minute.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// Lists under way at a time.
const LISTS_AT_ONCE: usize = 8;
/// The pause between the starts of two lists: 120 scale sets take 12 s, less than the default refresh interval.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// All waiting lists are started within this time, regardless of their number. The fleet waits longer than this for a
/// read.
const SPREAD_MAX: Duration = Duration::from_secs(12);

/// A list keeps others from starting for this long at most. In a zone outage, many lists hang at the same time.
pub(in crate::clouds::azure) const TURN_MAX: Duration = Duration::from_secs(3);

/// The order of the lists.
#[derive(Debug)]
pub(in crate::clouds::azure) struct Pace {
    turns: Semaphore,
    schedule: Mutex<Schedule>,
}

#[derive(Debug)]
struct Schedule {
    waiting: u32,
    /// The most lists that have waited at the same time since none waited.
    most: u32,
    next: Instant,
}

/// A list that has started. The next one may start once it is dropped.
#[derive(Debug)]
pub(in crate::clouds::azure) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    /// How long it may be kept. Where many lists wait, it is shorter: if all of them hung, the last one would otherwise
    /// start after more than the time of its read.
    pub(in crate::clouds::azure) limit: Duration,
}

/// A list that waits. Counts until it is dropped.
struct Waiting<'a>(&'a Pace);

impl Default for Pace {
    fn default() -> Self {
        let schedule = Mutex::new(Schedule { waiting: 0, most: 0, next: Instant::now() });
        Self { turns: Semaphore::new(LISTS_AT_ONCE), schedule }
    }
}

impl Pace {
    /// Waits until the next list may start.
    pub(in crate::clouds::azure) async fn turn(&self) -> Option<Turn<'_>> {
        let _waiting = Waiting::on(self);
        // The semaphore is never closed.
        let permit = self.turns.acquire().await.ok()?;
        sleep_until(self.start()).await;
        Some(Turn { _permit: permit, limit: self.limit() })
    }

    fn start(&self) -> Instant {
        let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
        let start = schedule.next.max(Instant::now());
        schedule.next = start + PAUSE_MAX.min(SPREAD_MAX / schedule.most.max(1));
        start
    }

    fn limit(&self) -> Duration {
        let most = self.schedule.lock().unwrap_or_else(PoisonError::into_inner).most;
        let rounds = most.div_ceil(u32::try_from(LISTS_AT_ONCE).unwrap_or(u32::MAX));
        TURN_MAX.min(SPREAD_MAX / rounds.max(1))
    }

    fn count(&self, change: impl FnOnce(&mut Schedule)) {
        change(&mut self.schedule.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<'a> Waiting<'a> {
    fn on(pace: &'a Pace) -> Self {
        pace.count(|schedule| {
            schedule.waiting += 1;
            schedule.most = schedule.most.max(schedule.waiting);
        });
        Self(pace)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.count(|schedule| {
            schedule.waiting -= 1;
            if schedule.waiting == 0 {
                schedule.most = 0;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Starts several lists at once, each of which takes this long. Returns the start times.
    async fn starts(lists: usize, each: Duration) -> Vec<Duration> {
        let (pace, begun) = (Arc::new(Pace::default()), Instant::now());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..lists {
            let pace = Arc::clone(&pace);
            tasks.spawn(async move {
                let _turn = pace.turn().await.expect("a turn");
                let start = begun.elapsed();
                tokio::time::sleep(each).await;
                start
            });
        }
        let mut starts = tasks.join_all().await;
        starts.sort();
        starts
    }

    #[tokio::test(start_paused = true)]
    async fn lists_start_one_after_another() {
        let starts = starts(120, Duration::from_millis(50)).await;
        assert_eq!(starts[0], Duration::ZERO, "a single list does not wait");
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= PAUSE_MAX), "{starts:?}");
        assert!(starts[119] <= SPREAD_MAX, "{starts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn many_lists_start_closer_together() {
        let starts = starts(1_000, Duration::from_millis(1)).await;
        assert!(starts[999] <= SPREAD_MAX + Duration::from_secs(1), "{:?}", starts[999]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_eight_lists_run_at_a_time() {
        let each = Duration::from_secs(3);
        let starts = starts(20, each).await;
        let at_once = starts
            .iter()
            .map(|start| starts.iter().filter(|other| **other <= *start && **other + each > *start).count());
        assert_eq!(at_once.max(), Some(LISTS_AT_ONCE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_list_delays_no_other() {
        let pace = Pace::default();
        let mut held = Vec::new();
        for _ in 0..LISTS_AT_ONCE {
            held.push(pace.turn().await);
        }
        assert!(tokio::time::timeout(Duration::from_secs(1), pace.turn()).await.is_err());
        drop(held);
        assert!(tokio::time::timeout(Duration::from_secs(1), pace.turn()).await.is_ok());
    }
}
