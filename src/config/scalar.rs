//! Single values that are written as text. Each reader answers what is wrong and what would be right.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cloud::{NodeGroupSpec, SpecError, Taint, TaintEffect};
use crate::instance_types::Quantity;

/// A duration such as `20m`, `1h30m` or `90s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|_| format!("{text:?} is not a duration; write a number with a unit, such as 90s, 20m or 1h30m"))
}

/// A duration within bounds.
pub(super) fn duration_within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let value = duration(text)?;
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (from, to) = (humantime::format_duration(*bounds.start()), humantime::format_duration(*bounds.end()));
    Err(format!("{text:?} is out of range; write a duration from {from} to {to}"))
}

/// An address and a port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| {
        format!("{text:?} is not an IP address and a port; write for instance 127.0.0.1:8086 or [::1]:8086")
    })
}

/// The address of an HTTP service.
pub(super) fn endpoint(text: &str) -> Result<String, String> {
    let trimmed = text.trim().trim_end_matches('/');
    let host = trimmed.strip_prefix("https://").or_else(|| trimmed.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(char::is_whitespace) => Ok(trimmed.to_owned()),
        _ => Err(format!("{text:?} is not an endpoint; write a URL such as https://host or http://127.0.0.1:5000")),
    }
}

/// A share from 0 to 1.
pub(super) fn share(value: f64) -> Result<f64, String> {
    // The negation also catches what is not a number.
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{value} is not a share; write a number from 0 to 1"))
    }
}

/// A Kubernetes quantity that is not negative, such as `16Gi`, `500m` or `2`.
pub(super) fn quantity(text: &str) -> Result<Quantity, String> {
    let trimmed = text.trim();
    let mut message = match trimmed.parse::<Quantity>() {
        Ok(quantity) if !quantity.is_negative() => return Ok(quantity),
        Ok(_) => format!("{text:?} is a negative quantity; write a number with an optional unit, such as 2 or 16Gi"),
        Err(error) => error.to_string(),
    };
    if trimmed.ends_with('%') {
        message.push_str("; shares of a resource are not supported");
    } else if trimmed.ends_with('B') {
        message.push_str("; units have no B");
    }
    Err(message)
}

/// A taint, `key=value:Effect`; the value may be left out.
pub(super) fn taint(text: &str) -> Result<Taint, String> {
    let parsed = text.trim().rsplit_once(':').and_then(|(rest, effect)| {
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let effect = TaintEffect::parse(effect)?;
        (!key.is_empty()).then(|| Taint { key: key.to_owned(), value: value.to_owned(), effect })
    });
    parsed.ok_or_else(|| {
        format!(
            "{text:?} is not a taint; write key=value:Effect or key:Effect, where Effect is NoSchedule, PreferNoSchedule \
             or NoExecute"
        )
    })
}

/// A node group, `min:max:name`.
pub(super) fn node_group(text: &str) -> Result<NodeGroupSpec, String> {
    text.parse().map_err(|error: SpecError| match error {
        SpecError::BadBound { .. } => format!("{error}; write min:max:name"),
        SpecError::MinAboveMax { .. } => format!("{error}; write min:max:name with min not above max"),
        SpecError::NotThreeFields(_) | SpecError::NoName(_) => error.to_string(),
    })
}

/// `true` or `false`, in the spellings that Go's `strconv.ParseBool` knows: in-tree variables may use any of them.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false; write true or false")),
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_what_kubernetes_takes() {
        for good in ["0", "2", "1.5", ".5", "5.", "500m", "16Gi", "100k", "12e6", "1E3", "1e-3", "3E", " 7Mi "] {
            assert!(quantity(good).is_ok(), "{good}");
        }
        for bad in ["", "Gi", "16GB", "16gi", "-1", "1.2.3", "1e", "1e+", "1e123", "5%", "two", "1 Gi", "."] {
            assert!(quantity(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_taint_may_leave_its_value_out() {
        let taint_of = |value: &str| Taint { key: "k".into(), value: value.into(), effect: TaintEffect::NoExecute };
        assert_eq!(taint("k=v:NoExecute"), Ok(taint_of("v")));
        assert_eq!(taint("k:NoExecute"), Ok(taint_of("")));
        assert_eq!(taint("k=:NoExecute"), Ok(taint_of("")));
        for bad in ["k=v", "k=v:Noexecute", "=v:NoExecute", ":NoExecute", ""] {
            assert!(taint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_written_as_in_go() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("20m0s"), Ok(Duration::from_secs(1200)));
        assert!(duration("15").is_err());
        assert!(duration("1.5x").is_err());
    }
}
