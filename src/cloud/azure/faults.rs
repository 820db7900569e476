//! Faults that are found here and not by Azure.

use crate::cloud::{CloudError, Fault};

fn fault(operation: &'static str, subject: &str, message: impl Into<String>) -> Box<Fault> {
    Box::new(Fault { operation, subject: subject.to_owned(), code: None, message: message.into(), source: None })
}

/// The call makes no sense as it was asked for, and was not made.
pub(super) fn refused(operation: &'static str, subject: &str, message: impl Into<String>) -> CloudError {
    CloudError::Refused(fault(operation, subject, message))
}

/// What the call is about does not exist.
pub(super) fn not_found(operation: &'static str, subject: &str, message: impl Into<String>) -> CloudError {
    CloudError::NotFound(fault(operation, subject, message))
}

/// The answer lacks what it must have.
pub(super) fn unintelligible(operation: &'static str, subject: &str, message: impl Into<String>) -> CloudError {
    CloudError::Unintelligible(fault(operation, subject, message))
}

/// The call was not made, because it failed a moment ago.
pub(super) fn unreachable(operation: &'static str, subject: &str, message: impl Into<String>) -> CloudError {
    CloudError::Unreachable(fault(operation, subject, message))
}
