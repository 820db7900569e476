//! What Azure's error codes mean.

use std::time::SystemTime;

use super::operations::GET_OPERATION;
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::cloud::{CloudError, Failure, FailureClass, Fault};
use crate::clouds::azure::http::{ErrorBody, HttpResponse, Refusal, TransportError, is_throttling, retry_after};

/// Azure refuses force deletion of these VMs. The deletion works without force.
pub(in crate::clouds::azure) const FORCE_DELETE_NOT_ALLOWED: &str = "ForceDeleteNotAllowed";

/// A newer operation on the same scale set replaced this one.
pub(in crate::clouds::azure) const OPERATION_PREEMPTED: &str = "OperationPreempted";

/// What Entra ID and the metadata services call refused credentials.
/// <https://learn.microsoft.com/entra/identity-platform/reference-error-codes>
const SIGN_IN_REFUSED: [&str; 12] = [
    "access_denied",
    "consent_required",
    "interaction_required",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_resource",
    "invalid_scope",
    "unauthorized_client",
    "unknown_source",
    "unsupported_grant_type",
    "unsupported_response_type",
];

/// What Entra ID calls its own failures, which it may send with any status.
const SIGN_IN_UNAVAILABLE: [&str; 2] = ["server_error", "temporarily_unavailable"];

/// The most digits of a code of Entra ID.
const CODE_DIGITS_MAX: usize = 10;

/// A write is refused, for any of several reasons that only the message tells.
pub(in crate::clouds::azure) const OPERATION_NOT_ALLOWED: &str = "OperationNotAllowed";

// Azure returns 404 SubscriptionNotFound if the identity has no role in the subscription.
const DENIED: [&str; 9] = [
    "AuthenticationFailed",
    "AuthenticationFailedInvalidHeader",
    "AuthorizationFailed",
    "ExpiredAuthenticationToken",
    "InvalidAuthenticationToken",
    "InvalidAuthenticationTokenTenant",
    "LinkedAuthorizationFailed",
    "SubscriptionNotFound",
    "RequestDisallowedByPolicy",
];

const CONFLICT: [&str; 9] = [
    "AnotherOperationInProgress",
    "Conflict",
    "ConflictingConcurrentWriteNotAllowed",
    "ConflictingUserInput",
    OPERATION_PREEMPTED,
    "PreconditionFailed",
    "ResourceGroupBeingDeleted",
    "RetryableError",
    "RetryableErrorDueToAnotherOperation",
];

/// Refusals with status 409 that a retry does not fix.
const REFUSED: [&str; 4] =
    [OPERATION_NOT_ALLOWED, "PropertyChangeNotAllowed", "ScopeLocked", "ReadOnlyDisabledSubscription"];

/// Codes of writes, operations and VMs that fail because capacity or quota is short.
const OUT_OF_RESOURCES: [&str; 13] = [
    "AllocationFailed",
    "InsufficientCapacity",
    "LowPriorityCoresQuotaExceeded",
    "NotEnoughCoresQuota",
    "OutOfCapacity",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "QuotaExceeded",
    "ResourceQuotaExceeded",
    "SkuNotAvailable",
    "SubnetIsFull",
    "SubscriptionQuotaExceeded",
    "ZonalAllocationFailed",
];

/// The inner code of [`FORCE_DELETE_NOT_ALLOWED`].
const MAINTENANCE_CONTROL: &str = "OperationNotAllowedOnResourceThatManagesUpdatesWithMaintenanceControl";

/// Codes that only wrap the actual error.
const WRAPPERS: [&str; 5] =
    ["BadRequest", "DeploymentFailed", "OperationFailed", "ResourceDeploymentFailure", "ResourceOperationFailure"];

impl ErrorBody {
    /// The actual reason: the first code for short capacity or quota, else the first that is not a wrapper.
    fn reason(&self) -> &Self {
        let all = self.all();
        let code = |error: &&&Self| error.code.clone().unwrap_or_default();
        let scarce = all.iter().find(|error| {
            failure_class(&code(error), error.message.as_deref().unwrap_or_default()) == FailureClass::OutOfResources
        });
        let plain = || all.iter().find(|error| !WRAPPERS.contains(&code(error).as_str()) && error.code.is_some());
        scarce.or_else(plain).copied().unwrap_or(self)
    }

