//! Long-running operations: Azure accepts them now and finishes them later. Each is polled once per call.
//!
//! The polling of azure_mgmt_compute is not used: awaiting one of its request builders sends the write again for every
//! poll, or takes an unfinished operation for a finished one (Azure/azure-sdk-for-rust#1525). The rules:
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

/// How the state of an operation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clouds::azure) enum PollMethod {
    /// `Azure-AsyncOperation`: a body with `status`. Preferred if `Location` is present too.
    AsyncOperation,
    /// `Location`: 202 until it is done.
    Location,
    /// The resource itself: `properties.provisioningState`.
    Resource,
}

const NAMES: [(PollMethod, &str); 3] =
    [(PollMethod::AsyncOperation, "async"), (PollMethod::Location, "location"), (PollMethod::Resource, "resource")];

/// Returns the handle for following a write that was accepted with this response; `None` if the write is finished or
/// cannot be followed. `target` is the URL of the scale set that was written.
pub(super) fn handle(
    client: &ArmClient,
    context: ErrorContext<'_>,
    response: &HttpResponse,
    target: Option<&Url>,
) -> Option<OperationHandle> {
    let pending =
        response.status.as_u16() == 202 || provisioning(&response.body).is_some_and(|state| !is_terminal(&state));
    let header = |name| response.header(name).and_then(|text| client.endpoint().join(text).ok());
    let named = [
        header("azure-asyncoperation").map(|url| (PollMethod::AsyncOperation, url)),
        header("location").filter(|_| pending).map(|url| (PollMethod::Location, url)),
    ];
    let named: Vec<_> = named.into_iter().flatten().collect();
    let usable = named.iter().find(|(_, url)| client.is_on_endpoint(url)).or_else(|| named.first()).cloned();
    let (method, url) = usable.or_else(|| target.filter(|_| pending).map(|url| (PollMethod::Resource, url.clone())))?;
    if !client.is_on_endpoint(&url) {
        tracing::warn!(
            api = context.operation,
            name = context.name,
            host = url.host_str(),
            "Azure returned an operation URL that is not on the configured endpoint; observations alone show the \
                outcome"
        );
        return None;
    }
    Some(write(method, &url))
}

fn write(method: PollMethod, url: &Url) -> OperationHandle {
    let name = NAMES.iter().find(|(known, _)| *known == method).map_or("async", |(_, name)| *name);
    OperationHandle(format!("{name} {url}"))
}

/// Splits a handle into its parts.
pub(super) fn parse(handle: &OperationHandle) -> Option<(PollMethod, Url)> {
    let (name, url) = handle.0.split_once(' ')?;
    let (method, _) = NAMES.iter().find(|(_, known)| *known == name)?;
    Some((*method, Url::parse(url).ok()?))
}

/// The operation ID, for messages.
pub(super) fn short_name(url: &Url) -> &str {
    url.path().rsplit('/').find(|segment| !segment.is_empty()).unwrap_or("operation")
}

/// The path of the state in a resource.
const PROVISIONING_STATE: &str = "/properties/provisioningState";

#[derive(Deserialize)]
struct AsyncOperation {
    status: Option<String>,
    error: Option<Value>,
}

/// The progress that a poll shows.
pub(super) fn progress(
    method: PollMethod,
    context: ErrorContext<'_>,
    polled: Result<HttpResponse, CloudError>,
    now: SystemTime,
) -> Result<Progress, CloudError> {
    let response = match polled {
        Ok(response) => response,
        Err(error) => return refusal(method, error, now),
    };
    let running = Progress::Running { ask_after: retry_after(&response.headers, now) };
    match method {
        PollMethod::AsyncOperation => {
            let body: AsyncOperation =
                serde_json::from_slice(&response.body).map_err(|error| context.unintelligible(&error.to_string()))?;
            let status = body.status.ok_or_else(|| context.unintelligible("the operation has no status"))?;
            Ok(outcome(&status, body.error, running, now))
        }
        PollMethod::Location if response.status.as_u16() == 202 => Ok(running),
        // It may return the resource that was written, whose state decides then.
        PollMethod::Location if is_of_azure(&response.body) => {
            let state = provisioning(&response.body).filter(|state| !state.is_empty());
            Ok(state.map_or(Progress::Succeeded, |state| outcome(&state, None, running, now)))
        }
        PollMethod::Location => {
            Err(context.unintelligible("the body of the operation is an error, or none of Azure's"))
        }
        PollMethod::Resource => {
            let body: Value =
                serde_json::from_slice(&response.body).map_err(|error| context.unintelligible(&error.to_string()))?;
            match body.pointer(PROVISIONING_STATE) {
                // A resource without a state counts as succeeded.
                None | Some(Value::Null) => Ok(outcome("Succeeded", None, running, now)),
                Some(Value::String(state)) => Ok(outcome(state, None, running, now)),
                Some(_) => Err(context.unintelligible("the provisioning state is not a string")),
            }
        }
    }
}

/// Whether a body can be Azure's response to a write that it accepted. A proxy may respond with a page of its own.
pub(super) fn is_of_azure(body: &[u8]) -> bool {
    let is_accepted = |body: Value| body.get("error").is_none_or(Value::is_null);
    body.trim_ascii().is_empty() || serde_json::from_slice(body).is_ok_and(is_accepted)
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

// A `Location` reports that the operation failed by an error status, and Azure gives its errors a code: one without
// comes from a proxy. With the other methods, an error status only means that the poll failed.
fn refusal(method: PollMethod, error: CloudError, now: SystemTime) -> Result<Progress, CloudError> {
    let class = match &error {
        CloudError::OutOfResources(_) if method == PollMethod::Location => FailureClass::OutOfResources,
        CloudError::Refused(_) | CloudError::Conflict(_) if method == PollMethod::Location => FailureClass::Other,
        _ => return Err(error),
    };
    let fault = error.fault();
    let Some(code) = &fault.code else { return Err(error) };
    if code == OPERATION_PREEMPTED {
        return Ok(Progress::Preempted);
    }
    Ok(Progress::Failed(Failure {
        class,
        code: code.clone(),
        message: fault.message.clone(),
        at: now,
        is_explained: true,
        is_eviction: false,
    }))
}

fn is_terminal(state: &str) -> bool {
    // Azure uses both spellings.
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
