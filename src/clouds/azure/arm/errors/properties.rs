use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::operations;
use super::*;
use crate::properties::{Written, config, json, slipped, spoiled};

const CONTEXT: ErrorContext<'_> = ErrorContext { operation: operations::UPDATE_SCALE_SET, name: "pool" };

fn error() -> Value {
    json!({ "error": {
        "code": "OperationNotAllowed", "message": "exceeding approved quota", "target": "sku",
        "details": [{ "code": "AllocationFailed", "message": "none left", "details": [{ "code": "x" }] }],
        "innererror": { "internalErrorCode": "TooManyRequests", "innererror": { "code": "y" } }
    } })
}

fn body() -> impl Strategy<Value = Written> {
    prop_oneof![
        3 => spoiled(error()).prop_map(|body| Written(body.to_string().into())),
        1 => json().prop_map(|body| Written(body.to_string().into())),
        2 => slipped(error().to_string()),
        1 => vec(any::<u8>(), 0..2000).prop_map(Written),
    ]
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let value = option::of(any::<u64>().prop_map(|wait| wait.to_string()));
    value.prop_map(|value| {
        let header = value.and_then(|value| HeaderValue::from_str(&value).ok());
        header.into_iter().map(|value| (HeaderName::from_static("retry-after"), value)).collect()
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_response_is_classified_with_a_short_message(status in 100..=999_u16, headers in headers(), Written(body) in body()) {
        let status = StatusCode::from_u16(status).expect("a status");
        let response = HttpResponse { status, headers, body: body.into() };
        let error = classify(CONTEXT, &response);
        prop_assert!(error.fault().message.chars().count() <= MESSAGE_CHARS_MAX, "{}", error);
        if matches!(status.as_u16(), 408 | 500..) {
            let unknown = error.outcome_unknown() || matches!(error, CloudError::Throttled { .. });
            prop_assert!(unknown, "{}: whether a write took effect is not known: {}", status, error);
        }
        if status.as_u16() == 429 {
            prop_assert!(matches!(error, CloudError::Throttled { .. }), "{}", error);
        }
    }

    #[test]
    fn a_failure_always_has_a_code(Written(body) in body()) {
        let failure = ErrorBody::read(&body).unwrap_or_default().into_failure("Failed", SystemTime::UNIX_EPOCH);
        prop_assert!(!failure.code.is_empty() && failure.message.chars().count() <= MESSAGE_CHARS_MAX);
    }
}