    /// Why an operation failed.
    pub(in crate::clouds::azure) fn into_failure(self, status: &str, at: SystemTime) -> Failure {
        let reason = self.reason();
        // CA drops an error without a code.
        let code = reason.code.clone().filter(|code| !code.is_empty()).unwrap_or_else(|| status.to_owned());
        let message = reason.message.as_deref().unwrap_or_default();
        let (class, message) = (failure_class(&code, message), shorten(message, MESSAGE_CHARS_MAX));
        Failure { class, code, message, at, is_explained: true, is_eviction: false }
    }
}

/// The failure class of an operation or a VM that failed with this code and message.
pub(in crate::clouds::azure) fn failure_class(code: &str, message: &str) -> FailureClass {
    let scarce = OUT_OF_RESOURCES.contains(&code) || (code == OPERATION_NOT_ALLOWED && is_quota(message));
    if scarce { FailureClass::OutOfResources } else { FailureClass::Other }
}

// Azure uses the same code for short quota, for throttling and for force deletion that is not allowed.
fn is_quota(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    ["quota", "lowprioritycores", "exceeding approved"].iter().any(|words| text.contains(words))
}

/// The operation and the resource that an error names.
#[derive(Clone, Copy, Debug)]
pub(in crate::clouds::azure) struct ErrorContext<'a> {
    /// The name of the API operation.
    pub(in crate::clouds::azure) operation: &'static str,
    /// The scale set, location or operation.
    pub(in crate::clouds::azure) name: &'a str,
}

impl ErrorContext<'_> {
    /// The details of an error.
    pub(in crate::clouds::azure) fn fault(self, code: Option<String>, message: &str) -> Box<Fault> {
        let message = shorten(message, MESSAGE_CHARS_MAX);
        Box::new(Fault { operation: self.operation.into(), subject: self.name.to_owned(), code, message, source: None })
    }

    /// A request that cannot be sent.
    pub(in crate::clouds::azure) fn refused(self, message: &str) -> CloudError {
        CloudError::refused(self.operation, self.name, shorten(message, MESSAGE_CHARS_MAX))
    }

    /// A response that cannot be decoded.
    pub(in crate::clouds::azure) fn unintelligible(self, message: &str) -> CloudError {
        CloudError::unintelligible(self.operation, self.name, shorten(message, MESSAGE_CHARS_MAX))
    }

    /// No response.
    pub(in crate::clouds::azure) fn unreachable(self, error: &TransportError) -> CloudError {
        CloudError::unreachable(self.operation, self.name, shorten(&error.to_string(), MESSAGE_CHARS_MAX))
    }

    /// No token: either the sign-in was refused, or the sign-in service is unreachable.
    pub(in crate::clouds::azure) fn no_token(self, error: &azure_core::Error) -> CloudError {
        let (is_refused, why) = why_no_token(error);
        let fault = self.fault(None, &format!("no token: {why}"));
        if is_refused { CloudError::Denied(fault) } else { CloudError::Unreachable(fault) }
    }
}

/// Why there is no token, and whether the credentials are to blame. The sign-in service may repeat what it was sent, in
/// any form, so only its status and its code are shown.
fn why_no_token(error: &azure_core::Error) -> (bool, String) {
    use azure_core::error::ErrorKind;
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if cause.is::<TransportError>() {
            return (false, error.to_string());
        }
        match cause.downcast_ref::<azure_core::Error>().map(azure_core::Error::kind) {
            Some(ErrorKind::HttpResponse { status, raw_response, .. }) => {
                let refusal = raw_response.as_ref().map(|raw| Refusal::read(raw.body().as_ref())).unwrap_or_default();
                return told(u16::from(*status), &refusal);
            }
            Some(ErrorKind::DataConversion) => {
                return (false, "the response of the sign-in service cannot be read".to_owned());
            }
            Some(ErrorKind::Io | ErrorKind::Connection) => return (false, error.to_string()),
            _ => next = cause.source(),
        }
    }
    // Our own: a file that cannot be read, or a missing tool.
    (true, error.to_string())
}

