//! Maps errors to gRPC statuses. Nothing else in the crate does.
//!
//! The Cluster Autoscaler backs off a group after any failed mutation, regardless of the code. The codes are for people
//! who read the log.

use tonic::{Code, Status};

use crate::cloud::CloudError;
use crate::cloud::text::{printable, shorten};
use crate::fleet::FleetError;

/// The longest message of a status, in bytes. A message quotes the request, which may have megabytes, and travels in a
/// header, where each byte that is not ASCII takes three. Clients close the connection, and with it every other call,
/// when they receive more than about 16 KiB of headers.
const MESSAGE_BYTES_MAX: usize = 2048;

/// Returns the status for an error. The message is the error's own: it names the group, the reason, and what to do.
pub(super) fn status(error: &FleetError) -> Status {
    Status::new(code(error), fit(&error.to_string()))
}

/// Returns the status for an invalid request.
pub(super) fn invalid(message: &str) -> Status {
    Status::invalid_argument(fit(message))
}

/// Shortens a message that does not fit into a header, and replaces what is not printable: CA logs it.
fn fit(message: &str) -> String {
    const ELLIPSIS: char = '…';
    let message = &*printable(message);
    if message.len() <= MESSAGE_BYTES_MAX {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX - ELLIPSIS.len_utf8());
    shorten(message, message[..end].chars().count() + 1)
}

fn code(error: &FleetError) -> Code {
    match error {
        FleetError::Malformed(_) => Code::InvalidArgument,
        FleetError::UnknownGroup { .. } => Code::NotFound,
        FleetError::Refused { .. } => Code::FailedPrecondition,
        FleetError::OverQuota { .. } => Code::ResourceExhausted,
        FleetError::Cloud { error, .. } => cloud_code(error),
        FleetError::PartlyRefused { refused, .. } => {
            refused.first().map_or(Code::FailedPrecondition, |(_, error)| cloud_code(error))
        }
        FleetError::Contended { .. } => Code::Aborted,
        FleetError::NotSent { .. } => Code::DeadlineExceeded,
        FleetError::OutcomeUnknown { .. }
        | FleetError::StillRunning { .. }
        | FleetError::Busy { .. }
        | FleetError::NotServed { .. }
        | FleetError::NotReady { .. }
        | FleetError::Stale { .. } => Code::Unavailable,
        FleetError::NoTemplate { .. } => Code::Unimplemented,
    }
}

fn cloud_code(error: &CloudError) -> Code {
    match error {
        CloudError::Throttled { .. }
        | CloudError::Unreachable(_)
        | CloudError::NotSent(_)
        | CloudError::Unintelligible(_)
        | CloudError::Denied(_) => Code::Unavailable,
        CloudError::NotFound(_) => Code::NotFound,
        CloudError::Conflict(_) => Code::Aborted,
        CloudError::OutOfResources(_) => Code::ResourceExhausted,
        CloudError::Refused(_) | CloudError::Unsupported(_) => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_quotes_a_long_request_is_shortened() {
        for (letter, before) in [("a", 0), ("ä", 1), ("🕴", 2)] {
            let id = "x".repeat(before) + &letter.repeat(100_000);
            let status = status(&FleetError::UnknownGroup { id });
            assert_eq!(status.code(), Code::NotFound);
            let length = status.message().len();
            assert!((MESSAGE_BYTES_MAX - 4..=MESSAGE_BYTES_MAX).contains(&length), "{letter}: {length}");
            assert!(status.message().ends_with('…'));
        }
        let fitting = "a".repeat(MESSAGE_BYTES_MAX);
        assert_eq!(invalid(&fitting).message(), fitting);
        assert_eq!(invalid("short").message(), "short");
    }
}
