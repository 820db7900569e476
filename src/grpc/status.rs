//! The one place where errors become gRPC status. What CA makes of each is in its own code: a mutation's error backs the
//! group off, whatever the code; the codes are for the person who reads the log.

use tonic::{Code, Status};

use crate::cloud::CloudError;
use crate::fleet::FleetError;

/// The status of an error. Its message is the error's: it names the group, the reason, and what to do.
pub(super) fn status(error: &FleetError) -> Status {
    Status::new(code(error), error.to_string())
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
        FleetError::Busy { .. }
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
