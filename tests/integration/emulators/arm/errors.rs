//! What goes wrong, in ARM's words.

use std::time::Duration;

use headcount::clouds::simulated::{Mishap, Refusal, RefusalKind};
use serde_json::{Value, json};

use super::super::exchange::Answer;

/// An error of ARM's.
pub(crate) fn error(status: u16, code: &str, message: &str) -> Answer {
    Answer::json(status, &json!({"error": {"code": code, "message": message}}))
}

/// Too many calls: Compute answers `OperationNotAllowed`, and only the details tell it from a quota.
pub(super) fn throttled(retry_after: Option<Duration>) -> Answer {
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
    let answer = Answer::json(429, &body)
        .header("x-ms-ratelimit-remaining-resource", format!("Microsoft.Compute/{policy};0"))
        .header("x-ms-failure-cause", "service");
    match retry_after {
        Some(wait) => answer.header("retry-after", wait.as_secs().max(1)),
        None => answer,
    }
}

/// A mishap, where it is an error.
pub(super) fn mishap(mishap: &Mishap) -> Option<Answer> {
    Some(match mishap {
        Mishap::Throttled { retry_after } => throttled(*retry_after),
        Mishap::Denied => error(
            403,
            "AuthorizationFailed",
            "The client 'headcount' does not have authorization to perform this action over this scope.",
        ),
        Mishap::Conflict => error(409, "Conflict", "Another operation is in progress on this resource."),
        Mishap::OutOfResources => error(
            409,
            "OperationNotAllowed",
            "Operation could not be completed as it results in exceeding approved standardDSv5Family Cores quota. \
             Current Limit: 10, Current Usage: 8, Additional Required: 4. Submit a request for Quota increase.",
        ),
        Mishap::Refused => error(400, "InvalidParameter", "The value of parameter is invalid."),
        Mishap::Unreachable | Mishap::LostAnswer | Mishap::Garbled | Mishap::Slow(_) => return None,
    })
}

/// A write that the world refused.
pub(super) fn refused(refusal: &Refusal) -> Answer {
    let status = match (refusal.kind, refusal.code.as_str()) {
        (_, "PreconditionFailed") => 412,
        (RefusalKind::NotFound, _) => 404,
        (RefusalKind::Conflict | RefusalKind::OutOfResources, _) | (_, "OperationNotAllowed" | "SkuNotAvailable") => {
            409
        }
        (RefusalKind::Refused, _) => 400,
    };
    error(status, &refusal.code, &refusal.message)
}

pub(super) fn no_scale_set(name: &str) -> Answer {
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
