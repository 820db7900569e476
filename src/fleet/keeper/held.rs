//! Holding the response to a deletion for its outcome.
//!
//! Where the cloud finishes a deletion later, it may accept one and fail it some seconds afterwards. CA's taint stays on the node
//! of an accepted deletion, and CA then takes the group for unhealthy for minutes, since the externalgrpc client cannot tell it
//! that the instance lives (`hasCloudProviderInstance` in CA's `clusterstate.go`). CA removes the taint at once when
//! DeleteNodes returns an error. So the response to a call that names real nodes waits a few seconds for the outcome. Calls for
//! fake nodes are not held: CA's main loop waits for those.
//!
//! The keeper goes on meanwhile. A held response waits for the poll of its operation and for its time, and for nothing else.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::side::PollEnd;
use crate::cloud::{CloudError, Failure, FailureClass};
use crate::fleet::error::FleetError;
use crate::fleet::limits::HOLD_MAX;
use crate::fleet::plan::NodeKind;
use crate::fleet::request::{Mutation, Request};
use crate::fleet::snapshot::GroupKey;

/// The end of an operation's polls, once it has come.
pub(super) type Outcome = watch::Receiver<Option<PollEnd>>;

/// Responds to an accepted deletion: later, if it names nodes of the cluster and the cloud is polled for its outcome.
pub(super) fn respond(request: Request, outcome: Option<Outcome>, group: Arc<str>, key: GroupKey) {
    let Some(outcome) = outcome.filter(|_| names_registered_nodes(&request.mutation)) else {
        return request.respond(Ok(()));
    };
    let until = request.deadline.send_by.min(Instant::now() + HOLD_MAX);
    tokio::spawn(async move {
        let response = match end_by(outcome, until).await {
            Some(PollEnd::Failed(failure)) => Err(failed_later(group, &key, &failure)),
            // It goes on, or it succeeded; one that the cloud dropped in favour of another operation is sent once more.
            _ => Ok(()),
        };
        request.respond(response);
    });
}

/// How the polls end, if they end by then.
async fn end_by(mut outcome: Outcome, until: Instant) -> Option<PollEnd> {
    let end = timeout_at(until, outcome.wait_for(Option::is_some)).await;
    end.ok()?.ok()?.clone()
}

fn failed_later(group: Arc<str>, key: &GroupKey, failure: &Failure) -> FleetError {
    let message = format!("the deletion was accepted, and failed: {} {}", failure.code, failure.message);
    let error = match failure.class {
        FailureClass::OutOfResources => CloudError::conflict("delete_instances", key.name.as_str(), message),
        FailureClass::Other => CloudError::refused("delete_instances", key.name.as_str(), message),
    };
    FleetError::Cloud { group, error }
}

fn names_registered_nodes(mutation: &Mutation) -> bool {
    matches!(mutation, Mutation::Delete(nodes) if nodes.iter().any(|node| node.kind == NodeKind::Registered))
}
