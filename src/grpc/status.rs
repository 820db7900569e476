//! The one place where errors become gRPC status. What CA makes of each is in its own code: a mutation's error backs the
//! group off, whatever the code; the codes are for the person who reads the log.

use tonic::{Code, Status};

use crate::cloud::CloudError;
use crate::fleet::FleetError;

/// Longest message of a status, in bytes. It travels in a header, three times as long where it is not ASCII, and clients
/// that are sent more than some 16 KiB of headers close the connection under every other call on it. A message repeats
/// what the caller wrote, and a request may have megabytes.
const MESSAGE_BYTES_MAX: usize = 2048;

/// The status of an error. Its message is the error's: it names the group, the reason, and what to do.
pub(super) fn status(error: &FleetError) -> Status {
    refusal(code(error), error.to_string())
}

/// The status of a request that makes no sense.
pub(super) fn invalid(complaint: String) -> Status {
    refusal(Code::InvalidArgument, complaint)
}

fn refusal(code: Code, mut message: String) -> Status {
    const CUT: char = '…';
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX - CUT.len_utf8()));
        message.push(CUT);
    }
    Status::new(code, message)
}

fn code(error: &FleetError) -> Code {
    match error {
        FleetError::Malformed(_) => Code::InvalidArgument,
        FleetError::UnknownGroup { .. } => Code::NotFound,
        FleetError::Refused { .. } => Code::FailedPrecondition,
        FleetError::Cloud { error, .. } => cloud_code(error),
        FleetError::PartlyRefused { refused, .. } => {
            refused.first().map_or(Code::FailedPrecondition, |(_, error)| cloud_code(error))
        }
        FleetError::Contended { .. } => Code::Aborted,
        FleetError::NotSent { .. } | FleetError::StillRunning { .. } => Code::DeadlineExceeded,
        FleetError::OutcomeUnknown { .. }
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
        | CloudError::Unintelligible(_)
        | CloudError::Denied(_) => Code::Unavailable,
        CloudError::NotFound(_) => Code::NotFound,
        CloudError::Conflict(_) => Code::Aborted,
        CloudError::OutOfResources(_) => Code::ResourceExhausted,
        CloudError::Refused(_) => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_repeats_a_long_request_is_cut_between_two_letters() {
        for (letter, before) in [("a", 0), ("ä", 1), ("🕴", 2)] {
            let id = "x".repeat(before) + &letter.repeat(100_000);
            let status = status(&FleetError::UnknownGroup { id });
            assert_eq!(status.code(), Code::NotFound);
            let length = status.message().len();
            assert!((MESSAGE_BYTES_MAX - 4..=MESSAGE_BYTES_MAX).contains(&length), "{letter}: {length}");
            assert!(status.message().ends_with('…'));
        }
        assert_eq!(invalid("short".to_owned()).message(), "short");
    }
}
