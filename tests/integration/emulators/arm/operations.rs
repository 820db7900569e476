//! Operations that continue after the response to their request.

use headcount::clouds::simulated::{CallKind, Ending, SUBSCRIPTION};
use serde_json::json;

use super::super::core::lock;
use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::behavior::Tracking;
use super::errors::{self, error};
use super::headers::{signature, timestamp};
use super::router::ArmApi;

/// An operation that a client can follow.
#[derive(Clone, Debug)]
pub(super) struct TrackedOperation {
    pub(super) group: String,
    /// `None` if there was nothing to do.
    pub(super) number: Option<u64>,
}

impl ArmApi {
    /// Adds the headers for following an operation to a response.
    pub(super) fn tracked(
        &self,
        request: &Request,
        response: HttpResponse,
        location: &str,
        operation: TrackedOperation,
    ) -> HttpResponse {
        let behavior = self.behavior();
        let id = format!("00000000-0000-4000-8000-{:012x}", self.number());
        lock(&self.tracked_operations).insert(id.clone(), operation);
        let place = format!("subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{location}");
        let address = format!("{}/{place}/operations/{id}", request.origin());
        let polling = format!("{address}?p=0&api-version=2024-07-01&{}", signature());
        let located = format!("{address}?p=0&monitor=true&api-version=2024-07-01&{}", signature());
        let response = match behavior.tracking {
            Tracking::AsyncOperation => response.header("azure-asyncoperation", polling).header("location", located),
            Tracking::Location => response.header("location", located),
            Tracking::None => response,
        };
        match behavior.retry_after {
            Some(seconds) if behavior.tracking != Tracking::None => response.header("retry-after", seconds),
            _ => response,
        }
    }

    /// `GET …/operations/{id}`
    pub(super) async fn follow(&self, request: &Request, id: &str) -> HandlerResult {
        let Some(operation) = lock(&self.tracked_operations).get(id).cloned() else {
            return Ok(error(404, "NotFound", &format!("The operation {id} was not found.")));
        };
        let monitored = request.parameter("monitor").is_some();
        let asked =
            self.core.call(CallKind::Follow, Some(&operation.group), id.to_owned(), errors::call_fault, |world, _| {
                match operation.number {
                    Some(number) => world.operation(&operation.group, number).map(|operation| operation.ending.clone()),
                    None => Some(Some((std::time::Duration::ZERO, Ending::Succeeded))),
                }
            });
        let Some(ending) = asked.await? else {
            return Ok(error(404, "NotFound", &format!("The operation {id} was not found.")));
        };
        let (status, failure) = match ending.as_ref().map(|(_, ending)| ending) {
            None => ("InProgress", None),
            Some(Ending::Succeeded) => ("Succeeded", None),
            Some(Ending::Failed(failure)) => ("Failed", Some(errors::within(&failure.code, &failure.message))),
            Some(Ending::Preempted) => ("Canceled", Some(preempted())),
        };
        if monitored {
            return Ok(match (status, failure) {
                ("InProgress", _) => self.patiently(HttpResponse::new(202)).header("location", echo(request)),
                (_, Some(failure)) => HttpResponse::json(409, &json!({"error": failure})),
                _ => HttpResponse::new(200),
            });
        }
        let mut body =
            json!({"name": id, "status": status, "startTime": timestamp(self.core.time(Default::default()))});
        if let Some((at, _)) = &ending {
            body["endTime"] = timestamp(self.core.time(*at)).into();
        }
        if let Some(failure) = failure {
            body["error"] = failure;
        }
        let response = HttpResponse::json(200, &body);
        Ok(if ending.is_none() { self.patiently(response) } else { response })
    }

    fn patiently(&self, response: HttpResponse) -> HttpResponse {
        match self.behavior().retry_after {
            Some(seconds) => response.header("retry-after", seconds),
            None => response,
        }
    }
}

fn preempted() -> serde_json::Value {
    let message = "Operation execution has been preempted by a more recent operation.";
    errors::within("OperationPreempted", message)
}

fn echo(request: &Request) -> String {
    format!("{}{}?{}", request.origin(), request.path, request.query)
}
