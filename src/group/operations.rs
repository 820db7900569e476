//! Seeing operations to their end. The cloud is polled beside the writes; what it reports is recorded here.

use std::collections::BTreeSet;

use super::Group;
use super::event::{Effect, Note, PollEnd, Scope};
use super::job::{Answer, Job, Progress, Resend, Work};
use super::limits::{FAILED_DELETION_LIFE, WATCH_EVERY};
use super::observation::Observation;
use super::operation::{Attempt, Failed, Operation, OperationId, OperationRequest, Phase};
use super::plan;
use super::reading::Need;
use super::refusal::WriteError;
use crate::cloud::{Failure, FailureClass, Instance, OperationHandle, ProviderId};

impl Group {
    /// Polls an accepted operation, where the cloud can be polled for it.
    pub(super) fn poll(&mut self, operation: OperationId, handle: Option<OperationHandle>) {
        self.effects.extend(handle.map(|handle| Effect::Poll(operation, handle)));
    }

    /// The polls of an operation have ended.
    pub(super) fn polled(&mut self, operation: OperationId, end: PollEnd) {
        // A poll for a write may have told it before.
        let is_running = |one: &Operation| one.id == operation && one.running().is_some();
        if !self.state.in_flight().operations().iter().any(is_running) {
            return;
        }
        match end {
            PollEnd::Succeeded => {
                self.log(Note::Finished(operation));
                self.state.succeed(operation, self.now);
                self.end_held(operation);
            }
            PollEnd::Unpollable => {
                self.state.stop_polling(operation, self.now);
                self.end_held(operation);
            }
            PollEnd::Failed(failure) => {
                self.log(Note::FailedLater(operation, failure.clone()));
                self.report_failed(operation, failure, BTreeSet::new());
            }
            PollEnd::Preempted => {
                self.preempted(operation);
                self.end_held(operation);
            }
        }
        self.read_soon();
    }

    /// The cloud preferred another operation. A deletion is sent once more. A new capacity is part of the group, and
    /// the other operation carries it out: no launch has failed.
    fn preempted(&mut self, operation: OperationId) {
        self.log(Note::Preempted(operation));
        let operations = self.state.in_flight().operations();
        let request = operations.iter().find(|candidate| candidate.id == operation).map(|preempted| &preempted.request);
        let resend = match request {
            Some(OperationRequest::Capacity { .. }) => return self.state.preempt(operation, self.now),
            Some(OperationRequest::Deletion { ids, attempt, .. })
                if *attempt == Attempt::First || self.has_written_since(operation) =>
            {
                ids.clone()
            }
            _ => BTreeSet::new(),
        };
        let failure = Failure {
            class: FailureClass::Other,
            code: "OperationPreempted".to_owned(),
            message: "another operation preempted it".to_owned(),
            at: self.cloud_time,
            is_explained: true,
            is_eviction: false,
        };
        self.report_failed(operation, failure, resend);
    }

    /// Whether a later write of ours runs or has finished: it may be what preempted this one.
    fn has_written_since(&self, operation: OperationId) -> bool {
        let has_run = |one: &Operation| one.is_polled() || matches!(one.phase, Phase::Succeeded(_));
        self.state.in_flight().operations().iter().any(|later| later.id > operation && has_run(later))
    }

    fn report_failed(&mut self, operation: OperationId, failure: Failure, resend: BTreeSet<ProviderId>) {
        self.state.report_failed(operation, Failed { failure, reported: self.now, resend });
    }

    /// The failures that were reported before these instances were read. Only such a list shows what a failed launch
    /// made all the same, and which instances of a failed deletion live. What a deletion left is noted to be sent again.
    pub(super) fn failures_before(&mut self, observation: &Observation) -> Vec<(OperationId, Failed)> {
        let is_due = |(_, one): &(OperationId, &Failed)| one.reported <= observation.detailed;
        let due = self.state.in_flight().failed().filter(is_due).map(|(operation, one)| (operation, one.clone()));
        let due: Vec<_> = due.collect();
        for (operation, failed) in &due {
            let until = failed.reported + FAILED_DELETION_LIFE;
            self.to_resend.extend(failed.resend.iter().map(|id| (id.clone(), until)));
            let ids = self.state.in_flight().deleted_by(*operation);
            // Where a later deletion named them too and failed, CA has to name them again: there may be no room for
            // them any more.
            if let Some(ids) = ids.filter(|_| failed.resend.is_empty()).cloned() {
                self.to_resend.retain(|id, _| !ids.contains(id));
                self.state.leave_out_of_resend(&ids);
            }
        }
        due
    }

