use hyper::{HeaderMap, StatusCode};
use proptest::prelude::*;
use serde_json::json;

use super::super::operations;
use super::*;
use crate::properties::{Written, config, json, pieces, slipped, spoiled};

const CONTEXT: ErrorContext<'_> = ErrorContext { operation: operations::GET_OPERATION, name: "op-1" };
const PIECES: [&str; 9] =
    ["async ", "location ", "resource ", "http://", "127.0.0.1", ":", "/", "operations/op-1", "%"];

fn status() -> Value {
    json!({ "status": "Failed", "properties": { "provisioningState": "Failed" },
            "error": { "code": "OverconstrainedAllocationRequest", "message": "none left", "details": [] } })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_operation_succeeds_only_if_azure_says_so(
        kind in prop_oneof![Just(PollMethod::AsyncOperation), Just(PollMethod::Resource)],
        Written(body) in prop_oneof![
            3 => spoiled(status()).prop_map(|body| Written(body.to_string().into())),
            1 => json().prop_map(|body| Written(body.to_string().into())),
            1 => slipped(status().to_string()),
        ],
    ) {
        let response = HttpResponse { status: StatusCode::OK, headers: HeaderMap::new(), body: body.clone().into() };
        let told = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        match progress(kind, CONTEXT, Ok(response), SystemTime::UNIX_EPOCH) {
            Ok(Progress::Succeeded) => {
                let state = match kind {
                    PollMethod::AsyncOperation => told.get("status").and_then(Value::as_str),
                    _ => told.pointer("/properties/provisioningState").and_then(Value::as_str),
                };
                // A resource without a state counts as succeeded.
                let is_missing = kind == PollMethod::Resource
                    && serde_json::from_slice::<Value>(&body).is_ok()
                    && told.pointer(PROVISIONING_STATE).is_none_or(Value::is_null);
                prop_assert!(is_missing || state.is_some_and(|state| state.eq_ignore_ascii_case("Succeeded")), "{}", told);
            }
            Ok(Progress::Failed(failure)) => prop_assert!(!failure.code.is_empty(), "{}", told),
            Ok(_) | Err(_) => {}
        }
    }

    #[test]
    fn a_handle_is_read_back_unchanged(text in pieces(&PIECES)) {
        if let Some((kind, url)) = parse(&OperationHandle(text)) {
            prop_assert_eq!(parse(&write(kind, &url)), Some((kind, url.clone())));
            prop_assert!(!short_name(&url).is_empty());
        }
    }
}
