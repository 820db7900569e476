//! AWS's own clock, as the Date headers of its responses show it. Scaling activities carry AWS's times. A local clock
//! that is seconds ahead would make failed launches look older than the shortfall that they explain.
//!
//! The clock is never ahead of AWS's: a launch that fails in the second of a write belongs to that write.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_types::sdk_config::TimeSource;
use tokio::time::Instant;

/// A Date header has whole seconds.
const RESOLUTION: Duration = Duration::from_secs(1);
/// A local clock that is off by more than this is worth a warning. A date that differs by more from what is known of
/// AWS's clock is an error of one server or proxy, unless the next one confirms it.
const TOLERANCE: Duration = Duration::from_secs(2);
/// Between two dates, the clock runs slower than the local one by this part: a local clock may gain 0.5 ms a second
/// while it is corrected.
const SLOWER_BY: u32 = 2_000;
/// The first second of the year 2200. No date is later; the SDK panics if it signs a request after the year 9999.
const LATEST: Duration = Duration::from_secs(7_258_118_400);

/// AWS's clock. Before the first date that another one confirms, the local one.
#[derive(Debug, Default)]
pub(in crate::clouds::aws) struct CloudClock(Mutex<Dates>);

/// The time that requests are signed with. AWS refuses requests that are signed 5 minutes off.
#[derive(Debug)]
pub(super) struct SigningTime(pub(super) Arc<CloudClock>);

impl TimeSource for SigningTime {
    fn now(&self) -> SystemTime {
        self.0.time(|dates| dates.known.or(dates.doubtful))
    }
}

/// What the dates so far show.
#[derive(Clone, Copy, Debug, Default)]
struct Dates {
    /// AWS's clock.
    known: Option<Anchor>,
    /// The last date, if it contradicts what is known.
    doubtful: Option<Anchor>,
}

/// The same moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    local: Instant,
    time: SystemTime,
}

/// What one response shows: when it arrived, and between which times by AWS's clock.
#[derive(Clone, Copy, Debug)]
struct Dated {
    received: Instant,
    earliest: SystemTime,
    latest: SystemTime,
}

impl Anchor {
    fn time_at(self, moment: Instant) -> SystemTime {
        let elapsed = moment.saturating_duration_since(self.local);
        self.time + (elapsed - elapsed / SLOWER_BY)
    }

    fn agrees_with(self, dated: Dated) -> bool {
        let time = self.time_at(dated.received);
        dated.earliest <= time + TOLERANCE && time <= dated.latest + TOLERANCE
    }

    /// Moves it into the range that this response proves.
    fn moved_by(self, dated: Dated) -> Self {
        let time = self.time_at(dated.received).clamp(dated.earliest, dated.latest);
        Self { local: dated.received, time }
    }
}

impl CloudClock {
    /// The time by AWS's clock. It may be behind by one second and the time of one response. It is never ahead.
    pub(in crate::clouds::aws) fn now(&self) -> SystemTime {
        self.time(|dates| dates.known)
    }

    fn time(&self, anchor: impl FnOnce(Dates) -> Option<Anchor>) -> SystemTime {
        let dates = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        anchor(dates).map_or_else(SystemTime::now, |anchor| anchor.time_at(Instant::now()))
    }

    /// A response with this date arrived just now, to a request sent at `sent`. So AWS's time is between the date and
    /// the date plus the time that the response took.
    pub(super) fn compare(&self, date: SystemTime, sent: Instant) {
        if date >= SystemTime::UNIX_EPOCH + LATEST {
            return;
        }
        let received = Instant::now();
        let latest = date + RESOLUTION + received.saturating_duration_since(sent);
        let dated = Dated { received, earliest: date, latest };
        let first = Anchor { local: received, time: date };
        let mut dates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let local = Anchor { local: received, time: SystemTime::now() };
        if dates.known.unwrap_or(local).agrees_with(dated) {
            dates.known = Some(dates.known.map_or(first, |known| known.moved_by(dated)));
            dates.doubtful = None;
            return;
        }
        let Some(confirmed) = dates.doubtful.filter(|doubtful| doubtful.agrees_with(dated)) else {
            dates.doubtful = Some(first);
            return;
        };
        if dates.known.is_none() {
            let (off_by, local) = match local.time.duration_since(date) {
                Ok(ahead) => (ahead, "ahead"),
                Err(behind) => (behind.duration(), "behind"),
            };
            tracing::warn!(seconds = off_by.as_secs(), local, "the local clock differs from AWS's; using AWS's");
        }
        *dates = Dates { known: Some(confirmed.moved_by(dated)), doubtful: None };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn compare(clock: &CloudClock, second: u64) {
        clock.compare(seconds(second), Instant::now());
    }

    /// A clock that two dates have shown to be at this second.
    fn at(second: u64) -> CloudClock {
        let clock = CloudClock::default();
        compare(&clock, second);
        compare(&clock, second);
        clock
    }

    /// The time in whole seconds. The clock is slower by less than one.
    fn second(clock: &CloudClock) -> u64 {
        let since = clock.now().duration_since(SystemTime::UNIX_EPOCH).expect("later");
        (since + Duration::from_millis(100)).as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_follows_the_dates_of_responses_as_closely_as_they_allow() {
        // The local clock is years ahead.
        let clock = at(100);
        assert_eq!(second(&clock), 100);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(second(&clock), 105, "the clock continues");
        compare(&clock, 106);
        assert_eq!(second(&clock), 106, "a later date shows more");
        compare(&clock, 106);
        assert_eq!(second(&clock), 106, "nothing new");
        let sent = Instant::now();
        tokio::time::advance(Duration::from_secs(20)).await;
        clock.compare(seconds(106), sent);
        assert_eq!(second(&clock), 126, "the date of a slow response does not set the clock back");
        compare(&clock, 124);
        assert_eq!(second(&clock), 125, "a quick one does: AWS's clock was slower");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_never_ahead_of_awss() {
        // It is 100.9 by AWS's clock, and the header says 100.
        let clock = at(100);
        assert_eq!(clock.now(), seconds(100));
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert!(clock.now() <= seconds(3_700), "a local clock that gains time does not show in it");
        assert!(clock.now() >= seconds(3_698));
    }

    #[tokio::test(start_paused = true)]
    async fn one_outlier_moves_no_clock_and_two_that_agree_do() {
        let clock = at(100);
        for outlier in [700, 5, 253_402_300_799, 253_402_300_799] {
            compare(&clock, outlier);
            assert_eq!(second(&clock), 100, "{outlier}");
        }
        compare(&clock, 700);
        compare(&clock, 100);
        compare(&clock, 700);
        assert_eq!(second(&clock), 100, "not confirmed: another date came in between");
        tokio::time::advance(Duration::from_secs(10)).await;
        compare(&clock, 710);
        assert_eq!(second(&clock), 710, "confirmed");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_signed_with_the_first_date_and_no_later_outlier() {
        let clock = Arc::new(CloudClock::default());
        let signed = || SigningTime(Arc::clone(&clock)).now();
        compare(&clock, 100);
        assert_eq!(
            signed(),
            seconds(100),
            "the local clock is wrong: the request that showed it is refused, and no other"
        );
        compare(&clock, 100);
        compare(&clock, 700);
        assert_eq!(signed(), seconds(100));
    }
}
