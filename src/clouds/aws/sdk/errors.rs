//! What AWS's error codes mean. No other file names them.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_autoscaling::config::http::HttpResponse;
use aws_sdk_autoscaling::error::{ProvideErrorMetadata, SdkError};

use crate::cloud::text::{MESSAGE_CHARS_MAX, error_chain, shorten};
use crate::cloud::{CloudError, FailureClass, Fault};

// The SDK's own list (aws-runtime, retries/classifiers.rs), and RequestThrottledException.
const THROTTLED: [&str; 14] = [
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionInProgressException",
];

const DENIED: [&str; 19] = [
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidToken",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "PendingVerification",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnauthorizedAccess",
    "UnauthorizedOperation",
    "UnrecognizedClientException",
];

/// Codes that mean that AWS does not accept these credentials, but might accept others.
const REFUSED_CREDENTIALS: [&str; 10] = [
    "AuthFailure",
    "ExpiredToken",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidToken",
    "MissingAuthenticationToken",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

// ResourceContention comes with HTTP 500, but it means that nothing was done.
const CONFLICT: [&str; 5] = [
    "ResourceContention",
    "ResourceContentionFault",
    "ResourceInUse",
    "ScalingActivityInProgress",
    "ScalingActivityInProgressFault",
];

/// Codes of launches and calls that fail because capacity, quota or addresses ran out, or the Spot price is too low.
const OUT_OF_RESOURCES: [&str; 17] = [
    "AddressLimitExceeded",
    "InstanceLimitExceeded",
    "InsufficientCapacity",
    "InsufficientCapacityOnHost",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientVolumeCapacity",
    "MaxFleetCountExceeded",
    "MaxSpotInstanceCountExceeded",
    "ReservationCapacityExceeded",
    "SpotInstanceTermination",
    "SpotMaxPriceTooLow",
    "UnfulfillableCapacity",
    "VcpuLimitExceeded",
    "VolumeLimitExceeded",
];

// The outcome of a launch that is still being carried out is not known yet: the call is repeated with its token.
const SERVER_FAULT: [&str; 9] = [
    "IdempotentCallInProgress",
    "IdempotentCallInProgressFault",
    "InternalError",
    "InternalFailure",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServerException",
    "ServiceUnavailable",
    "Unavailable",
];

/// Codes that mean that AWS does not offer a launch for the group as it is set up, or in the region.
const UNSUPPORTED: [&str; 3] = ["InvalidAction", "UnsupportedOperation", "UnsupportedOperationException"];

/// Codes that mean "not found" although they do not end in `NotFound`.
const NOT_FOUND: [&str; 2] = ["InvalidAMIID.Unavailable", "InvalidInstanceType"];

/// A longer pause is not AWS's own wish, but that of a proxy: its limits refill within seconds.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Whether an error code, or an HTTP status in its place, means that there were too many requests.
pub(super) fn is_throttling(code: &str) -> bool {
    THROTTLED.contains(&code) || code == "429"
}

/// A failed call, without the SDK's types.
#[derive(Clone, Debug, Default)]
pub(in crate::clouds::aws) struct FailedCall {
    pub(in crate::clouds::aws) code: Option<String>,
    pub(in crate::clouds::aws) message: String,
    /// The HTTP status, if there was a response.
    pub(in crate::clouds::aws) status: Option<u16>,
    pub(in crate::clouds::aws) retry_after: Option<Duration>,
    /// The request could not be built, so it was not sent.
    pub(in crate::clouds::aws) not_sent: bool,
    /// There are no usable credentials.
    pub(in crate::clouds::aws) no_credentials: bool,
}

/// Classifies an error of the SDK.
pub(in crate::clouds::aws) fn cloud_error<E>(
    operation: &'static str,
    subject: &str,
    error: SdkError<E, HttpResponse>,
) -> CloudError
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let call = FailedCall::from_sdk(&error);
    classify(operation, subject, call, Some(Arc::new(error)))
}

/// What the SDK says of an error that it cannot decode.
const UNHANDLED: &str = "unhandled error";

