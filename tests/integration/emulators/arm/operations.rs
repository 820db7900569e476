//! Operations that go on after their request was answered.

use headcount::clouds::simulated::{CallKind, Ending, SUBSCRIPTION};
use serde_json::json;

use super::super::backstage::lock;
use super::super::exchange::{Answer, Outcome, Request};
use super::errors::{self, error};
use super::front::Window;
use super::habits::Tracking;

/// What an operation's ID stands for.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) group: String,
    /// `None` where there was nothing to do.
    pub(super) number: Option<u64>,
}

impl Window {
    /// Adds to an answer how its operation can be followed.
    pub(super) fn tracked(&self, request: &Request, answer: Answer, location: &str, ticket: Ticket) -> Answer {
        let habits = self.habits();
        let id = format!("00000000-0000-4000-8000-{:012x}", self.number());
        lock(&self.tickets).insert(id.clone(), ticket);
        let place = format!("subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{location}");
        let address = format!("{}/{place}/operations/{id}", request.origin());
        let polling = format!("{address}?p=0&t=1&api-version=2024-07-01");
        let located = format!("{address}?p=0&monitor=true&api-version=2024-07-01");
        let answer = match habits.tracking {
            Tracking::AsyncOperation => answer.header("azure-asyncoperation", polling).header("location", located),
            Tracking::Location => answer.header("location", located),
            Tracking::None => answer,
        };
        match habits.retry_after {
            Some(seconds) if habits.tracking != Tracking::None => answer.header("retry-after", seconds),
            _ => answer,
        }
    }

    /// `GET …/operations/{id}`
    pub(super) async fn follow(&self, request: &Request, id: &str) -> Outcome {
        let Some(ticket) = lock(&self.tickets).get(id).cloned() else {
            return Ok(error(404, "NotFound", &format!("The operation {id} was not found.")));
        };
        let monitored = request.parameter("monitor").is_some();
        let asked =
            self.backstage.call(CallKind::Follow, Some(&ticket.group), id.to_owned(), errors::mishap, |world, _| {
                match ticket.number {
                    Some(number) => world.operation(&ticket.group, number).map(|operation| operation.ending.clone()),
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
                ("InProgress", _) => self.patiently(Answer::new(202)).header("location", echo(request)),
                (_, Some(failure)) => Answer::json(409, &json!({"error": failure})),
                _ => Answer::new(204),
            });
        }
        let mut body = json!({"name": id, "status": status, "startTime": self.backstage.timestamp(Default::default())});
        if let Some((at, _)) = &ending {
            body["endTime"] = self.backstage.timestamp(*at).into();
        }
        if let Some(failure) = failure {
            body["error"] = failure;
        }
        let answer = Answer::json(200, &body);
        Ok(if ending.is_none() { self.patiently(answer) } else { answer })
    }

    fn patiently(&self, answer: Answer) -> Answer {
        match self.habits().retry_after {
            Some(seconds) => answer.header("retry-after", seconds),
            None => answer,
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
