//! Sending writes, and finding out what became of them.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::Group;
use super::event::{Effect, Note, Scope};
use super::job::{Answer, Call, CapacityOutcome, Job, Progress, SentCapacity, SentDeletion, Work};
use super::operation::Attempt;
use super::plan::{self, Replacing};
use super::reading::Need;
use super::refusal::WriteError;
use super::request::RequestKey;
use super::state::{CapacityWrite, DeletionWrite, WriteReason};
use crate::cloud::{Acceptance, CloudError, Consistency, Counts, Deletion, GroupReading, OperationHandle, ProviderId};

impl Group {
    /// Sends one capacity write, computed on what was read fresh. Launches in flight are no part of it.
    pub(super) fn send_capacity(
        &mut self,
        job: &mut Progress,
        to: u32,
        reason: WriteReason,
        requests: Vec<RequestKey>,
    ) -> Result<(), WriteError> {
        let Some(fresh) = job.take_fresh() else {
            debug_assert!(false, "a write without a fresh read (law 2)");
            return Err(WriteError::Contended("it was not read".to_owned()));
        };
        let basis = fresh.basis;
        let from = self.state.in_flight().written_capacity(&basis);
        self.permit_write(format!("set the capacity from {from} to {to}"))?;
        let operation = self.next_operation();
        self.log(Note::SettingCapacity(operation, from, to));
        let sent = SentCapacity {
            operation,
            from,
            to,
            reason,
            sent: self.cloud_time,
            sent_at: self.now,
            without_room: self.state.without_room(),
        };
        self.state.send_capacity();
        job.call = Some(Call::Capacity(sent));
        self.effects.push(Effect::SetCapacity { basis: Box::new(basis), to, requests });
        Ok(())
    }

    /// What the job has waited for.
    pub(super) fn take_call(&mut self) -> Option<Call> {
        self.job.as_mut()?.progress.call.take()
    }

    /// The cloud responded to a capacity write.
    pub(super) fn capacity_written(&mut self, outcome: Result<Acceptance, CloudError>) {
        let Some(Call::Capacity(sent)) = self.take_call() else { return };
        self.written = Some(self.now);
        let operation = sent.operation;
        let answer = match outcome {
            Ok(acceptance) => {
                self.capacity_accepted(sent, acceptance.handle);
                Answer::Capacity(CapacityOutcome::Accepted)
            }
            Err(error) if error.outcome_unknown() => {
                self.log(Note::CapacityLost(operation, error.clone()));
                self.unsettled_until = Some(self.now + Consistency::LAG);
                Answer::CapacityLost(sent, self.now, error)
            }
            Err(error) if error.may_be_repeated() => {
                // The error that its caller gets says how it ended.
                if self.job.as_ref().is_none_or(|job| job.progress.attempts.is_first()) {
                    self.log(Note::CapacityBusy(operation, error.clone()));
                }
                Answer::Capacity(CapacityOutcome::Retry(error))
            }
            Err(error) => {
                self.log(Note::CapacityRefused(operation, error.clone()));
                Answer::Capacity(CapacityOutcome::Failed(error.into()))
            }
        };
        if let Some(job) = &mut self.job {
            job.progress.answer = answer;
        }
    }

    fn capacity_accepted(&mut self, sent: SentCapacity, handle: Option<OperationHandle>) {
        // No read shows a scale-up sooner than its polls do, or than its launches begin: `plan_read` plans for these.
        let is_seen_by_itself = sent.to > sent.from && sent.reason == WriteReason::Requested;
        let (operation, write) = (sent.operation, sent.write(self.now, self.cloud_time, handle.clone()));
        self.state.accept_capacity(operation, write);
        self.publish();
        self.poll(operation, handle);
        if !is_seen_by_itself {
            self.read_soon();
        }
    }

    /// What became of the job's capacity write; `None` while that is being read.
    ///
    /// If the response was lost, a read that shows its capacity shows that it took effect. Otherwise the outcome stays
    /// unknown: the write may still take effect, so the group is read often until it cannot any more.
    pub(super) fn capacity_outcome(&mut self, job: &mut Progress) -> Option<CapacityOutcome> {
        let (sent, answered, error) = match job.take_answer() {
            Answer::Capacity(outcome) => return Some(outcome),
            Answer::CapacityLost(sent, answered, error) => (sent, answered, error),
            _ => return None,
        };
        let is_read = match self.need(job, Scope::Capacity) {
            Need::Waiting => {
                job.answer = Answer::CapacityLost(sent, answered, error);
                return None;
            }
            Need::Met => true,
            Need::Failed(_) => false,
        };
        let shown = &self.state.observation().reading;
        let (is_shown, is_conditional) = (is_read && shown.desired == sent.to, shown.consistency.is_guarded());
        if !is_shown {
            let sent_at = sent.sent_at;
            self.state.lose_capacity(&sent.write(answered, self.cloud_time, None), sent_at);
            self.plan_read();
            if !is_read {
                // The write may still undo what others do, and only what a read shows is raised back to.
                self.read_soon();
            }
            return Some(CapacityOutcome::Failed(WriteError::OutcomeUnknown(error.to_string())));
        }
        self.log(Note::CapacityTookEffect(sent.operation, sent.to));
        self.unsettled_until = None;
        if is_conditional {
            // A read that fulfils a precondition cannot be older than the write: there is nothing left to wait for.
            self.state.finish_capacity(sent.write(answered, self.cloud_time, None));
            self.publish();
        } else {
            // An earlier write of the same capacity may be what the read shows, and this one may land later.
            let (operation, sent_at) = (sent.operation, sent.sent_at);
            let write = sent.write(answered, self.cloud_time, None);
            self.state.lose_capacity(&write, sent_at);
            self.state.accept_capacity(operation, write);
            self.publish();
            self.read_soon();
        }
        Some(CapacityOutcome::Accepted)
    }