/// What the SDK says with "not enabled" of each provider of its chain.
const NO_CREDENTIALS: &str = "there are no AWS credentials: the environment has none, the shared files lack the profile, \
    and the metadata service has no role";

impl FailedCall {
    fn from_sdk<E>(error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let raw = error.raw_response();
        let header = |name| raw.and_then(|raw| raw.headers().get(name)).and_then(|value| value.parse::<u64>().ok());
        let retry_after = header("retry-after")
            .map(Duration::from_secs)
            .or_else(|| header("x-amz-retry-after").map(Duration::from_millis))
            .map(|wait| wait.min(PAUSE_MAX));
        let metadata = error.as_service_error().map(ProvideErrorMetadata::meta);
        // The SDK's text for "not sent". The cause follows.
        let chain = error_chain(error);
        let chain = chain.trim_start_matches("dispatch failure: other: ");
        let status = raw.map(|raw| raw.status().as_u16());
        let is_awss = metadata.is_some_and(|meta| meta.code().is_some());
        let text = match status {
            Some(status) if !is_awss && status >= 300 && chain.contains(UNHANDLED) => {
                format!("HTTP {status}, and its body is not an error of AWS: a proxy may have answered")
            }
            Some(status) => format!("HTTP {status}: {chain}"),
            None => chain.to_owned(),
        };
        let no_credentials =
            matches!(error, SdkError::DispatchFailure(failure) if failure.is_other()) && lacks_credentials(chain);
        let message = match metadata.and_then(|meta| meta.message()) {
            None if no_credentials && chain.contains("was not enabled") => {
                format!("{NO_CREDENTIALS} ({chain})")
            }
            message => message.unwrap_or(&text).to_owned(),
        };
        Self {
            code: metadata.and_then(|meta| meta.code()).map(str::to_owned),
            message: shorten(&message, MESSAGE_CHARS_MAX),
            status,
            retry_after,
            not_sent: matches!(error, SdkError::ConstructionFailure(_)),
            no_credentials,
        }
    }
}

// The SDK reports missing credentials as a request that could not be dispatched. If STS or the metadata service is
// unreachable, credentials may come back without any change, so that is not counted here.
fn lacks_credentials(chain: &str) -> bool {
    let text = chain.to_ascii_lowercase();
    let contains = |words: &[&str]| words.iter().any(|word| text.contains(word));
    contains(&["credential", "identity"]) && !contains(&["timed out", "timeout", "io error", "dispatch failure"])
}

/// Classifies a failed call.
pub(in crate::clouds::aws) fn classify(
    operation: &'static str,
    subject: &str,
    call: FailedCall,
    source: Option<Arc<dyn StdError + Send + Sync>>,
) -> CloudError {
    let FailedCall { code, message, status, retry_after, not_sent, no_credentials } = call;
    let text = message.to_ascii_lowercase();
    let name = code.as_deref().unwrap_or_default();
    let is = |codes: &[&str]| codes.contains(&name);
    let operation = operation.into();
    let fault =
        |message| Box::new(Fault { operation, subject: subject.to_owned(), code: code.clone(), message, source });

    if is(&THROTTLED) || status == Some(429) || text.contains("rate exceeded") {
        CloudError::Throttled { retry_after, fault: fault(message) }
    } else if is(&CONFLICT) {
        CloudError::Conflict(fault(message))
    } else if no_credentials || is(&DENIED) || matches!(status, Some(401 | 403)) {
        CloudError::Denied(fault(message))
    } else if is(&OUT_OF_RESOURCES) || name.starts_with("LimitExceeded") {
        CloudError::OutOfResources(fault(message))
    } else if is(&SERVER_FAULT) || status.is_some_and(|status| status >= 500 || status == 408) {
        CloudError::Unreachable(fault(message))
    } else if is_not_found(name, &text) {
        CloudError::NotFound(fault(message))
    } else if not_sent || status.is_some_and(|status| (400..500).contains(&status)) {
        CloudError::Refused(fault(message))
    } else if status.is_some() {
        CloudError::Unintelligible(fault(message))
    } else {
        CloudError::Unreachable(fault(message))
    }
}

