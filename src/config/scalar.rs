//! Parsers for single values that are written as text. An error says what is wrong and what to write instead.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

#[cfg(any(test, feature = "aws", feature = "azure"))]
pub(super) use crate::cloud::parse_endpoint as endpoint;
use crate::cloud::{NodeGroupSpec, SpecError, Taint, go_syntax, is_label_value, is_qualified_name};
use crate::grpc::{Listen, ListenError};
use crate::instance_types::Quantity;

/// Parses a duration such as `20m`, `1h30m`, `1m 30s` or `1d`, or one in Go's syntax such as `1.5h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let parsed = humantime::parse_duration(text).ok();
    parsed
        .or_else(|| go_syntax::parse_duration(text))
        .ok_or_else(|| format!("{text:?} is not a duration; write a number with a unit, such as 90s, 20m or 1h30m"))
}

/// Parses a duration within bounds.
pub(super) fn duration_within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let value = duration(text)?;
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (from, to) = (humantime::format_duration(*bounds.start()), humantime::format_duration(*bounds.end()));
    Err(format!("{text:?} is out of range; write a duration from {from} to {to}"))
}

/// Parses an IP address and a port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| {
        format!("{text:?} is not an IP address and a port; write, for example, 127.0.0.1:8086 or [::1]:8086")
    })
}

/// Parses an address and a port, or the path of a Unix socket.
pub(super) fn listen(text: &str) -> Result<Listen, String> {
    text.parse().map_err(|error: ListenError| error.to_string())
}

/// Parses the permissions of a file in octal.
pub(super) fn file_mode(text: &str) -> Result<u32, String> {
    let digits = text.trim();
    let is_octal = matches!(digits.len(), 3 | 4) && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = is_octal.then(|| u32::from_str_radix(digits, 8).ok()).flatten().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text:?} is not a file mode; write it in octal and in quotes, such as \"0600\""))
}

/// Checks a fraction from 0 to 1.
pub(super) fn fraction(value: f64) -> Result<f64, String> {
    // NaN is in no range.
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{value} is not a fraction; write a number from 0 to 1"))
    }
}

/// Parses a Kubernetes quantity that is not negative, such as `16Gi`, `500m` or `2`.
pub(super) fn quantity(text: &str) -> Result<Quantity, String> {
    let trimmed = text.trim();
    let mut message = match trimmed.parse::<Quantity>() {
        Ok(quantity) if !quantity.is_negative() => return Ok(quantity),
        Ok(_) => format!("{text:?} is a negative quantity; write a number with an optional unit, such as 2 or 16Gi"),
        Err(error) => error.to_string(),
    };
    if trimmed.ends_with('%') {
        message.push_str("; percentages of a resource are not supported");
    } else if trimmed.ends_with('B') {
        message.push_str("; leave out the B");
    }
    Err(message)
}

/// Parses a taint, `key=value:Effect`. The value may be left out.
pub(super) fn taint(text: &str) -> Result<Taint, String> {
    let taint = Taint::parse(text.trim()).ok_or_else(|| {
        format!(
            "{text:?} is not a taint; write key=value:Effect or key:Effect, where Effect is NoSchedule, PreferNoSchedule \
             or NoExecute"
        )
    })?;
    label(&taint.key, &taint.value).map_err(|message| format!("{text:?} is not a taint: {message}"))?;
    Ok(taint)
}

/// Checks that Kubernetes accepts the key and the value of a label or a taint.
pub(super) fn label(key: &str, value: &str) -> Result<(), String> {
    if !is_qualified_name(key) {
        return Err(format!("Kubernetes does not accept the key {key:?}; write name or domain/name"));
    }
    if !is_label_value(value) {
        return Err(format!(
            "Kubernetes does not accept the value {value:?} of {key}; write at most 63 letters, digits, '-', '_' and '.', \
             with a letter or digit at both ends"
        ));
    }
    Ok(())
}

/// Parses a node group, `min:max:name`.
pub(super) fn node_group(text: &str) -> Result<NodeGroupSpec, String> {
    text.parse().map_err(|error: SpecError| match error {
        SpecError::BadBound { .. } => format!("{error}; write min:max:name"),
        SpecError::MinAboveMax { .. } => format!("{error}; write min:max:name with a min that is not above max"),
        SpecError::NotThreeFields(_) | SpecError::NoName(_) => error.to_string(),
    })
}

/// `true` or `false`, in any spelling that Go accepts: in-tree environment variables may use all of them.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    go_syntax::parse_bool(text).ok_or_else(|| format!("{text:?} is neither true nor false; write true or false"))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::TaintEffect;

    #[test]
    fn quantities_follow_the_syntax_of_kubernetes() {
        for good in ["0", "2", "1.5", ".5", "5.", "500m", "16Gi", "100k", "12e6", "1E3", "1e-3", "3E", " 7Mi "] {
            assert!(quantity(good).is_ok(), "{good}");
        }
        for bad in ["", "Gi", "16GB", "16gi", "-1", "1.2.3", "1e", "1e+", "1e123", "5%", "two", "1 Gi", "."] {
            assert!(quantity(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_and_taints_follow_the_syntax_of_kubernetes() {
        assert_eq!(label("example.com/team", "ml"), Ok(()));
        assert!(label("example com/team", "ml").unwrap_err().contains("the key \"example com/team\""));
        assert!(label("team", "a b").unwrap_err().contains("the value \"a b\" of team"));
        for bad in ["a b=c:NoSchedule", "a=b c:NoSchedule", "a/b/c:NoExecute", "a=-:NoExecute"] {
            assert!(taint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_value_of_a_taint_is_optional() {
        let taint_of = |value: &str| Taint { key: "k".into(), value: value.into(), effect: TaintEffect::NoExecute };
        assert_eq!(taint("k=v:NoExecute"), Ok(taint_of("v")));
        assert_eq!(taint("k:NoExecute"), Ok(taint_of("")));
        assert_eq!(taint("k=:NoExecute"), Ok(taint_of("")));
        for bad in ["k=v", "k=v:Noexecute", "=v:NoExecute", ":NoExecute", ""] {
            assert!(taint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_may_have_days_spaces_and_fractions() {
        for (text, seconds) in
            [("1h30m", 5400), ("90s", 90), ("20m0s", 1200), ("1d", 86_400), ("1m 30s", 90), ("1.5h", 5400), ("0", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert!(duration("15").is_err());
        assert!(duration("1.5x").is_err());
    }
}
