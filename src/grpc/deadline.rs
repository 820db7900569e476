//! The deadline of a call, from its `grpc-timeout` header.
//!
//! The Cluster Autoscaler sends a timeout with every call. Once a call has timed out, its write must not be sent: the
//! caller may have made a new plan by then.

use std::time::Duration;

use tokio::time::Instant;
use tonic::codegen::http::HeaderMap;

use crate::fleet::Deadline;

/// The header of the gRPC protocol that carries a call's timeout.
const TIMEOUT_HEADER: &str = "grpc-timeout";

/// The gRPC protocol allows at most this many digits in a timeout.
const TIMEOUT_DIGITS_MAX: usize = 8;

/// The timeout of calls without one. The Cluster Autoscaler always sends one; command-line clients often do not. It is
/// longer than any single cloud call, and short enough that an abandoned call does not hold anything up.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// When the head of a request arrived. Its deadline counts from then, even if its body takes long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival(pub(super) Instant);

/// Returns the deadline of a call.
pub(super) fn deadline_of<T>(request: &tonic::Request<T>) -> Deadline {
    let timeout = timeout_of(request.metadata().as_ref());
    let elapsed = request.extensions().get().map(|Arrival(arrival)| arrival.elapsed()).unwrap_or_default();
    Deadline::within(timeout.saturating_sub(elapsed))
}

/// Returns the timeout of a call with these headers. A malformed one is ignored, as other gRPC servers do.
pub(super) fn timeout_of(headers: &HeaderMap) -> Duration {
    let timeout = headers.get(TIMEOUT_HEADER).and_then(|value| parse_timeout(value.as_bytes()));
    timeout.unwrap_or(TIMEOUT_DEFAULT)
}

/// Parses `TimeoutValue TimeoutUnit`: up to eight digits and one letter.
pub fn parse_timeout(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > TIMEOUT_DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Eight digits of hours are 11,000 years, so nothing below overflows.
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match unit {
        b'H' => Some(Duration::from_secs(value * 60 * 60)),
        b'M' => Some(Duration::from_secs(value * 60)),
        b'S' => Some(Duration::from_secs(value)),
        b'm' => Some(Duration::from_millis(value)),
        b'u' => Some(Duration::from_micros(value)),
        b'n' => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    fn mk_request(timeout: &'static str) -> tonic::Request<()> {
        let mut request = tonic::Request::new(());
        request.metadata_mut().insert(TIMEOUT_HEADER, tonic::metadata::MetadataValue::from_static(timeout));
        request
    }

    fn left(deadline: Deadline) -> (Duration, Duration) {
        let now = Instant::now();
        (deadline.respond_by - now, deadline.send_by - now)
    }

    #[test]
    fn a_timeout_has_up_to_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("5S", Duration::from_secs(5)),
            ("4999858u", Duration::from_micros(4_999_858)),
            ("250m", Duration::from_millis(250)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
            ("0n", Duration::ZERO),
        ] {
            assert_eq!(parse_timeout(text.as_bytes()), Some(expected), "{text}");
        }
        for bad in ["", "S", "5", "5s", "5 S", " 5S", "-5S", "+5S", "5.0S", "123456789S", "5SS", "５S"] {
            assert_eq!(parse_timeout(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_usual_timeout_loses_only_the_margins() {
        let deadline = deadline_of(&mk_request("5S"));
        assert_eq!(left(deadline), (Duration::from_millis(4950), Duration::from_millis(4500)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(left(deadline), (Duration::from_millis(2950), Duration::from_millis(2500)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_the_body_took_counts() {
        let mut request = mk_request("5S");
        request.extensions_mut().insert(Arrival(Instant::now()));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(left(deadline_of(&request)), (Duration::from_millis(2950), Duration::from_millis(2500)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_timeout_leaves_half_of_it_to_send() {
        assert_eq!(left(deadline_of(&mk_request("200m"))), (Duration::from_millis(180), Duration::from_millis(100)));
        assert_eq!(
            left(deadline_of(&mk_request("999m"))),
            (Duration::from_millis(949), Duration::from_micros(499_500))
        );
        assert_eq!(left(deadline_of(&mk_request("1S"))), (Duration::from_millis(950), Duration::from_millis(500)));
        assert_eq!(left(deadline_of(&mk_request("0n"))), (Duration::ZERO, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_or_malformed_timeout_means_the_default() {
        let default = (Duration::from_millis(29_950), Duration::from_millis(29_500));
        assert_eq!(left(deadline_of(&tonic::Request::new(()))), default);
        assert_eq!(left(deadline_of(&mk_request("soon"))), default);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_timeout_of_the_protocol_does_not_overflow() {
        let deadline = deadline_of(&mk_request("99999999H"));
        assert!(deadline.send_by < deadline.respond_by);
    }
}
