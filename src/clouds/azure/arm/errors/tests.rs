use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::super::operations;
use super::*;

const CONTEXT: ErrorContext<'_> = ErrorContext { operation: operations::UPDATE_SCALE_SET, name: "one" };

fn response(status: u16, headers: &[(&'static str, &str)], body: impl ToString) -> HttpResponse {
    let headers = headers
        .iter()
        .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().expect("a value")));
    let status = StatusCode::from_u16(status).expect("a status");
    HttpResponse { status, headers: headers.collect(), body: body.to_string().into() }
}

/// The word that an error begins with.
fn kind(error: &CloudError) -> String {
    error.to_string().split(": ").next().unwrap_or_default().to_owned()
}

#[test]
fn codes_mean_what_azure_says() {
    let quota = "Operation could not be completed as it results in exceeding approved standardDSv3Family Cores quota.";
    let spot = "Operation could not be completed as it results in exceeding approved LowPriorityCores quota.";
    let more = "The operation requires more cores. Submit a request for Quota increase at https://aka.ms/x";
    let force = "Operation 'ForceDelete' is not allowed on resource 'vmss-1' since it manages updates";
    let gone = "The provided instanceId 5 is not an active Virtual Machine Scale Set VM instanceId.";
    for (status, code, message, expected) in [
        (429, "OperationNotAllowed", "too many requests, exceeding approved quota", "throttled"),
        (409, "TooManyRequests", "", "throttled"),
        (429, "", "", "throttled"),
        (409, "OperationNotAllowed", quota, "out of resources"),
        (403, "OperationNotAllowed", spot, "denied"),
        (409, "OperationNotAllowed", spot, "out of resources"),
        (409, "OperationNotAllowed", more, "out of resources"),
        (409, "OperationNotAllowed", "the scale set is being deleted", "refused"),
        (409, "OperationNotAllowed", "Operation is not allowed: another operation is in progress", "conflict"),
        (409, "OperationNotAllowed", force, "refused"),
        (409, "SkuNotAvailable", "", "out of resources"),
        (400, "QuotaExceeded", "", "out of resources"),
        (409, "AllocationFailed", "", "out of resources"),
        (400, "OverconstrainedZonalAllocationRequest", "", "out of resources"),
        (412, "PreconditionFailed", "", "conflict"),
        (412, "", "", "conflict"),
        (409, "Conflict", "", "conflict"),
        (409, "AnotherOperationInProgress", "", "conflict"),
        (409, "ScopeLocked", "", "refused"),
        (401, "InvalidAuthenticationToken", "", "denied"),
        (403, "AuthorizationFailed", "", "denied"),
        (404, "SubscriptionNotFound", "", "denied"),
        (404, "ResourceNotFound", "", "not found"),
        (410, "Gone", "", "refused"),
        (400, "InvalidParameter", gone, "not found"),
        (400, "InvalidParameter", "something else", "refused"),
        (408, "", "", "unreachable"),
        (500, "AllocationFailed", "", "unreachable"),
        (500, "InternalServerError", "", "unreachable"),
        (503, "ServerTimeout", "", "unreachable"),
        (302, "", "", "invalid response"),
    ] {
        let body = json!({ "error": { "code": code, "message": message } });
        let error = classify(CONTEXT, &response(status, &[], body));
        assert_eq!(kind(&error), expected, "{status} {code} {message}: {error}");
        assert_eq!(error.outcome_unknown(), matches!(expected, "unreachable" | "invalid response"));
    }
}

#[test]
fn a_force_delete_that_is_not_allowed_is_recognised_by_text_or_inner_code() {
    let said = json!({ "error": { "code": "OperationNotAllowed", "message": "'ForceDelete' is not allowed" } });
    let inner = json!({ "error": { "code": "BadRequest", "message": "no",
        "innererror": { "internalErrorCode": "OperationNotAllowedOnResourceThatManagesUpdatesWithMaintenanceControl" } } });
    for body in [said, inner] {
        let error = classify(CONTEXT, &response(409, &[], &body));
        assert!(matches!(error, CloudError::Refused(_)), "{error}");
        assert_eq!(error.fault().code.as_deref(), Some(FORCE_DELETE_NOT_ALLOWED));
    }
}

