//! AWS's error responses.

use std::time::Duration;

use headcount::clouds::simulated::{CallFault, Refusal, RefusalKind};
use serde_json::json;

use super::super::http_messages::HttpResponse;
use super::behavior::Busy;
use super::router::Service;
use super::xml::{element, text};

const REQUEST: &str = "00000000-0000-4000-9000-000000000001";

/// An error of EC2 Auto Scaling's.
pub(crate) fn error(status: u16, code: &str, message: &str) -> HttpResponse {
    let fault = if status < 500 { "Sender" } else { "Receiver" };
    let content = [text("Type", fault), text("Code", code), text("Message", message)].concat();
    let body = element("ErrorResponse", element("Error", content) + &text("RequestId", REQUEST));
    HttpResponse::xml(status, body)
}

/// An error of EC2's.
pub(super) fn ec2_error(status: u16, code: &str, message: &str) -> HttpResponse {
    let error = element("Error", [text("Code", code), text("Message", message)].concat());
    HttpResponse::xml(status, element("Response", element("Errors", error) + &text("RequestID", REQUEST)))
}

/// An error of EKS's.
pub(super) fn eks_error(status: u16, code: &str, message: &str) -> HttpResponse {
    HttpResponse::json(status, &json!({"message": message})).header("x-amzn-errortype", code)
}

fn of(service: Service, status: u16, code: &str, message: &str) -> HttpResponse {
    match service {
        Service::AutoScaling => error(status, code, message),
        Service::Ec2 => ec2_error(status, code, message),
        Service::Eks => eks_error(status, code, message),
    }
}

/// The error response of a call fault, if it has one.
pub(super) fn call_fault(service: Service, busy: Busy, call_fault: &CallFault) -> Option<HttpResponse> {
    use Service::{AutoScaling, Ec2, Eks};
    let (status, code, message) = match (call_fault, service) {
        (CallFault::Throttled { retry_after }, _) => return Some(throttled(service, *retry_after)),
        (CallFault::Denied, Ec2) => (403, "UnauthorizedOperation", "You are not authorized to perform this operation."),
        (CallFault::Denied, Eks) => (403, "AccessDeniedException", "User is not authorized to perform this action."),
        (CallFault::Denied, AutoScaling) => (403, "AccessDenied", "User is not authorized to perform this action."),
        (CallFault::Conflict, _) => return Some(is_busy(busy)),
        (CallFault::OutOfResources, Ec2 | AutoScaling) => {
            (400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit allows.")
        }
        (CallFault::OutOfResources, Eks) => (400, "ResourceLimitExceededException", "A limit is reached."),
        (CallFault::Refused, Ec2) => (400, "InvalidParameterValue", "The value is invalid."),
        (CallFault::Refused, Eks) => (400, "InvalidParameterException", "The value is invalid."),
        (CallFault::Refused, AutoScaling) => (400, "ValidationError", "1 validation error detected."),
        (
            CallFault::Unreachable
            | CallFault::LostResponse
            | CallFault::Malformed
            | CallFault::Slow(_)
            | CallFault::Late(_),
            _,
        ) => {
            return None;
        }
    };
    Some(of(service, status, code, message))
}

fn throttled(service: Service, retry_after: Option<Duration>) -> HttpResponse {
    let response = match service {
        Service::AutoScaling => error(400, "Throttling", "Rate exceeded"),
        Service::Ec2 => ec2_error(503, "RequestLimitExceeded", "Request limit exceeded."),
        Service::Eks => eks_error(429, "ThrottlingException", "Rate exceeded"),
    };
    match retry_after {
        Some(wait) => response.header("retry-after", wait.as_secs().max(1)),
        None => response,
    }
}

/// The error response of a busy group.
pub(super) fn is_busy(busy: Busy) -> HttpResponse {
    match busy {
        Busy::ScalingActivityInProgress => error(
            400,
            "ScalingActivityInProgress",
            "The operation cannot be performed while an activity is in progress.",
        ),
        Busy::ResourceContention => error(500, "ResourceContention", "You have pending scaling activities."),
    }
}

/// The error response of a refused write.
pub(super) fn refused(refusal: &Refusal, busy: Busy) -> HttpResponse {
    match (refusal.kind, refusal.code.as_str()) {
        (RefusalKind::NotFound, _) => error(400, "ValidationError", &refusal.message),
        (RefusalKind::Conflict, _) => is_busy(busy),
        (_, code @ "ResourceContention") => error(500, code, &refusal.message),
        (_, code) => error(400, code, &refusal.message),
    }
}

pub(super) fn no_group(name: &str) -> HttpResponse {
    error(400, "ValidationError", &format!("AutoScalingGroup name not found - AutoScalingGroup {name} not found"))
}

pub(super) fn no_instance(id: &str) -> HttpResponse {
    let message = format!("Instance Id not found - No managed instance found for instance ID {id}");
    error(400, "ValidationError", &message)
}
