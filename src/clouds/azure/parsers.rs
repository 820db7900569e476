//! The parsers of what Azure sends, each as a function of any bytes; see [`crate::parsers`].

use std::time::SystemTime;

use hyper::{HeaderMap, StatusCode};

use super::arm::{application, parse_page};
use super::http::{ErrorBody, HttpResponse, is_throttling};
use super::{ids, tags};

/// Reads a page of scale sets, VMs, sizes or autoscale settings, the body of an error or of an operation, and a token.
pub fn page(bytes: &[u8]) {
    let body = bytes.to_vec();
    let response = |status| HttpResponse { status, headers: HeaderMap::new(), body: body.clone().into() };
    for status in [StatusCode::OK, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS] {
        parse_page(response(status), SystemTime::UNIX_EPOCH);
    }
    let error = ErrorBody::read(bytes);
    let _throttled = is_throttling(429, error.as_ref());
    let _codes = error.map(|error| error.codes());
    let _application = application(&String::from_utf8_lossy(bytes));
}

/// Reads the tags of a scale set, one `key=value` in a line.
pub fn tags(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let tags = text.lines().map(|line| line.split_once('=').unwrap_or((line, "")));
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let _hints = tags::hints(&tags, &mut Vec::new());
    let _aks = (tags::is_of_aks(&tags), tags::aks_minor_version(&tags), tags::has_overlay(&tags));
}

/// Reads a provider ID.
pub fn provider_id(bytes: &[u8]) {
    let _parsed = ids::parse(&String::from_utf8_lossy(bytes)).is_some();
}
