//! Counts and times the calls that go to a cloud.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::response_log::ResponseLog;
use crate::metrics::FamilySpec;

const REQUESTS: FamilySpec = FamilySpec::counter(
    "headcount_cloud_requests",
    &["source", "api", "status"],
    "Requests to the cloud, retries included, by API operation and status: success, the error code of the API, or \
        error if there was no response",
);
const ERRORS: FamilySpec = FamilySpec::counter(
    "headcount_cloud_request_errors",
    &["source", "api"],
    "Requests to the cloud that did not succeed, by API operation",
);
const SECONDS: FamilySpec = FamilySpec::histogram(
    "headcount_cloud_request_duration_seconds",
    &["source", "api", "status"],
    "Duration of requests to the cloud, by API operation and status",
);
const THROTTLED: FamilySpec = FamilySpec::counter(
    "headcount_cloud_throttled",
    &["source"],
    "Requests that the cloud refused because of too many requests",
);

const RENEWALS: FamilySpec = FamilySpec::counter(
    "headcount_cloud_credential_renewals",
    &["source", "result"],
    "Reloads of the credentials of a source, by result; after a failure, the previous ones stay in use",
);

/// The families of this module.
pub const CALL_FAMILIES: [FamilySpec; 5] = [REQUESTS, ERRORS, SECONDS, THROTTLED, RENEWALS];

/// The buckets of the in-tree AWS provider's histogram of the same kind, in seconds.
const BUCKETS: [f64; 17] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];

/// The status of a call that succeeded.
const SUCCESS: &str = "success";
/// The status of a call without a response.
const NO_RESPONSE: &str = "error";
/// The status of error codes beyond [`CODES_MAX`].
const OTHER_CODE: &str = "other";
/// The most error codes that get series of their own, per source. A cloud has a few dozen at most.
const CODES_MAX: usize = 50;
/// The longest error code that becomes a label.
const CODE_CHARS_MAX: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    source: Arc<str>,
    api: &'static str,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiLabels {
    source: Arc<str>,
    api: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RenewalLabels {
    source: Arc<str>,
    result: &'static str,
}

impl RenewalLabels {
    fn of(source: &Arc<str>, succeeded: bool) -> Self {
        Self { source: Arc::clone(source), result: if succeeded { "success" } else { "failure" } }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: Arc<str>,
}

/// The counts of all sources.
#[derive(Clone, Debug)]
pub struct CallMetrics {
    requests: Family<CallLabels, Counter>,
    errors: Family<ApiLabels, Counter>,
    seconds: Family<CallLabels, Histogram, fn() -> Histogram>,
    throttled: Family<SourceLabel, Counter>,
    renewals: Family<RenewalLabels, Counter>,
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            throttled: Family::default(),
            renewals: Family::default(),
        }
    }
}

impl CallMetrics {
    /// Registers the counts.
    pub fn register(&self, registry: &mut Registry) {
        REQUESTS.register(registry, self.requests.clone());
        ERRORS.register(registry, self.errors.clone());
        SECONDS.register(registry, self.seconds.clone());
        THROTTLED.register(registry, self.throttled.clone());
        RENEWALS.register(registry, self.renewals.clone());
    }

    /// The meter of one source.
    pub fn meter(&self, source: &str) -> CallMeter {
        let source: Arc<str> = source.into();
        drop(self.throttled.get_or_create(&SourceLabel { source: Arc::clone(&source) }));
        for succeeded in [true, false] {
            drop(self.renewals.get_or_create(&RenewalLabels::of(&source, succeeded)));
        }
        let counts = SourceMeter { source, metrics: self.clone(), codes: Mutex::default() };
        CallMeter { counts: Some(Arc::new(counts)), responses: None }
    }
}

/// Counts the calls of one source. The default counts nothing.
#[derive(Clone, Debug, Default)]
pub struct CallMeter {
    counts: Option<Arc<SourceMeter>>,
    responses: Option<ResponseLog>,
}

#[derive(Debug)]
struct SourceMeter {
    source: Arc<str>,
    metrics: CallMetrics,
    /// The error codes that have series of their own.
    codes: Mutex<HashSet<String>>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus<'a> {
    /// It succeeded.
    Success,
    /// With an error code of the API, or an HTTP status.
    Failed {
        /// The code.
        code: &'a str,
        /// Whether it means that there were too many requests.
        is_throttled: bool,
    },
    /// Without a response.
    NoResponse,
}

impl CallMeter {
    /// The same meter, which also keeps responses in this log.
    pub fn logging(self, responses: ResponseLog) -> Self {
        Self { responses: Some(responses), ..self }
    }

    /// The source whose calls it counts, for log lines. `None` if it counts nothing.
    pub fn source(&self) -> Option<&str> {
        self.counts.as_ref().map(|counts| &*counts.source)
    }

    /// Keeps what HTTP says of a response, if anyone wants it.
    pub fn responded<'a>(&self, api: &'static str, status: u16, headers: impl Iterator<Item = (&'a str, &'a str)>) {
        if let Some(responses) = &self.responses {
            responses.add(api, status, headers);
        }
    }

    /// Exports these API operations with a count of 0 before the first call.
    pub fn expect(&self, apis: impl IntoIterator<Item = &'static str>) {
        let Some(meter) = &self.counts else { return };
        for api in apis {
            let labels = meter.labels(api, SUCCESS.to_owned());
            drop(meter.metrics.requests.get_or_create(&labels));
            drop(meter.metrics.seconds.get_or_create(&labels));
            drop(meter.metrics.errors.get_or_create(&ApiLabels { source: Arc::clone(&meter.source), api }));
        }
    }

    /// Counts that credentials were loaded again.
    pub fn credentials_renewed(&self, succeeded: bool) {
        let Some(meter) = &self.counts else { return };
        meter.metrics.renewals.get_or_create(&RenewalLabels::of(&meter.source, succeeded)).inc();
    }

    /// Counts a call that took this long.
    pub fn observe(&self, api: &'static str, took: Duration, status: CallStatus<'_>) {
        let Some(meter) = &self.counts else { return };
        let metrics = &meter.metrics;
        let text = match status {
            CallStatus::Success => SUCCESS.to_owned(),
            CallStatus::Failed { code, .. } => meter.bounded(code),
            CallStatus::NoResponse => NO_RESPONSE.to_owned(),
        };
        let labels = meter.labels(api, text);
        metrics.requests.get_or_create(&labels).inc();
        metrics.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let source = Arc::clone(&meter.source);
        if status != CallStatus::Success {
            metrics.errors.get_or_create(&ApiLabels { source: Arc::clone(&source), api }).inc();
        }
        if matches!(status, CallStatus::Failed { is_throttled: true, .. }) {
            metrics.throttled.get_or_create(&SourceLabel { source }).inc();
        }
    }
}

impl SourceMeter {
    fn labels(&self, api: &'static str, status: String) -> CallLabels {
        CallLabels { source: Arc::clone(&self.source), api, status }
    }

    /// The code, or `other` if it is too long or there are too many codes: a cloud must not be able to fill the memory.
    fn bounded(&self, code: &str) -> String {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.contains(code) {
            return code.to_owned();
        }
        if codes.len() >= CODES_MAX || code.is_empty() || code.chars().count() > CODE_CHARS_MAX {
            return OTHER_CODE.to_owned();
        }
        codes.insert(code.to_owned());
        code.to_owned()
    }
}

#[cfg(test)]
mod tests;