// EC2 Auto Scaling returns ValidationError for anything that does not exist. Only the message shows it.
fn is_not_found(code: &str, text: &str) -> bool {
    NOT_FOUND.contains(&code)
        || code.ends_with("NotFound")
        || code.ends_with("NotFoundException")
        || (code == "ValidationError"
            && ["not found", "no managed instance", "does not exist", "is not part of"]
                .iter()
                .any(|words| text.contains(words)))
}

/// The class under which CA sees a launch that failed with this code.
pub(in crate::clouds::aws) fn class_of(code: &str) -> FailureClass {
    let code = code.rsplit('.').next().unwrap_or(code);
    let quota = code.ends_with("LimitExceeded") && !THROTTLED.contains(&code);
    if quota || OUT_OF_RESOURCES.contains(&code) { FailureClass::OutOfResources } else { FailureClass::Other }
}

/// Whether a call or a launch that failed with this code lacks a permission.
pub(in crate::clouds::aws) fn is_denied(code: &str) -> bool {
    DENIED.contains(&code)
}

/// Whether a response of this status refuses the credentials themselves, not the request.
pub(in crate::clouds::aws) fn refuses_credentials(status: u16, body: &[u8]) -> bool {
    // Errors are short, and their code comes first. A body can have 64 MiB.
    const SEARCHED: usize = 16 << 10;
    let head = &body[..body.len().min(SEARCHED)];
    let contains = |code: &&str| head.windows(code.len()).any(|part| part == code.as_bytes());
    matches!(status, 400 | 401 | 403) && REFUSED_CREDENTIALS.iter().any(contains)
}

/// Whether a word of a message is a code in this file.
pub(in crate::clouds::aws) fn is_known(token: &str) -> bool {
    [&THROTTLED[..], &DENIED, &OUT_OF_RESOURCES, &SERVER_FAULT, &NOT_FOUND].iter().any(|codes| codes.contains(&token))
}

/// Whether the credentials themselves were refused, or there were none: others may be there in a moment. A permission that
/// is missing stays so.
pub(in crate::clouds::aws) fn refuses_caller(error: &CloudError) -> bool {
    let CloudError::Denied(fault) = error else { return false };
    let is_of_credentials = |code| REFUSED_CREDENTIALS.contains(&code) || code == "ExpiredTokenException";
    fault.code.as_deref().is_none_or(is_of_credentials)
}

/// The error of a launch: a refusal may mean that AWS does not offer the call. Where the credentials were refused, nothing
/// was done, and the launch is sent again.
pub(in crate::clouds::aws) fn of_launch(error: CloudError) -> CloudError {
    if refuses_caller(&error)
        && let CloudError::Denied(fault) = error
    {
        return CloudError::Conflict(fault);
    }
    or_unsupported(error)
}

/// The same, where the response says it of what was to be launched: with its token, the call returns the same again.
pub(in crate::clouds::aws) fn or_unsupported(error: CloudError) -> CloudError {
    match error {
        CloudError::Refused(fault) if fault.code.as_deref().is_some_and(|code| UNSUPPORTED.contains(&code)) => {
            CloudError::Unsupported(fault)
        }
        other => other,
    }
}

/// Whether AWS refused the batch form of a call, not what the call asked for.
pub(in crate::clouds::aws) fn is_unknown_form(error: &CloudError) -> bool {
    match error {
        CloudError::Refused(fault) => {
            let text = fault.message.to_ascii_lowercase();
            // The sizes of the group, or the state of an instance: "is not part of Auto Scaling group", "is not in
            // InService or Standby" (ecs_deploy #47).
            !["size constraint", "is not part of", "is not in "].iter().any(|words| text.contains(words))
        }
        // AWS's own errors, such as ServiceUnavailable, say nothing about the form.
        other => other.outcome_unknown() && other.fault().code.is_none(),
    }
}

/// The error of a write. If no connection could be made, nothing was sent.
pub(in crate::clouds::aws) fn of_write(error: CloudError) -> CloudError {
    match error {
        CloudError::Unreachable(fault) if fault.code.is_none() && fault.message.contains("client error (Connect)") => {
            CloudError::NotSent(fault)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