#[test]
fn the_reason_is_found_inside_its_wrappers() {
    let body = json!({ "error": { "code": "DeploymentFailed", "message": "see details", "details": [
        { "code": "BadRequest", "message": "wrapped" },
        { "code": "ResourceOperationFailure", "details": [{ "code": "SkuNotAvailable", "message": "not in this zone" }] },
    ] } });
    let error = classify(CONTEXT, &response(400, &[], body));
    assert_eq!(
        error.to_string(),
        "out of resources: VirtualMachineScaleSets_Update one: HTTP 400: not in this zone (SkuNotAvailable)"
    );
}

#[test]
fn a_body_that_is_not_json_is_quoted_and_shortened() {
    let error = classify(CONTEXT, &response(502, &[], format!("<html>{}</html>", "bad gateway\n".repeat(100))));
    assert!(error.fault().message.starts_with("HTTP 502: <html>bad gateway bad"), "{error}");
    assert_eq!(error.fault().message.chars().count(), MESSAGE_CHARS_MAX);
}

#[test]
fn failures_have_a_code_a_class_and_a_short_message() {
    let failure = |error: Value| {
        let error: ErrorBody = serde_json::from_value(error).expect("an error");
        let failure = error.into_failure("Failed", SystemTime::UNIX_EPOCH);
        (failure.class, failure.code, failure.message)
    };
    let long = failure(json!({ "code": "AllocationFailed", "message": "no-".repeat(1000) }));
    assert_eq!(
        (long.0, long.1.as_str(), long.2.chars().count()),
        (FailureClass::OutOfResources, "AllocationFailed", MESSAGE_CHARS_MAX)
    );
    // The class is that of the whole message.
    let quota = format!("{}Submit a request for Quota increase", "no ".repeat(70));
    let late = failure(json!({ "code": "OperationNotAllowed", "message": quota }));
    assert_eq!(late.0, FailureClass::OutOfResources);
    let nameless = failure(json!({ "message": "why ever" }));
    assert_eq!(nameless, (FailureClass::Other, "Failed".to_owned(), "why ever".to_owned()));
    let extension = failure(json!({ "code": "VMExtensionProvisioningError", "message": "exit 1" }));
    assert_eq!(extension.0, FailureClass::Other);
    assert_eq!(
        failure_class("OperationNotAllowed", "Submit a request for Quota increase"),
        FailureClass::OutOfResources
    );
    assert_eq!(failure_class("OperationNotAllowed", "no"), FailureClass::Other);
}

#[test]
fn of_a_refused_sign_in_only_the_status_and_the_code_are_shown() {
    use azure_core::error::ErrorKind;
    use azure_core::http::{RawResponse, headers::Headers};
    let refused = |description: &'static str| {
        let body = json!({ "error": "invalid_client", "error_description": description }).to_string();
        let raw_response = Some(Box::new(RawResponse::from_bytes(401_u16.into(), Headers::new(), body)));
        let kind = ErrorKind::HttpResponse { status: 401_u16.into(), error_code: None, raw_response };
        let inner = azure_core::Error::with_message(kind, description);
        let message = format!("ClientSecretCredential authentication failed. {description}");
        CONTEXT.no_token(&azure_core::Error::with_error(ErrorKind::Credential, inner, message)).to_string()
    };
    for (description, shown) in [
        ("AADSTS7000215: you sent s3-cr\net", "refused with status 401 and code AADSTS7000215"),
        ("AADSTS: you sent s3-cr-et", "refused with status 401"),
        ("AADSTS77777777777777777777 s3-cr-et", "refused with status 401 and code AADSTS7777777777"),
        ("you sent czMtY3ItZXQ=", "refused with status 401"),
    ] {
        assert!(refused(description).ends_with(shown), "{}", refused(description));
    }
}

#[test]
fn missing_permissions_differ_from_an_unreachable_sign_in() {
    use azure_core::error::ErrorKind;
    let timeout = TransportError::Timeout(Duration::from_secs(1));
    let network = azure_core::Error::with_error(
        ErrorKind::Credential,
        azure_core::Error::new(ErrorKind::Io, timeout),
        "ManagedIdentityCredential authentication failed",
    );
    assert_eq!(kind(&CONTEXT.no_token(&network)), "unreachable");
    let wrong = azure_core::Error::with_message(ErrorKind::Credential, "AADSTS7000215: invalid client secret");
    assert_eq!(kind(&CONTEXT.no_token(&wrong)), "denied");
}
