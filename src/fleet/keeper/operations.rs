//! Seeing operations to their end. The cloud is polled beside the keeper; what it reports is recorded here.

use std::collections::BTreeSet;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Keeper;
use super::attempts::Attempts;
use super::side::PollEnd;
use crate::cloud::{Failure, FailureClass, Instance, OperationHandle, ProviderId};
use crate::fleet::error::FleetError;
use crate::fleet::limits::{HEAL_READ_EVERY, OWN_WRITE_LIMIT, RESUBMIT_LIMIT};
use crate::fleet::observation::Observation;
use crate::fleet::operation::{Operation, OperationId, OperationRequest, Phase};
use crate::fleet::plan;

/// Instances named in one line of the log.
const IDS_LOGGED: usize = 10;

/// An operation that the cloud reports as failed. An observation younger than the report shows what it left behind.
#[derive(Debug)]
pub(super) struct FailedOperation {
    pub operation: OperationId,
    pub failure: Failure,
    reported: Instant,
    /// What is deleted once more after the observation: another operation preempted it.
    resubmit: BTreeSet<ProviderId>,
}

impl Keeper {
    /// Polls an accepted operation, where the cloud can be polled for it. Returns where its end shows.
    pub(super) fn follow(
        &mut self,
        operation: OperationId,
        handle: Option<OperationHandle>,
    ) -> Option<watch::Receiver<Option<PollEnd>>> {
        let group = self.group_id();
        self.look_soon();
        handle.map(|handle| self.side.poll(&self.context.cloud, group, operation, handle))
    }

    /// The polls of an operation have ended.
    pub(super) fn polled(&mut self, operation: OperationId, end: PollEnd) {
        if !matches!(end, PollEnd::Failed(_)) {
            self.held.remove(&operation);
        }
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
        tracing::warn!(group = %self.group_id(), %operation, "another operation preempted an operation of the node group");
        let operations = self.state.in_flight().operations();
        let request = operations.iter().find(|candidate| candidate.id == operation).map(|preempted| &preempted.request);
        let resubmit = match request {
            Some(OperationRequest::Capacity { .. }) => return self.state.succeed(operation, Instant::now()),
            Some(OperationRequest::Deletion { ids, is_resubmitted, .. })
                if !is_resubmitted || self.has_written_since(operation) =>
            {
                ids.clone()
            }
            _ => BTreeSet::new(),
        };
        let failure = Failure {
            class: FailureClass::Other,
            code: "OperationPreempted".to_owned(),
            message: "another operation preempted it".to_owned(),
            at: self.context.cloud.now(),
            is_explained: true,
            is_eviction: false,
        };
        self.report_failed(operation, failure, resubmit);
    }

    /// Whether a later write of ours runs or has finished: it may be what preempted this one.
    fn has_written_since(&self, operation: OperationId) -> bool {
        let is_polled = |one: &Operation| matches!(one.phase, Phase::Running(_) | Phase::Succeeded(_));
        self.state.in_flight().operations().iter().any(|later| later.id > operation && is_polled(later))
    }

    fn report_failed(&mut self, operation: OperationId, failure: Failure, resubmit: BTreeSet<ProviderId>) {
        self.failed.push(FailedOperation { operation, failure, reported: Instant::now(), resubmit });
    }

    /// The failures that were reported before this was read. What they were to delete is noted to be sent again: only a list that was
    /// read after the report shows which of it lives.
    pub(super) fn take_failed(&mut self, observation: &Observation) -> Vec<FailedOperation> {
        let is_due = |one: &FailedOperation| {
            let is_deletion = self.state.in_flight().deleted_by(one.operation).is_some();
            one.reported <= if is_deletion { observation.detailed } else { observation.begun }
        };
        let (due, later) = std::mem::take(&mut self.failed).into_iter().partition(is_due);
        self.failed = later;
        let due: Vec<FailedOperation> = due;
        for failed in &due {
            self.to_resubmit.extend(failed.resubmit.iter().cloned());
            if !failed.resubmit.is_empty() {
                self.resubmit_until = Some(failed.reported + RESUBMIT_LIMIT);
            }
            let ids = self.state.in_flight().deleted_by(failed.operation);
            // Where a later deletion named them too and failed, CA has to name them again: there may be no room for them any more.
            if let Some(ids) = ids.filter(|_| failed.resubmit.is_empty()) {
                self.to_resubmit.retain(|id| !ids.contains(id));
                self.failed.iter_mut().for_each(|waiting| waiting.resubmit.retain(|id| !ids.contains(id)));
            }
        }
        due
    }

    /// Whether a deletion was reported as failed that no list of instances is younger than.
    pub(super) fn has_failed_deletion(&self) -> bool {
        self.failed.iter().any(|failed| self.state.in_flight().deleted_by(failed.operation).is_some())
    }

    /// Records failed operations in the state, and tells the held responses which instances live on.
    pub(super) fn fail(&mut self, reported: &[FailedOperation], observation: &Observation) {
        let names = self.placeholder_names_of(observation);
        for failed in reported {
            let named = self.state.in_flight().deleted_by(failed.operation).cloned();
            self.state.fail(failed.operation, &failed.failure, observation.clone(), &names);
            let waiting = self.held.remove(&failed.operation);
            if let Some((named, waiting)) = named.zip(waiting) {
                let (in_flight, instances) = (self.state.in_flight(), &self.state.observation().instances);
                let lives = |one: &&Instance| named.contains(&one.id) && !in_flight.is_leaving(one);
                waiting.send_replace(Some(instances.iter().filter(lives).map(|one| one.id.clone()).collect()));
            }
        }
    }

    /// Deletes once more what a preempted deletion left. Until then it is reported as being deleted.
    pub(super) async fn resubmit(&mut self) {
        let now = Instant::now();
        let Some(until) = self.resubmit_until.filter(|_| !self.to_resubmit.is_empty()) else { return };
        if !self.due_again().is_empty()
            && let Err(error) = self.send_again().await
        {
            let ids: Vec<&str> = self.to_resubmit.iter().take(IDS_LOGGED).map(ProviderId::as_str).collect();
            if error.may_pass() && now < until {
                tracing::warn!(group = %self.group_id(), %error, ?ids, "a preempted deletion could not be sent again yet");
                return self.look_by(now + HEAL_READ_EVERY);
            }
            tracing::warn!(group = %self.group_id(), %error, ?ids, "a preempted deletion could not be sent again; its nodes live on");
        }
        self.to_resubmit.clear();
        self.publish();
    }

    async fn send_again(&mut self) -> Result<(), FleetError> {
        let mut attempts = Attempts::until(Instant::now() + OWN_WRITE_LIMIT);
        // Only a new list shows that these are still the same instances: the group may have been created again (law 7).
        let fresh = self.fresh_instances(&mut attempts).await?.into();
        let ids = self.due_again();
        if !ids.is_empty() {
            plan::permits_again(&self.state, &self.to_resubmit)
                .map_err(|refusal| FleetError::Refused { group: self.group_id(), refusal })?;
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
        // What may live on is not deleted a second time before its outcome shows (law 7).
        let is_running = |one: &Instance| in_flight.deletes(&one.id) && !in_flight.is_unsettled(&one.id);
        let due = instances.iter().filter(|one| is_running(one) || is_left(one));
        due.map(|instance| instance.id.clone()).collect()
    }
}