    /// Whether an operation was reported as failed, and no list of instances is younger than the report.
    pub(super) fn has_failed(&self) -> bool {
        self.state.in_flight().failed().next().is_some()
    }

    /// Records failed operations in the state, and tells the held responses which instances live on.
    pub(super) fn fail(&mut self, failures: &[(OperationId, Failed)], observation: &Observation) {
        for (operation, Failed { failure, .. }) in failures {
            let named = self.state.in_flight().deleted_by(*operation).cloned().unwrap_or_default();
            self.state.fail(*operation, failure, observation.clone());
            let (in_flight, instances) = (self.state.in_flight(), &self.state.observation().instances);
            let lives = |one: &&Instance| named.contains(&one.id) && !in_flight.is_leaving(one);
            let survivors = instances.iter().filter(lives).map(|one| one.id.clone()).collect();
            self.end_held_with(*operation, failure, &survivors);
        }
    }

    /// Deletes once more what a preempted deletion left. Until then it is reported as being deleted.
    pub(super) fn resend_job(&mut self) -> Option<Job> {
        if self.to_resend.is_empty() {
            return None;
        }
        if self.due_again().is_empty() {
            self.resent();
            return None;
        }
        Some(Job::of_our_own(Work::Resend(Resend::Read), self.now))
    }

    /// Goes on with sending a preempted deletion again.
    pub(super) fn resend(&mut self, mut job: Progress, step: Resend) {
        match step {
            // Only a new list shows that these are still the same instances: the group may have been created again (law
            // 7).
            Resend::Read => match self.need(&mut job, Scope::Instances) {
                Need::Waiting => self.job = Some(Job { work: Work::Resend(Resend::Read), progress: job }),
                Need::Failed(error) => self.not_resent(error),
                Need::Met => match self.send_again(&mut job) {
                    Ok(true) => self.job = Some(Job { work: Work::Resend(Resend::Sent), progress: job }),
                    Ok(false) => self.resent(),
                    Err(error) => self.not_resent(error),
                },
            },
            Resend::Sent => match job.take_answer() {
                Answer::Deletion(_, Err(error)) => self.not_resent(error.into()),
                Answer::Deletion(_, Ok(deletion)) => match deletion.refused.into_iter().next() {
                    Some((_, error)) if deletion.accepted.is_empty() => self.not_resent(error.into()),
                    _ => self.resent(),
                },
                _ => self.resent(),
            },
        }
    }

    /// Whether anything was sent.
    fn send_again(&mut self, job: &mut Progress) -> Result<bool, WriteError> {
        let ids = self.due_again();
        if ids.is_empty() {
            return Ok(false);
        }
        plan::permits_again(&self.state, &self.to_resend)?;
        self.send_deletion(job, ids, BTreeSet::new(), true, Vec::new());
        Ok(true)
    }

    fn not_resent(&mut self, error: WriteError) {
        let ids = self.to_resend.keys().cloned().collect();
        if error.may_pass() && self.to_resend.values().any(|until| self.now < *until) {
            self.log(Note::NotResentYet(ids, Box::new(error)));
            return self.read_by(self.now + WATCH_EVERY);
        }
        self.log(Note::NotResent(ids, Box::new(error)));
        self.resent();
    }

    fn resent(&mut self) {
        self.to_resend.clear();
        self.publish();
    }

    /// What a preempted deletion left, together with all that other deletions under way name: by themselves those would
    /// be preempted by this one, and so on forever. Nothing if the preempted one left nothing.
    fn due_again(&self) -> Vec<ProviderId> {
        let (in_flight, instances) = (self.state.in_flight(), &self.state.observation().instances);
        let is_left = |one: &Instance| self.to_resend.contains_key(&one.id) && !in_flight.is_leaving(one);
        if !instances.iter().any(is_left) {
            return Vec::new();
        }
        // What may live on is not deleted a second time before its outcome shows (law 7).
        let is_over = |id: &ProviderId| in_flight.is_unsettled(id) || in_flight.is_deleted(id);
        let is_running = |one: &Instance| in_flight.deletes(&one.id) && !is_over(&one.id);
        let due = instances.iter().filter(|one| is_running(one) || is_left(one));
        due.map(|instance| instance.id.clone()).collect()
    }
}