/// What a response says. Only one of Entra ID's tells that the credentials are refused: a proxy or a gateway may send
/// any status with a page of its own.
fn told(status: u16, refusal: &Refusal) -> (bool, String) {
    let Refusal { error, description } = refusal;
    let code = code_of(description);
    let is_of_entra = code.is_some() || SIGN_IN_REFUSED.contains(&error.as_str());
    let is_refused = matches!(status, 400 | 401) && is_of_entra && !SIGN_IN_UNAVAILABLE.contains(&error.as_str());
    let verb = if is_refused { "refused" } else { "failed" };
    let code = code.map(|code| format!(" and code {code}")).unwrap_or_default();
    (is_refused, format!("the sign-in service {verb} with status {status}{code}"))
}

/// The code in a description of Entra ID, such as `AADSTS7000215`.
fn code_of(description: &str) -> Option<&str> {
    const PREFIX: &str = "AADSTS";
    let code = &description[description.find(PREFIX)?..];
    let digits = code[PREFIX.len()..].bytes().take(CODE_DIGITS_MAX).take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| &code[..PREFIX.len() + digits])
}

/// The permission that a refusal names. The text is shortened before it would appear.
fn missing_permission(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("to perform action '")?;
    rest.split_once('\'').map(|(permission, _)| permission)
}

/// Classifies a response that is not a success. Throttling comes first: it can have the code of a short quota.
pub(in crate::clouds::azure) fn classify(context: ErrorContext<'_>, response: &HttpResponse) -> CloudError {
    let status = response.status.as_u16();
    let error = ErrorBody::read(&response.body);
    let throttled = is_throttling(status, error.as_ref());
    let untold = || String::from_utf8_lossy(&response.body).into_owned();
    let error = error.unwrap_or_else(|| ErrorBody { message: Some(untold()), ..ErrorBody::default() });
    let codes = error.codes();
    let is = |known: &[&str]| codes.iter().any(|code| known.contains(&code.as_str()));
    let reason = error.reason();
    let text = reason.message.as_deref().unwrap_or_default();
    let code = reason.code.clone();
    let fault = || context.fault(code.clone(), &format!("HTTP {status}: {text}"));

    if throttled {
        return CloudError::Throttled {
            retry_after: retry_after(&response.headers, SystemTime::now()),
            fault: fault(),
        };
    }
    // With these statuses, it is unknown whether a write took effect, regardless of the body.
    if matches!(status, 408 | 500..) {
        return CloudError::Unreachable(fault());
    }
    if is(&DENIED) || matches!(status, 401 | 403) {
        return CloudError::Denied(match missing_permission(text) {
            Some(permission) => context.fault(code, &format!("HTTP {status}: no permission for {permission}: {text}")),
            None => fault(),
        });
    }
    if is(&[MAINTENANCE_CONTROL]) || (is(&[OPERATION_NOT_ALLOWED]) && error.says("forcedelet")) {
        return CloudError::Refused(context.fault(Some(FORCE_DELETE_NOT_ALLOWED.to_owned()), text));
    }
    if failure_class(code.as_deref().unwrap_or_default(), text) == FailureClass::OutOfResources {
        return CloudError::OutOfResources(fault());
    }
    // The record of an operation that is no longer kept is no failure of the operation. Of anything else, a 410 says that
    // the call is no longer served: what it is about may exist (law 5).
    let is_forgotten = status == 410 && context.operation == GET_OPERATION;
    // For VMs that are already gone, the code is unspecific; only the message shows it.
    if status == 404 || is_forgotten || error.says("is not an active virtual machine scale set vm instanceid") {
        return CloudError::NotFound(fault());
    }
    match status {
        412 => CloudError::Conflict(fault()),
        // The same code refuses a write for good, and while another operation runs.
        409 if !is(&REFUSED) || error.says("in progress") => CloudError::Conflict(fault()),
        400..=499 if is(&CONFLICT) => CloudError::Conflict(fault()),
        400..=499 => CloudError::Refused(fault()),
        _ => CloudError::Unintelligible(fault()),
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
