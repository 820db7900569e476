//! The lifetime of tokens, as the sign-in service states it.

use hyper::body::Bytes;
use serde_json::Value;

/// The longest lifetime that is believed, in seconds. Tokens of managed identities live for a day.
const LIFETIME_MAX: i64 = 7 * 24 * 60 * 60;
/// The latest expiry that is believed, in seconds since the Unix epoch: the year 2200.
const EXPIRY_MAX: i64 = 7_258_118_400;

/// The response of a sign-in, with lifetimes that can be added to a time: azure_identity panics where the sum is no
/// date.
pub(super) fn plausible(body: Bytes) -> Bytes {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(&body) else { return body };
    let mut is_changed = false;
    for (name, max) in [("expires_in", LIFETIME_MAX), ("ext_expires_in", LIFETIME_MAX), ("expires_on", EXPIRY_MAX)] {
        let Some(value) = fields.get_mut(name) else { continue };
        let is_text = value.is_string();
        let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
        // Exact up to 2^53, which is far beyond the limits.
        #[expect(clippy::cast_precision_loss, reason = "the limits are small")]
        let within = seconds.is_none_or(|seconds| (0.0..=max as f64).contains(&seconds));
        if within {
            continue;
        }
        let bounded = if seconds.is_some_and(|seconds| seconds > 0.0) { max } else { 0 };
        *value = if is_text { Value::from(bounded.to_string()) } else { Value::from(bounded) };
        is_changed = true;
    }
    if is_changed { Value::Object(fields).to_string().into() } else { body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lifetime_is_longer_than_a_week() {
        for (sent, believed) in [
            (r#"{"expires_in":3600,"access_token":"x"}"#, r#"{"expires_in":3600,"access_token":"x"}"#),
            (r#"{"expires_in":9223372036854775807}"#, r#"{"expires_in":604800}"#),
            (r#"{"expires_in":1e300}"#, r#"{"expires_in":604800}"#),
            (r#"{"expires_in":-9223372036854775808}"#, r#"{"expires_in":0}"#),
            (r#"{"expires_in":"99999999999"}"#, r#"{"expires_in":"604800"}"#),
            (r#"{"expires_on":"99999999999999"}"#, r#"{"expires_on":"7258118400"}"#),
            ("not JSON", "not JSON"),
        ] {
            assert_eq!(plausible(Bytes::from(sent)), believed.as_bytes(), "{sent}");
        }
    }
}
