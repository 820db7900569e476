//! Operations that Azure accepts now and finishes later, followed one look at a time.
//!
//! azure_mgmt_compute's own following is not used: awaiting one of its request builders sends the write anew for every
//! look, or takes an unfinished operation for a finished one (Azure/azure-sdk-for-rust#1525). The rules:
//! <https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations>

use std::time::SystemTime;

use azure_core::http::Url;
use serde::Deserialize;
use serde_json::Value;

use super::client::ArmClient;
use super::errors::{ErrorContext, OPERATION_PREEMPTED};
use crate::cloud::{CloudError, Failure, FailureClass, OperationHandle, Progress};
use crate::clouds::azure::http::HttpResponse;
use crate::clouds::azure::http::{ErrorBody, retry_after};

/// How an operation tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollMethod {
    /// `Azure-AsyncOperation`: a body with `status`. Preferred where both are there.
    AsyncOperation,
    /// `Location`: 202 until it is done.
    Location,
    /// The resource itself: `properties.provisioningState`.
    Resource,
}

const NAMES: [(PollMethod, &str); 3] =
    [(PollMethod::AsyncOperation, "async"), (PollMethod::Location, "location"), (PollMethod::Resource, "resource")];

/// Where the write that was accepted with this response can be followed; `None` where it is finished, or cannot be followed.
/// `target` is the address that was written to.
pub(super) fn handle(
    client: &ArmClient,
    context: ErrorContext<'_>,
    response: &HttpResponse,
    target: Option<&Url>,
) -> Option<OperationHandle> {
    let pending =
        response.status.as_u16() == 202 || provisioning(&response.body).is_some_and(|state| !is_terminal(&state));
    let header = |name| response.header(name).and_then(|text| client.endpoint().join(text).ok());
    let found = header("azure-asyncoperation")
        .map(|url| (PollMethod::AsyncOperation, url))
        .or_else(|| header("location").filter(|_| pending).map(|url| (PollMethod::Location, url)))
        .or_else(|| target.filter(|_| pending).map(|url| (PollMethod::Resource, url.clone())));
    let (kind, url) = found?;
    if !client.leads_to(&url) {
        tracing::warn!(
            operation = context.operation,
            name = context.name,
            host = url.host_str(),
            "an operation cannot be followed: its address is not the endpoint's"
        );
        return None;
    }
    Some(write(kind, &url))
}

fn write(kind: PollMethod, url: &Url) -> OperationHandle {
    let name = NAMES.iter().find(|(known, _)| *known == kind).map_or("async", |(_, name)| *name);
    OperationHandle(format!("{name} {url}"))
}

/// A handle's parts.
pub(super) fn parse(handle: &OperationHandle) -> Option<(PollMethod, Url)> {
    let (name, url) = handle.0.split_once(' ')?;
    let (kind, _) = NAMES.iter().find(|(_, known)| *known == name)?;
    Some((*kind, Url::parse(url).ok()?))
}

/// The operation's ID, for messages.
pub(super) fn short_name(url: &Url) -> &str {
    url.path().rsplit('/').find(|segment| !segment.is_empty()).unwrap_or("operation")
}

/// Where a resource says how it is doing.
const PROVISIONING_STATE: &str = "/properties/provisioningState";

#[derive(Deserialize)]
struct AsyncOperation {
    status: Option<String>,
    error: Option<Value>,
}

/// What a look said.
pub(super) fn progress(
    kind: PollMethod,
    context: ErrorContext<'_>,
    looked: Result<HttpResponse, CloudError>,
    now: SystemTime,
) -> Result<Progress, CloudError> {
    let response = match looked {
        Ok(response) => response,
        Err(error) => return refusal(kind, error, now),
    };
    let running = Progress::Running { ask_after: retry_after(&response.headers, now) };
    match kind {
        PollMethod::AsyncOperation => {
            let body: AsyncOperation =
                serde_json::from_slice(&response.body).map_err(|error| context.unintelligible(&error.to_string()))?;
            let status = body.status.ok_or_else(|| context.unintelligible("an operation without a status"))?;
            Ok(outcome(&status, body.error, running, now))
        }
        PollMethod::Location if response.status.as_u16() == 202 => Ok(running),
        PollMethod::Location => Ok(Progress::Succeeded),
        PollMethod::Resource => {
            let body: Value =
                serde_json::from_slice(&response.body).map_err(|error| context.unintelligible(&error.to_string()))?;
            match body.pointer(PROVISIONING_STATE) {
                // A resource without a state has succeeded.
                None | Some(Value::Null) => Ok(outcome("Succeeded", None, running, now)),
                Some(Value::String(state)) => Ok(outcome(state, None, running, now)),
                Some(_) => Err(context.unintelligible("a provisioning state that is no text")),
            }
        }
    }
}

fn outcome(status: &str, error: Option<Value>, running: Progress, now: SystemTime) -> Progress {
    if status.eq_ignore_ascii_case("Succeeded") {
        return Progress::Succeeded;
    }
    if !is_terminal(status) {
        return running;
    }
    let error: ErrorBody = error.and_then(|error| serde_json::from_value(error).ok()).unwrap_or_default();
    if error.all().iter().any(|error| error.code.as_deref() == Some(OPERATION_PREEMPTED)) {
        return Progress::Preempted;
    }
    Progress::Failed(error.into_failure(status, now))
}

// An operation that is looked at by its Location tells its own failure by an error status, where others only fail to
// response.
fn refusal(kind: PollMethod, error: CloudError, now: SystemTime) -> Result<Progress, CloudError> {
    let class = match &error {
        CloudError::OutOfResources(_) if kind == PollMethod::Location => FailureClass::OutOfResources,
        CloudError::Refused(_) | CloudError::Conflict(_) if kind == PollMethod::Location => FailureClass::Other,
        _ => return Err(error),
    };
    let fault = error.fault();
    if fault.code.as_deref() == Some(OPERATION_PREEMPTED) {
        return Ok(Progress::Preempted);
    }
    let code = fault.code.clone().unwrap_or_else(|| "Failed".to_owned());
    Ok(Progress::Failed(Failure { class, code, message: fault.message.clone(), at: now, is_explained: true }))
}

fn is_terminal(state: &str) -> bool {
    // Both spellings are in use.
    ["Succeeded", "Failed", "Canceled", "Cancelled"].iter().any(|terminal| terminal.eq_ignore_ascii_case(state))
}

fn provisioning(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.pointer(PROVISIONING_STATE)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
