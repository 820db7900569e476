//! ARM's error responses.

use std::time::Duration;

use headcount::clouds::simulated::{CallFault, Refusal, RefusalKind};
use serde_json::{Value, json};

use super::super::http_messages::HttpResponse;

/// An error of ARM's.
pub(crate) fn error(status: u16, code: &str, message: &str) -> HttpResponse {
    let response = HttpResponse::json(status, &json!({"error": {"code": code, "message": message}}));
    let is_of_the_gateway = ["ResourceNotFound", "ResourceGroupNotFound", "AuthorizationFailed"].contains(&code);
    if is_of_the_gateway { response.header("x-ms-failure-cause", "gateway") } else { response }
}

/// The refusal of a call that the role does not allow.
pub(crate) fn denied(action: &str) -> HttpResponse {
    let message = format!(
        "The client '11111111-1111-1111-1111-111111111111' with object id '11111111-1111-1111-1111-111111111111' does not \
         have authorization to perform action '{action}' over scope \
         '/subscriptions/00000000-0000-0000-0000-000000000000' or the scope is invalid. If access was recently granted, \
         please refresh your credentials."
    );
    error(403, "AuthorizationFailed", &message)
}

/// Throttling: Compute returns `OperationNotAllowed`, and only the details distinguish it from a quota.
pub(crate) fn throttled(retry_after: Option<Duration>) -> HttpResponse {
    let policy = "HighCostGetVMScaleSet30Min";
    let measured = json!({
        "operationGroup": policy, "startTime": "2026-01-01T00:00:00+00:00", "endTime": "2026-01-01T00:30:00+00:00",
        "allowedRequestCount": 900, "measuredRequestCount": 1132,
    });
    let body = json!({"error": {
        "code": "OperationNotAllowed",
        "message": "The server rejected the request: too many requests have been received for this subscription.",
        "details": [{"code": "TooManyRequests", "target": policy, "message": measured.to_string()}],
    }});
    let response = HttpResponse::json(429, &body)
        .header("x-ms-ratelimit-remaining-resource", format!("Microsoft.Compute/{policy};0"))
        .header("x-ms-failure-cause", "service");
    match retry_after {
        Some(wait) => response.header("retry-after", wait.as_secs().max(1)),
        None => response,
    }
}

/// The error response of a call fault, if it has one.
pub(super) fn call_fault(call_fault: &CallFault) -> Option<HttpResponse> {
    Some(match call_fault {
        CallFault::Throttled { retry_after } => throttled(*retry_after),
        CallFault::Denied => error(
            403,
            "AuthorizationFailed",
            "The client 'headcount' does not have authorization to perform this action over this scope.",
        ),
        CallFault::Conflict => error(409, "Conflict", "Another operation is in progress on this resource."),
        CallFault::OutOfResources => error(
            409,
            "OperationNotAllowed",
            "Operation could not be completed as it results in exceeding approved standardDSv5Family Cores quota. \
             Current Limit: 10, Current Usage: 8, Additional Required: 4. Submit a request for Quota increase.",
        ),
        CallFault::Refused => error(400, "InvalidParameter", "The value of parameter is invalid."),
        CallFault::Unreachable
        | CallFault::LostResponse
        | CallFault::Malformed
        | CallFault::Slow(_)
        | CallFault::Late(_) => return None,
    })
}

/// The error response of a refused write.
pub(super) fn refused(refusal: &Refusal) -> HttpResponse {
    let status = match (refusal.kind, refusal.code.as_str()) {
        (_, "PreconditionFailed") => 412,
        (RefusalKind::NotFound, _) => 404,
        (RefusalKind::Conflict | RefusalKind::OutOfResources, _) | (_, "OperationNotAllowed" | "SkuNotAvailable") => {
            409
        }
        (RefusalKind::Refused, _) => 400,
    };
    let message = match status {
        // The recorded text has both etags.
        412 => "Etag provided in if-match header \"1\" does not match etag \"2\" of resource",
        _ => &refusal.message,
    };
    error(status, &refusal.code, message)
}

pub(super) fn no_scale_set(name: &str) -> HttpResponse {
    error(
        404,
        "ResourceNotFound",
        &format!(
            "The Resource 'Microsoft.Compute/virtualMachineScaleSets/{name}' under resource group 'demo' was not found."
        ),
    )
}

/// The `error` of an operation.
pub(super) fn within(code: &str, message: &str) -> Value {
    json!({"code": code, "message": message})
}
