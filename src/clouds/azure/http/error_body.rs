//! The error body and the `Retry-After` of a Resource Manager response, as sent; `arm::errors` says what they mean.

use std::time::{Duration, SystemTime};

use azure_core_legacy::date::parse_rfc1123;
use hyper::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::cloud::RETRY_AFTER_MAX;

const THROTTLED: [&str; 5] = [
    "RequestThrottled",
    "ResourceRequestsThrottled",
    "SubscriptionRequestsThrottled",
    "TenantRequestsThrottled",
    "TooManyRequests",
];

/// An error as Resource Manager writes it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(in crate::clouds::azure) struct ErrorBody {
    pub(in crate::clouds::azure) code: Option<String>,
    pub(in crate::clouds::azure) message: Option<String>,
    pub(in crate::clouds::azure) target: Option<String>,
    pub(in crate::clouds::azure) details: Option<Vec<ErrorBody>>,
    pub(in crate::clouds::azure) innererror: Option<Value>,
}

impl ErrorBody {
    /// Reads the error of a body, which is under `error` or is the body itself.
    pub(in crate::clouds::azure) fn read(body: &[u8]) -> Option<Self> {
        let mut body: Value = serde_json::from_slice(body).ok()?;
        let error = body.get_mut("error").map(Value::take).filter(Value::is_object).unwrap_or(body);
        serde_json::from_value(error).ok().filter(|error: &Self| error.code.is_some() || error.message.is_some())
    }

    /// This error and the errors inside it, outermost first.
    pub(in crate::clouds::azure) fn all(&self) -> Vec<&Self> {
        let inner = self.details.iter().flatten().flat_map(Self::all);
        std::iter::once(self).chain(inner).collect()
    }

    pub(in crate::clouds::azure) fn codes(&self) -> Vec<String> {
        let mut codes: Vec<_> = self.all().iter().filter_map(|error| error.code.clone()).collect();
        let mut inner = self.innererror.as_ref();
        while let Some(error) = inner {
            let named = ["code", "internalErrorCode"].iter().filter_map(|key| error.get(key)?.as_str());
            codes.extend(named.map(str::to_owned));
            inner = error.get("innererror");
        }
        codes
    }

    pub(in crate::clouds::azure) fn says(&self, words: &str) -> bool {
        self.all()
            .iter()
            .any(|error| error.message.as_ref().is_some_and(|message| message.to_ascii_lowercase().contains(words)))
    }
}

/// Whether a response says that the call was throttled.
pub(in crate::clouds::azure) fn is_throttling(status: u16, error: Option<&ErrorBody>) -> bool {
    status == 429 || error.is_some_and(|error| error.codes().iter().any(|code| THROTTLED.contains(&code.as_str())))
}

/// How long Azure asks to wait: milliseconds, seconds or an HTTP date. That date and the one of the response are by the
/// same clock, and ours may differ.
pub(in crate::clouds::azure) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let milliseconds = |name: &str| text(name)?.parse().ok().map(Duration::from_millis);
    let time = |text: &str| parse_rfc1123(text).ok().map(SystemTime::from);
    let sent = text("date").and_then(time).unwrap_or(now);
    let date = |text: &str| time(text).map(|at| at.duration_since(sent).unwrap_or_default());
    let wait = milliseconds("retry-after-ms").or_else(|| milliseconds("x-ms-retry-after-ms")).or_else(|| {
        let text = text("retry-after")?;
        text.parse().ok().map(Duration::from_secs).or_else(|| date(text))
    });
    // None at all, and a date that has passed, tell nothing.
    wait.filter(|wait| !wait.is_zero()).map(|wait| wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests;
