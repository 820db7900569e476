//! AWS's own clock, as the Date headers of its responses show it. Scaling activities carry AWS's times. A local clock that is
//! seconds ahead would make failed launches look older than the shortfall that they explain.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A Date header has whole seconds.
const RESOLUTION: Duration = Duration::from_secs(1);
/// A local clock that is off by more than this is worth a warning.
const TOLERANCE: Duration = Duration::from_secs(2);

/// AWS's clock. Before the first response, the local one.
#[derive(Debug, Default)]
pub(in crate::clouds::aws) struct CloudClock(Mutex<Option<Anchor>>);

/// The same moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    local: Instant,
    time: SystemTime,
}

impl Anchor {
    fn time_at(self, moment: Instant) -> SystemTime {
        self.time + moment.saturating_duration_since(self.local)
    }
}

impl CloudClock {
    /// The time by AWS's clock.
    pub(in crate::clouds::aws) fn now(&self) -> SystemTime {
        let anchor = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        anchor.map_or_else(SystemTime::now, |anchor| anchor.time_at(Instant::now()))
    }

    /// A response with this date arrived just now, to a request sent at `sent`. So AWS's time is between the date and the date
    /// plus the time that the response took.
    pub(super) fn note(&self, date: SystemTime, sent: Instant) {
        let received = Instant::now();
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = anchor.map_or_else(SystemTime::now, |anchor| anchor.time_at(received));
        let time = known.clamp(date, date + RESOLUTION + received.saturating_duration_since(sent));
        let off_by = known.duration_since(time).unwrap_or_else(|earlier| earlier.duration());
        if anchor.is_none() && off_by > TOLERANCE {
            tracing::warn!(seconds = off_by.as_secs_f64(), "the local clock differs from AWS's; using AWS's");
        }
        *anchor = Some(Anchor { local: received, time });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_follows_the_dates_of_responses_as_closely_as_they_allow() {
        let clock = CloudClock::default();
        let sent = Instant::now();
        // The local clock is years ahead. The response took 2 s: the date may be 3 s old.
        tokio::time::advance(Duration::from_secs(2)).await;
        clock.note(seconds(100), sent);
        assert_eq!(clock.now(), seconds(103));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), seconds(108), "the clock continues");
        clock.note(seconds(106), Instant::now());
        assert_eq!(clock.now(), seconds(107), "a quick response shows more");
        clock.note(seconds(107), Instant::now());
        assert_eq!(clock.now(), seconds(107), "nothing new");
        let sent = Instant::now();
        tokio::time::advance(Duration::from_secs(20)).await;
        clock.note(seconds(107), sent);
        assert_eq!(clock.now(), seconds(127), "the date of a slow response does not set the clock back");
        clock.note(seconds(140), Instant::now());
        assert_eq!(clock.now(), seconds(140));
    }
}
