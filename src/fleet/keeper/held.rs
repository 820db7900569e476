//! Holding the response to a deletion for its outcome.
//!
//! Where the cloud finishes a deletion later, it may accept one and fail it some seconds afterwards. CA's taint stays on the node
//! of an accepted deletion, and CA then takes the group for unhealthy for minutes, since the externalgrpc client cannot tell it
//! that the instance lives (`hasCloudProviderInstance` in CA's `clusterstate.go`). CA removes the taint at once when
//! DeleteNodes returns an error. So the response to a call that names real nodes waits a few seconds for the outcome. Calls for
//! fake nodes are not held: CA's main loop waits for those.

use tokio::time::Instant;

use super::Keeper;
use crate::cloud::{CloudError, Failure, FailureClass};
use crate::fleet::error::FleetError;
use crate::fleet::limits::HOLD_MAX;
use crate::fleet::operation::OperationId;
use crate::fleet::plan::NodeKind;
use crate::fleet::request::{Mutation, Request};

/// A call whose deletion was accepted and whose response waits for the outcome.
#[derive(Debug)]
pub(super) struct HeldResponse {
    operation: OperationId,
    request: Request,
    until: Instant,
}

impl Keeper {
    /// Responds to an accepted deletion: later, if it names nodes of the cluster and the cloud can be polled for its outcome.
    pub(super) fn respond_accepted(&mut self, operation: OperationId, request: Request) {
        let is_polled =
            self.state.in_flight().operations().iter().any(|one| one.id == operation && one.running().is_some());
        if !is_polled || !names_registered_nodes(&request.mutation) {
            return request.respond(Ok(()));
        }
        let until = request.deadline.send_by.min(Instant::now() + HOLD_MAX);
        self.held.push(HeldResponse { operation, request, until });
    }

    /// Responds to the calls that wait for this operation.
    pub(super) fn respond_held(&mut self, operation: OperationId, failure: Option<&Failure>) {
        let (due, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|held| held.operation == operation);
        self.held = waiting;
        for held in due {
            let outcome = failure.map_or(Ok(()), |failure| Err(self.failed_later(failure)));
            held.request.respond(outcome);
        }
    }

    /// Responds to the calls that have waited long enough. The deletion was accepted, and goes on.
    pub(super) fn respond_overdue(&mut self, now: Instant) {
        let (due, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|held| held.until <= now);
        self.held = waiting;
        due.into_iter().for_each(|held| held.request.respond(Ok(())));
    }

    /// When the first response is due.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.until).min()
    }

    fn failed_later(&self, failure: &Failure) -> FleetError {
        let message = format!("the deletion was accepted, and failed: {} {}", failure.code, failure.message);
        let error = match failure.class {
            FailureClass::OutOfResources => CloudError::conflict("delete_instances", self.key.name.as_str(), message),
            FailureClass::Other => CloudError::refused("delete_instances", self.key.name.as_str(), message),
        };
        FleetError::Cloud { group: self.group_id(), error }
    }
}

fn names_registered_nodes(mutation: &Mutation) -> bool {
    matches!(mutation, Mutation::Delete(nodes) if nodes.iter().any(|node| node.kind == NodeKind::Registered))
}
