//! Seeing operations to their end. The cloud is polled beside the keeper; what it reports is recorded here.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::Keeper;
use super::attempts::Attempts;
use super::held::Outcome;
use super::side::PollEnd;
use crate::cloud::{Failure, FailureClass, Instance, OperationHandle, ProviderId};
use crate::fleet::error::FleetError;
use crate::fleet::limits::OWN_WRITE_LIMIT;
use crate::fleet::operation::{Operation, OperationId, OperationRequest, Phase};

/// An operation that the cloud reports as failed. An observation younger than the report shows what it left behind.
#[derive(Debug)]
pub(super) struct FailedOperation {
    pub operation: OperationId,
    pub failure: Failure,
    reported: Instant,
    /// What is deleted once more after the observation: the cloud preferred another operation.
    resubmit: BTreeSet<ProviderId>,
}

impl Keeper {
    /// Polls an accepted operation, where the cloud can be polled for it. Returns where its end shows.
    pub(super) fn follow(&mut self, operation: OperationId, handle: Option<OperationHandle>) -> Option<Outcome> {
        let group = self.group_id();
        self.look_soon();
        handle.map(|handle| self.side.poll(&self.context.cloud, group, operation, handle))
    }

    /// The polls of an operation have ended.
    pub(super) fn polled(&mut self, operation: OperationId, end: PollEnd) {
        match end {
            PollEnd::Succeeded => {
                tracing::info!(group = %self.group_id(), %operation, "operation finished");
                self.state.succeed(operation, Instant::now());
            }
            PollEnd::Unpollable => self.state.stop_polling(operation, Instant::now()),
            PollEnd::Failed(failure) => {
                tracing::warn!(
                    group = %self.group_id(), %operation, code = %failure.code, message = %failure.message,
                    "the cloud accepted the operation, and it failed later"
                );
                self.report_failed(operation, failure, BTreeSet::new());
            }
            PollEnd::Preempted => self.preempted(operation),
        }
        self.look_soon();
    }

    /// The cloud preferred another operation. A deletion is sent once more. A new capacity is part of the group, and the other operation
    /// carries it out: no launch has failed.
    fn preempted(&mut self, operation: OperationId) {
        tracing::warn!(group = %self.group_id(), %operation, "the cloud dropped the operation in favour of another one");
        let operations = self.state.in_flight().operations();
        let request = operations.iter().find(|candidate| candidate.id == operation).map(|preempted| &preempted.request);
        let resubmit = match request {
            Some(OperationRequest::Capacity { .. }) => return self.state.succeed(operation, Instant::now()),
            Some(OperationRequest::Deletion { ids, is_resubmitted, .. })
                if !is_resubmitted || self.has_deleted_since(operation) =>
            {
                ids.clone()
            }
            _ => BTreeSet::new(),
        };
        let failure = Failure {
            class: FailureClass::Other,
            code: "OperationPreempted".to_owned(),
            message: "the cloud preferred another operation".to_owned(),
            at: self.context.cloud.now(),
            is_explained: true,
            is_eviction: false,
        };
        self.report_failed(operation, failure, resubmit);
    }

    /// Whether a later deletion of ours runs or has finished: it may be what a cloud dropped this one for.
    fn has_deleted_since(&self, operation: OperationId) -> bool {
        let is_polled = |one: &Operation| matches!(one.phase, Phase::Running(_) | Phase::Succeeded(_));
        let mut operations = self.state.in_flight().operations().iter();
        operations.any(|later| later.id > operation && later.deletes().is_some() && is_polled(later))
    }

    fn report_failed(&mut self, operation: OperationId, failure: Failure, resubmit: BTreeSet<ProviderId>) {
        self.failed.push(FailedOperation { operation, failure, reported: Instant::now(), resubmit });
    }

    /// The failures that were reported before a read that began then. What they were to delete is noted to be sent again.
    pub(super) fn take_failed(&mut self, begun: Instant) -> Vec<FailedOperation> {
        let (due, later) =
            std::mem::take(&mut self.failed).into_iter().partition(|one: &FailedOperation| one.reported <= begun);
        self.failed = later;
        let due: Vec<FailedOperation> = due;
        for failed in &due {
            self.to_resubmit.extend(failed.resubmit.iter().cloned());
            let operations = self.state.in_flight().operations();
            let ids = operations.iter().find(|one| one.id == failed.operation).and_then(Operation::deletes);
            // Where a later deletion named them too and failed, CA has to name them again: there may be no room for them any more.
            if let Some(ids) = ids.filter(|_| failed.resubmit.is_empty()) {
                self.to_resubmit.retain(|id| !ids.contains(id));
            }
        }
        due
    }

    /// Deletes once more what a preempted deletion left. Until then it is reported as being deleted.
    pub(super) async fn resubmit(&mut self) {
        if self.to_resubmit.is_empty() {
            return;
        }
        if !self.due_again().is_empty()
            && let Err(error) = self.send_again().await
        {
            tracing::warn!(group = %self.group_id(), %error, "a deletion that the cloud dropped could not be sent again");
        }
        self.to_resubmit.clear();
        self.publish();
    }

    async fn send_again(&mut self) -> Result<(), FleetError> {
        let mut attempts = Attempts::until(Instant::now() + OWN_WRITE_LIMIT);
        let fresh = self.fresh(&mut attempts).await?;
        let ids = self.due_again();
        if !ids.is_empty() {
            self.write_deletion(fresh, &ids, true).await.map_err(|error| self.cloud_error(error))?;
        }
        Ok(())
    }

    /// What a preempted deletion left, together with all that other deletions under way name: by themselves those would be preempted
    /// by this one, and so on forever. Nothing if the preempted one left nothing.
    fn due_again(&self) -> Vec<ProviderId> {
        let (in_flight, instances) = (self.state.in_flight(), &self.state.observation().instances);
        let is_left = |one: &Instance| self.to_resubmit.contains(&one.id) && !in_flight.is_leaving(one);
        if !instances.iter().any(is_left) {
            return Vec::new();
        }
        let due = instances.iter().filter(|one| in_flight.deletes(&one.id) || is_left(one));
        due.map(|instance| instance.id.clone()).collect()
    }
}
