//! Values in the syntax of Go's standard library. The in-tree providers parse tags and environment variables with it.

use std::time::Duration;

/// Parses a Boolean in the spellings that Go's `strconv.ParseBool` accepts.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a duration in the syntax of Go's `time.ParseDuration`: `20m`, `1h30m`, `1.5h`, `0`.
///
/// Negative durations are rejected, because no setting has a use for one. So are durations of more than about 292
/// years, which do not fit into Go's 64-bit nanoseconds and therefore not into the protocol.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut nanoseconds: u128 = 0;
    loop {
        let (term, after) = parse_term(rest)?;
        nanoseconds = nanoseconds.checked_add(term)?;
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    let nanoseconds = i64::try_from(nanoseconds).ok()?;
    Some(Duration::from_nanos(nanoseconds.unsigned_abs()))
}

/// Splits the first number and its unit off a duration. Returns its nanoseconds and the rest of the text.
fn parse_term(text: &str) -> Option<(u128, &str)> {
    /// A number with more digits does not fit into 64-bit nanoseconds; one with fewer cannot overflow 128 bits here.
    const DIGITS_MAX: usize = 19;

    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after_point) => split_digits(after_point),
        None => ("", rest),
    };
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > DIGITS_MAX {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit: u128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    Some((number(whole)? * unit + number(fraction)? * unit / scale, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_follow_the_spellings_of_go() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(text), Some(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(text), Some(false), "{text}");
        }
        for text in ["", "yes", "tRUE", " true"] {
            assert_eq!(parse_bool(text), None, "{text:?}");
        }
    }

    #[test]
    fn durations_follow_the_syntax_of_go() {
        for (text, seconds) in
            [("20m", 1200.0), ("1h30m", 5400.0), ("90s", 90.0), ("1.5h", 5400.0), (".5s", 0.5), ("1.s", 1.0)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for (text, nanoseconds) in [
            ("0", 0),
            ("0s", 0),
            ("0h0m0s", 0),
            ("+1ns", 1),
            ("1us", 1_000),
            ("1µs", 1_000),
            ("1μs2ns", 1_002),
            ("100ms", 100_000_000),
            ("0.1000000000000000000009s", 100_000_000),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
        for bad in [
            "",
            "+",
            "-5m",
            "5",
            "m",
            ".",
            ".s",
            "1d",
            "1 h",
            "1h ",
            "1h-2m",
            "1hh",
            "0h5",
            "1H",
            "9223372036854775808ns",
            "99999999999999999999h",
            "3000000h",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad:?}");
        }
    }
}