    /// Sends one deletion, computed on what was read fresh. Others are to be launched in the place of those that are
    /// `replaced`: by the cloud, whose capacity their deletion does not lower, or by us.
    pub(super) fn send_deletion(
        &mut self,
        job: &mut Progress,
        ids: Vec<ProviderId>,
        replaced: BTreeSet<ProviderId>,
        is_resent: bool,
        requests: Vec<RequestKey>,
    ) {
        let Some(fresh) = job.take_fresh() else {
            debug_assert!(false, "a write without a fresh read (law 2)");
            return;
        };
        // The cloud gets the instances that this was decided on: AWS's call for one instance does not name the group.
        let mut kept = plan::not_lowering(&self.state, &ids);
        let mut owed = BTreeSet::new();
        match plan::replacing(&fresh.basis) {
            Some(Replacing::ByCloud) => kept.extend(replaced),
            Some(Replacing::ByRaising) => owed = replaced,
            None => {}
        }
        let mut instances = self.state.observation().instances.clone();
        instances.iter_mut().filter(|one| kept.contains(&one.id)).for_each(|one| one.counts = Counts::No);
        let basis = Box::new(GroupReading { instances: Some(instances), ..fresh.basis });
        let operation = self.next_operation();
        self.log(Note::Deleting(operation, ids.clone()));
        self.state.send_deletion(&ids, kept, self.now);
        self.effects.push(Effect::Delete { basis, ids: ids.clone(), requests });
        let sent = self.cloud_time;
        job.call = Some(Call::Deletion(SentDeletion { operation, ids, is_resent, sent, owed }));
    }

    /// The cloud responded to a deletion: it accepted, refused or lost each instance (law 7).
    pub(super) fn deleted(&mut self, outcome: Result<Deletion, CloudError>) {
        let Some(Call::Deletion(sent)) = self.take_call() else { return };
        self.written = Some(self.now);
        match &outcome {
            Ok(deletion) => {
                for (id, error) in &deletion.refused {
                    self.log(Note::NotDeleted(sent.operation, id.clone(), error.clone()));
                }
                let refused = deletion.refused.iter().filter(|(_, error)| !error.outcome_unknown());
                self.state.refuse_deletion(refused.map(|(id, _)| id));
                self.record_deletion(&sent, deletion);
            }
            Err(error) if error.outcome_unknown() => {
                self.log(Note::DeletionLost(sent.operation, error.clone()));
                let ids: BTreeSet<ProviderId> = sent.ids.iter().cloned().collect();
                let owed = sent.owed_for(&ids);
                self.state.lose_deletion(sent.operation, ids, sent.sent, self.now);
                self.state.owe(sent.operation, owed);
            }
            Err(_) => self.state.refuse_deletion(&sent.ids),
        }
        self.publish();
        self.read_soon();
        if let Some(job) = &mut self.job {
            job.progress.answer = Answer::Deletion(sent, outcome);
        }
    }

    fn record_deletion(&mut self, sent: &SentDeletion, deletion: &Deletion) {
        if !deletion.accepted.is_empty() {
            let write = DeletionWrite {
                ids: deletion.accepted.iter().cloned().collect(),
                sent: sent.sent,
                accepted: self.now,
                handle: deletion.handle.clone(),
                attempt: if sent.is_resent { Attempt::Second } else { Attempt::First },
            };
            let owed = sent.owed_for(&write.ids);
            self.state.accept_deletion(sent.operation, write);
            self.state.owe(sent.operation, owed);
            self.poll(sent.operation, deletion.handle.clone());
        }
        // What the cloud reports as gone or being deleted is so from now on, even if a read lags behind.
        if !deletion.already_gone.is_empty() {
            let operation = self.next_operation();
            self.state.note_leaving(operation, &deletion.already_gone, sent.sent, self.now);
        }
        let lost = deletion.refused.iter().filter(|(_, error)| error.outcome_unknown());
        let lost: BTreeSet<ProviderId> = lost.map(|(id, _)| id.clone()).collect();
        if !lost.is_empty() {
            let (operation, owed) = (self.next_operation(), sent.owed_for(&lost));
            self.state.lose_deletion(operation, lost, sent.sent, self.now);
            self.state.owe(operation, owed);
        }
    }

    /// Goes on with the job.
    pub(super) fn advance(&mut self, job: Job) {
        let Job { work, progress: mut job } = job;
        match work {
            Work::Batch(batch) => {
                self.carry_out(job, batch);
                if self.job.is_none() {
                    self.settle();
                }
            }
            Work::Resend(step) => self.resend(job, step),
            Work::Undo(undo) => self.undo(job, undo),
            Work::Replace(step) => self.replace(job, step),
            Work::Lower(mut lowering) => match self.lower(&mut job, &mut lowering, &[]) {
                None => self.job = Some(Job { work: Work::Lower(lowering), progress: job }),
                Some(Ok(())) => {}
                Some(Err(error)) => self.log(Note::StillDeferred(Box::new(error))),
            },
        }
    }
}

impl SentCapacity {
    fn write(self, accepted: super::Time, answered: SystemTime, handle: Option<OperationHandle>) -> CapacityWrite {
        let Self { from, to, reason, sent, without_room, .. } = self;
        CapacityWrite { from, to, reason, accepted, sent, answered, without_room, handle }
    }
}
