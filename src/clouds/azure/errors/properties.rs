use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::properties::{Written, config, json, pieces, slipped, spoiled};

const SUBJECT: Subject<'_> = Subject { operation: "VirtualMachineScaleSets.Update", name: "pool" };
const WAIT: [&str; 10] =
    ["-", ".", "120", "Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 0000 00:00:00 GMT", "GMT", ":", ",", "Feb 30", " "];

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
    let value = option::of(prop_oneof![3 => pieces(&WAIT), 1 => any::<u64>().prop_map(|wait| wait.to_string())]);
    [value.clone(), value.clone(), value].prop_map(|values| {
        let names = ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"].map(HeaderName::from_static);
        let values = values.map(|value| HeaderValue::from_str(&value?).ok());
        names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_answer_is_judged_in_few_words(status in 100..=999_u16, headers in headers(), Written(body) in body()) {
        let status = StatusCode::from_u16(status).expect("a status");
        let answer = Answer { status, headers, body: body.into() };
        let error = verdict(SUBJECT, &answer);
        prop_assert!(error.fault().message.chars().count() <= MESSAGE_LENGTH_MAX, "{}", error);
        if matches!(status.as_u16(), 408 | 500..) {
            let unknown = error.outcome_unknown() || matches!(error, CloudError::Throttled { .. });
            prop_assert!(unknown, "{}: whether a write took effect is not known: {}", status, error);
        }
        if status.as_u16() == 429 {
            prop_assert!(matches!(error, CloudError::Throttled { .. }), "{}", error);
        }
    }

    #[test]
    fn no_wait_is_longer_than_an_hour(headers in headers()) {
        let wait = retry_after(&headers, SystemTime::now());
        prop_assert!(wait.is_none_or(|wait| wait <= RETRY_AFTER_MAX), "{:?}", wait);
    }

    #[test]
    fn a_failure_always_has_a_code(Written(body) in body()) {
        let failure = ArmError::read(&body).unwrap_or_default().into_failure("Failed", SystemTime::UNIX_EPOCH);
        prop_assert!(!failure.code.is_empty() && failure.message.chars().count() <= MESSAGE_LENGTH_MAX);
    }
}
