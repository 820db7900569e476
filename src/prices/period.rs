//! The period that a price covers.

use std::time::Duration;

use prost::Message as _;
use prost_types::Timestamp;

/// Shorter periods count as this long.
const SHORTEST: Duration = Duration::from_secs(60);
const SECONDS_PER_HOUR: f64 = 3600.0;
const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// The hours from start to end, a minute at least. Each time comes as protobuf's timestamp (from CA 1.34) or as bytes
/// of a Kubernetes `metav1.Time`, which has the same fields. A request without times counts as an hour, which is what
/// CA asks for.
///
/// # Errors
///
/// Says what is wrong if the end is before the start or a time cannot be read.
pub fn hours(start: (Option<Timestamp>, &[u8]), end: (Option<Timestamp>, &[u8])) -> Result<f64, String> {
    let (Some(start), Some(end)) = (seconds("start", start)?, seconds("end", end)?) else { return Ok(1.0) };
    if end < start {
        return Err(format!(
            "the end time is {} s before the start time; send an end that is not earlier",
            start - end
        ));
    }
    Ok((end - start).max(SHORTEST.as_secs_f64()) / SECONDS_PER_HOUR)
}

fn seconds(name: &str, (timestamp, bytes): (Option<Timestamp>, &[u8])) -> Result<Option<f64>, String> {
    let timestamp = match timestamp {
        Some(timestamp) => timestamp,
        None if bytes.is_empty() => return Ok(None),
        None => Timestamp::decode(bytes).map_err(|error| format!("the {name} time cannot be decoded: {error}"))?,
    };
    // Whole seconds of any sensible time are exact in an f64.
    #[allow(clippy::cast_precision_loss)]
    let seconds = timestamp.seconds as f64;
    Ok(Some(seconds + f64::from(timestamp.nanos) / NANOSECONDS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> (Option<Timestamp>, &'static [u8]) {
        (Some(Timestamp { seconds, nanos: 0 }), &[])
    }

    #[test]
    fn a_period_is_a_minute_at_least_and_never_negative() {
        assert_eq!(hours(at(1_000), at(4_600)), Ok(1.0));
        assert_eq!(hours(at(1_000), at(1_001)), Ok(1.0 / 60.0));
        assert_eq!(hours(at(1_000), at(1_000)), Ok(1.0 / 60.0));
        assert!(hours(at(1_000), at(999)).is_err_and(|error| error.contains("before the start")));
        assert_eq!(hours((None, &[]), (None, &[])), Ok(1.0));
        let old = Timestamp { seconds: 8_200, nanos: 0 }.encode_to_vec();
        assert_eq!(hours(at(1_000), (None, &old)), Ok(2.0));
        assert!(hours((None, &[0xff]), at(1)).is_err());
        assert!(hours(at(i64::MIN), at(i64::MAX)).is_ok_and(f64::is_finite));
    }
}
