use std::sync::Arc;

use hyper::{HeaderMap, StatusCode};
use serde_json::json;

use super::super::operations;
use super::*;
use crate::clouds::azure::http::Transport;
use crate::clouds::azure::throttle::CallLimiter;

const CONTEXT: ErrorContext<'_> = ErrorContext { operation: operations::UPDATE_SCALE_SET, name: "one" };

fn client() -> ArmClient {
    let transport = Arc::new(Transport::plain().expect("a transport"));
    let endpoint = Url::parse("http://arm.invalid").expect("an address");
    ArmClient::new(transport, endpoint, None, Arc::new(CallLimiter::default()))
}

fn response(status: u16, headers: &[(&'static str, &str)], body: impl ToString) -> HttpResponse {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse().expect("a value"));
    }
    HttpResponse {
        status: StatusCode::from_u16(status).expect("a status"),
        headers: map,
        body: body.to_string().into(),
    }
}

fn state(state: &str) -> String {
    json!({ "properties": { "provisioningState": state } }).to_string()
}

#[test]
fn an_unfinished_write_is_polled_at_the_address_that_azure_returns() {
    let operation = ("azure-asyncoperation", "http://arm.invalid/op");
    let location = ("location", "http://arm.invalid/result");
    let target = Url::parse("http://arm.invalid/set").expect("an address");
    for (status, headers, body, expected) in [
        (202, vec![operation, location], String::new(), Some("async http://arm.invalid/op")),
        (202, vec![location], String::new(), Some("location http://arm.invalid/result")),
        (202, vec![("location", "/relative")], String::new(), Some("location http://arm.invalid/relative")),
        (202, vec![], String::new(), Some("resource http://arm.invalid/set")),
        (200, vec![operation], state("Updating"), Some("async http://arm.invalid/op")),
        (200, vec![], state("Updating"), Some("resource http://arm.invalid/set")),
        (201, vec![], state("Creating"), Some("resource http://arm.invalid/set")),
        (200, vec![], state("Succeeded"), None),
        (200, vec![location], state("Succeeded"), None),
        (200, vec![], "{}".to_owned(), None),
        (204, vec![], String::new(), None),
        (202, vec![("azure-asyncoperation", "https://evil.example/op")], String::new(), None),
        (202, vec![("azure-asyncoperation", "http://me@arm.invalid/op")], String::new(), None),
        (202, vec![("azure-asyncoperation", "https://arm.invalid/op")], String::new(), None),
        (202, vec![("azure-asyncoperation", "http://arm.invalid:81/op")], String::new(), None),
        (202, vec![("azure-asyncoperation", "//evil.example/op")], String::new(), None),
        (202, vec![("azure-asyncoperation", "\\\\evil.example\\op")], String::new(), None),
        (202, vec![("azure-asyncoperation", "file:///etc/passwd")], String::new(), None),
        (202, vec![("location", "http://arm.invalid@evil.example/result")], String::new(), None),
        (202, vec![("location", "//evil.example/result")], String::new(), None),
    ] {
        let found = handle(&client(), CONTEXT, &response(status, &headers, &body), Some(&target));
        assert_eq!(found.as_ref().map(|handle| handle.0.as_str()), expected, "{status} {headers:?} {body}");
        if let Some(found) = found {
            let (kind, url) = parse(&found).expect("a handle");
            assert_eq!(write(kind, &url), found);
        }
    }
}

#[test]
fn every_state_is_running_a_success_or_a_failure() {
    let look = |kind, response| progress(kind, CONTEXT, Ok(response), SystemTime::UNIX_EPOCH);
    let status = |status: &str| response(200, &[("retry-after", "2")], json!({ "status": status }));
    for running in ["InProgress", "Accepted", "Updating", "Running", ""] {
        let progress = look(PollMethod::AsyncOperation, status(running)).expect("a state");
        assert!(matches!(progress, Progress::Running { ask_after: Some(_) }), "{running}: {progress:?}");
    }
    for failed in ["Failed", "Canceled", "Cancelled", "failed"] {
        let Ok(Progress::Failed(failure)) = look(PollMethod::AsyncOperation, status(failed)) else {
            panic!("{failed}")
        };
        assert_eq!(failure.code, failed, "never empty");
    }
    assert_eq!(look(PollMethod::AsyncOperation, status("Succeeded")).expect("a state"), Progress::Succeeded);
    for unclear in ["", "{}", "[]", "not json"] {
        let unclear = look(PollMethod::AsyncOperation, response(200, &[], unclear));
        assert!(matches!(unclear, Err(CloudError::Unintelligible(_))), "{unclear:?}");
    }
    assert_eq!(look(PollMethod::Location, response(204, &[], "")).expect("an end"), Progress::Succeeded);
    for page in ["<html>", "{\"error\": {\"code\": \"Conflict\"}}"] {
        assert!(matches!(look(PollMethod::Location, response(200, &[], page)), Err(CloudError::Unintelligible(_))));
    }
    assert!(matches!(look(PollMethod::Resource, response(200, &[], state("Updating"))), Ok(Progress::Running { .. })));
    assert!(matches!(look(PollMethod::Resource, response(200, &[], state("Failed"))), Ok(Progress::Failed(_))));
    assert!(matches!(look(PollMethod::Resource, response(200, &[], "{}")), Ok(Progress::Succeeded)));
}

#[test]
fn a_preemption_is_found_in_the_details_too() {
    let body = json!({ "status": "Failed", "error": { "code": "Conflict", "message": "x",
        "details": [{ "code": "OperationPreempted", "message": "preempted by a more recent operation" }] } });
    let progress = progress(PollMethod::AsyncOperation, CONTEXT, Ok(response(200, &[], body)), SystemTime::UNIX_EPOCH);
    assert_eq!(progress.expect("an end"), Progress::Preempted);
}

#[test]
fn a_failed_poll_shows_nothing_about_the_operation() {
    for kind in [PollMethod::AsyncOperation, PollMethod::Location, PollMethod::Resource] {
        let none = CloudError::Unreachable(CONTEXT.fault(None, "no response"));
        let progress = progress(kind, CONTEXT, Err(none), SystemTime::UNIX_EPOCH);
        assert!(matches!(progress, Err(CloudError::Unreachable(_))), "{progress:?}");
    }
}

/// As the SDKs of Azure read it: the state of the resource comes first.
#[test]
fn a_location_that_returns_the_resource_ends_with_the_state_of_the_resource() {
    let look = |status, body: String| {
        progress(PollMethod::Location, CONTEXT, Ok(response(status, &[], body)), SystemTime::UNIX_EPOCH)
    };
    for status in [200, 201] {
        for running in ["Updating", "Creating", "Deleting"] {
            let progress = look(status, state(running));
            assert!(matches!(progress, Ok(Progress::Running { .. })), "{status} {running}: {progress:?}");
        }
        assert_eq!(look(status, state("Succeeded")).expect("an end"), Progress::Succeeded);
        assert!(matches!(look(status, state("Failed")), Ok(Progress::Failed(_))), "{status}");
        for stateless in ["{}".to_owned(), state(""), r#"{"properties":{"provisioningState":null}}"#.to_owned()] {
            assert_eq!(look(status, stateless).expect("an end"), Progress::Succeeded);
        }
    }
    assert_eq!(look(204, String::new()).expect("an end"), Progress::Succeeded);
}

#[test]
fn only_an_error_of_azure_ends_an_operation() {
    let look = |status, body: &str| {
        let context = ErrorContext { operation: operations::GET_OPERATION, name: "one" };
        let error = super::super::errors::classify(context, &response(status, &[], body));
        progress(PollMethod::Location, context, Err(error), SystemTime::UNIX_EPOCH)
    };
    let coded = r#"{"error":{"code":"SomethingFailed","message":"no"}}"#;
    for status in [400, 409, 412] {
        assert!(matches!(look(status, coded), Ok(Progress::Failed(_))), "{status}");
        let page = look(status, "<html>a proxy</html>");
        assert!(matches!(page, Err(CloudError::Refused(_) | CloudError::Conflict(_))), "{status}: {page:?}");
    }
    // The record of the operation is no longer kept, which says nothing about its outcome.
    for status in [404, 410] {
        for body in [coded, "<html>gone</html>", ""] {
            let gone = look(status, body);
            assert!(matches!(gone, Err(CloudError::NotFound(_))), "{status} {body}: {gone:?}");
        }
    }
}
