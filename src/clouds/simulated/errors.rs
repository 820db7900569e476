//! The simulated cloud's refusals and faults as errors of the [`Cloud`] trait.
//!
//! [`Cloud`]: crate::cloud::Cloud

use super::call::{CallFault, CallKind};
use super::record::{Refusal, RefusalKind};
use crate::cloud::{CloudError, Fault};

/// The error of a write that the world refused.
pub(super) fn refused(kind: CallKind, subject: &str, refusal: Refusal) -> CloudError {
    let fault = fault(kind, subject, Some(&refusal.code), refusal.message);
    match refusal.kind {
        RefusalKind::NotFound => CloudError::NotFound(fault),
        RefusalKind::Conflict => CloudError::Conflict(fault),
        RefusalKind::OutOfResources => CloudError::OutOfResources(fault),
        RefusalKind::Refused => CloudError::Refused(fault),
    }
}

/// The error of a call whose fault keeps it from having any effect.
pub(super) fn before(kind: CallKind, subject: &str, call_fault: &CallFault) -> Option<CloudError> {
    let fault = |code, message: &str| fault(kind, subject, Some(code), message.to_owned());
    Some(match call_fault {
        CallFault::Throttled { retry_after } => CloudError::Throttled {
            retry_after: *retry_after,
            fault: fault("TooManyRequests", "The simulated cloud throttles this call."),
        },
        CallFault::Unreachable => CloudError::Unreachable(fault("Unreachable", "The simulated cloud is unreachable.")),
        CallFault::Denied => CloudError::Denied(fault("AuthorizationFailed", "The simulated cloud denies access.")),
        CallFault::Conflict => {
            CloudError::Conflict(fault("Conflict", "Another operation is in progress in this group."))
        }
        CallFault::OutOfResources => {
            CloudError::OutOfResources(fault("QuotaExceeded", "The simulated quota is used up."))
        }
        CallFault::Refused => CloudError::Refused(fault("InvalidParameter", "The simulated cloud refuses the call.")),
        CallFault::LostResponse | CallFault::Malformed | CallFault::Slow(_) | CallFault::Late(_) => return None,
    })
}

/// The error of a call that took effect and whose fault concerns the response.
pub(super) fn after(kind: CallKind, subject: &str, call_fault: &CallFault) -> Option<CloudError> {
    match call_fault {
        CallFault::LostResponse => {
            Some(CloudError::Unreachable(fault(kind, subject, None, "The response was lost.".to_owned())))
        }
        CallFault::Malformed => Some(malformed(kind, subject)),
        _ => None,
    }
}

/// The error of a call whose client gave up.
pub(super) fn timed_out(kind: CallKind, subject: &str) -> CloudError {
    CloudError::Unreachable(fault(kind, subject, None, "The client gave up.".to_owned()))
}

/// The error of a response that cannot be decoded.
pub(super) fn malformed(kind: CallKind, subject: &str) -> CloudError {
    CloudError::Unintelligible(fault(kind, subject, None, "The response cannot be decoded.".to_owned()))
}

/// The error of a call for something that does not exist.
pub(super) fn not_found(kind: CallKind, subject: &str) -> CloudError {
    CloudError::NotFound(fault(kind, subject, Some("ResourceNotFound"), "The resource was not found.".to_owned()))
}

fn fault(kind: CallKind, subject: &str, code: Option<&str>, message: String) -> Box<Fault> {
    Box::new(Fault {
        operation: kind.name().into(),
        subject: subject.to_owned(),
        code: code.map(str::to_owned),
        message,
        source: None,
    })
}
