//! What the simulated cloud refuses, and what goes wrong on the way there, as errors of the [`Cloud`] trait.
//!
//! [`Cloud`]: crate::cloud::Cloud

use super::call::{CallKind, Mishap};
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

/// The error of a call whose mishap keeps it from having any effect.
pub(super) fn before(kind: CallKind, subject: &str, mishap: &Mishap) -> Option<CloudError> {
    let fault = |code, message: &str| fault(kind, subject, Some(code), message.to_owned());
    Some(match mishap {
        Mishap::Throttled { retry_after } => CloudError::Throttled {
            retry_after: *retry_after,
            fault: fault("TooManyRequests", "The simulated cloud asks for fewer calls."),
        },
        Mishap::Unreachable => CloudError::Unreachable(fault("Unreachable", "The simulated cloud is out of reach.")),
        Mishap::Denied => CloudError::Denied(fault("AuthorizationFailed", "The simulated cloud denies access.")),
        Mishap::Conflict => CloudError::Conflict(fault("Conflict", "Something else is going on in this group.")),
        Mishap::OutOfResources => CloudError::OutOfResources(fault("QuotaExceeded", "The simulated quota is used up.")),
        Mishap::Refused => CloudError::Refused(fault("InvalidParameter", "The simulated cloud refuses the call.")),
        Mishap::LostAnswer | Mishap::Garbled | Mishap::Slow(_) => return None,
    })
}

/// The error of a call that has had its effect, and whose mishap befalls the answer.
pub(super) fn after(kind: CallKind, subject: &str, mishap: &Mishap) -> Option<CloudError> {
    match mishap {
        Mishap::LostAnswer => {
            Some(CloudError::Unreachable(fault(kind, subject, None, "The answer was lost.".to_owned())))
        }
        Mishap::Garbled => Some(garbled(kind, subject)),
        _ => None,
    }
}

/// The error of an answer that cannot be understood.
pub(super) fn garbled(kind: CallKind, subject: &str) -> CloudError {
    CloudError::Unintelligible(fault(kind, subject, None, "The answer makes no sense.".to_owned()))
}

/// The error of asking for what is not there.
pub(super) fn not_found(kind: CallKind, subject: &str) -> CloudError {
    CloudError::NotFound(fault(kind, subject, Some("ResourceNotFound"), "There is no such thing.".to_owned()))
}

fn fault(kind: CallKind, subject: &str, code: Option<&str>, message: String) -> Box<Fault> {
    Box::new(Fault {
        operation: kind.name(),
        subject: subject.to_owned(),
        code: code.map(str::to_owned),
        message,
        source: None,
    })
}
