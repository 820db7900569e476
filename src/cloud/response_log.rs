//! What HTTP said of a cloud's responses, as evidence for `headcount verify`: statuses, and the headers that say
//! something about limits, times and versions. No body, and no header that identifies anyone but by the request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Nobody takes them for longer than a listing: more than its pages are not kept.
const RESPONSES_MAX: usize = 64;

/// The headers that are kept, in lower case.
const HEADERS: [&str; 12] = [
    "azure-asyncoperation",
    "date",
    "etag",
    "location",
    "retry-after",
    "retry-after-ms",
    "x-amzn-errortype",
    "x-amzn-requestid",
    "x-ms-correlation-request-id",
    "x-ms-failure-cause",
    "x-ms-request-id",
    "x-ms-retry-after-ms",
];
/// Headers that begin like this are kept as well.
const LIMITS: &str = "x-ms-ratelimit-";

/// A response without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawResponse {
    /// The API operation.
    pub api: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Headers by name, in lower case, as they were sent. A value can name a resource.
    pub headers: Vec<(String, String)>,
}

/// The last responses of a source. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ResponseLog(Arc<Mutex<VecDeque<RawResponse>>>);

impl ResponseLog {
    /// The responses since they were last taken, oldest first.
    pub fn take(&self) -> Vec<RawResponse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    pub(super) fn add<'a>(&self, api: &'static str, status: u16, headers: impl Iterator<Item = (&'a str, &'a str)>) {
        let named = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let kept = named.filter(|(name, _)| HEADERS.contains(&name.as_str()) || name.starts_with(LIMITS)).collect();
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() >= RESPONSES_MAX {
            log.pop_front();
        }
        log.push_back(RawResponse { api, status, headers: kept });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_says_something_about_limits_and_times_and_little_of_it() {
        let log = ResponseLog::default();
        let headers = [("Date", "today"), ("Set-Cookie", "secret"), ("x-ms-ratelimit-remaining-resource", "a;1")];
        for _ in 0..=RESPONSES_MAX {
            log.add("List", 200, headers.into_iter());
        }
        let taken = log.take();
        assert_eq!(taken.len(), RESPONSES_MAX);
        let names: Vec<&str> = taken[0].headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["date", "x-ms-ratelimit-remaining-resource"]);
        assert_eq!(log.take(), []);
    }
}
