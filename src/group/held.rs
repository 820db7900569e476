//! Holding the response to a deletion for its outcome.
//!
//! Where the cloud finishes a deletion later, it may accept one and fail it some seconds afterwards. CA's taint stays
//! on the node of an accepted deletion, and CA then considers the group unhealthy for minutes, since the externalgrpc
//! client cannot report that the instance lives (`hasCloudProviderInstance` in CA's `clusterstate.go`). CA removes the
//! taint at once when DeleteNodes returns an error. So the response to a call that names real nodes waits a few seconds
//! for the outcome. Calls for fake nodes are not held: CA's main loop waits for those.
//!
//! A held response waits for the polls of its operation to end, and for its time. Where that operation fails, it also
//! waits for the read that shows which instances live on: one that cannot be deleted fails the operation of all.

use std::collections::BTreeSet;
use std::mem;

use serde::{Deserialize, Serialize};

use super::Group;
use super::limits::CALLER_WAITS;
use super::operation::OperationId;
use super::refusal::WriteError;
use super::request::Request;
use super::time::Time;
use crate::cloud::{CloudError, Failure, FailureClass, ProviderId};

/// A response that waits for the outcome of a deletion.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Held {
    request: Request,
    operation: OperationId,
    /// When it is given at the latest.
    pub until: Time,
}

impl Group {
    /// Responds to an accepted deletion: later, if it names nodes of the cluster.
    pub(super) fn hold(&mut self, request: Request, operation: OperationId) {
        if !request.mutation.names_registered_nodes() {
            return self.respond(&request, Ok(()));
        }
        let until = request.send_by.min(self.now + CALLER_WAITS);
        self.held.push(Held { request, operation, until });
    }

    /// Responds to those that wait for an operation which has succeeded, cannot be polled, or is sent once more because
    /// another one preempted it.
    pub(super) fn end_held(&mut self, operation: OperationId) {
        for held in self.take_held(operation) {
            self.respond(&held.request, Ok(()));
        }
    }

    /// A read shows which instances of a failed operation live on.
    pub(super) fn end_held_with(
        &mut self,
        operation: OperationId,
        failure: &Failure,
        survivors: &BTreeSet<ProviderId>,
    ) {
        for held in self.take_held(operation) {
            let outcome = self.failed_later(&held.request, failure, survivors);
            self.respond(&held.request, outcome);
        }
    }

    fn take_held(&mut self, operation: OperationId) -> Vec<Held> {
        self.held.extract_if(.., |held| held.operation == operation).collect()
    }

    /// Responds where a read shows that the instances are gone, although no poll has told: others have their IDs now.
    pub(super) fn end_held_of_replaced(&mut self) {
        let in_flight = self.state.in_flight();
        let is_gone = |held: &mut Held| in_flight.deleted_by(held.operation).is_none();
        for held in self.held.extract_if(.., is_gone).collect::<Vec<_>>() {
            self.respond(&held.request, Ok(()));
        }
    }

    /// Responds to those whose time is up.
    pub(super) fn release_held(&mut self) {
        let now = self.now;
        for held in self.held.extract_if(.., |held| held.until <= now).collect::<Vec<_>>() {
            let failure = self.state.in_flight().failed().find(|(operation, _)| *operation == held.operation);
            // Where no read shows in time which instances live on, it failed for all of them.
            let error = failure.map(|(_, failed)| self.refusal_of(&failed.failure));
            self.respond(&held.request, error.map_or(Ok(()), |error| Err(error.into())));
        }
    }

    /// The group no longer exists, and neither do its instances.
    pub(super) fn release_all_held(&mut self) {
        for held in mem::take(&mut self.held) {
            self.respond(&held.request, Ok(()));
        }
    }

    fn failed_later(
        &self,
        request: &Request,
        failure: &Failure,
        survivors: &BTreeSet<ProviderId>,
    ) -> Result<(), WriteError> {
        let named: BTreeSet<&ProviderId> = request.mutation.named().collect();
        let living: Vec<&ProviderId> = named.iter().copied().filter(|id| survivors.contains(*id)).collect();
        let error = self.refusal_of(failure);
        if living.is_empty() {
            Ok(())
        } else if living.len() == named.len() {
            Err(error.into())
        } else {
            Err(WriteError::PartlyRefused(living.into_iter().map(|id| (id.clone(), error.clone())).collect()))
        }
    }

    fn refusal_of(&self, failure: &Failure) -> CloudError {
        let message =
            format!("the cloud accepted the deletion, which then failed: {} {}", failure.code, failure.message);
        let group = self.state.observation().reading.name.as_str();
        match failure.class {
            FailureClass::OutOfResources => CloudError::conflict("delete_instances", group, message),
            FailureClass::Other => CloudError::refused("delete_instances", group, message),
        }
    }
}
