//! Deleting instances: one call for a batch, and a response to every caller.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Group;
use super::event::{Note, Scope};
use super::job::{Answer, CapacityOutcome, Progress, SentDeletion};
use super::limits::OPERATIONS;
use super::observation::count;
use super::reading::Need;
use super::refusal::WriteError;
use super::removal::{Removal, requests};
use super::replace::RoomFirst;
use super::request::{Mutation, Request, RequestKey};
use crate::cloud::{CloudError, Deletion, Instance, InstanceState, ProviderId};

/// Calls whose instances are being deleted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Deleting {
    removals: Vec<Removal>,
    step: Step,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Step {
    /// What they name is checked against what is known.
    Check,
    /// The capacity is being read.
    Read,
    /// Room is being made for the instances that take the place of those to be deleted.
    Raised,
    /// The deletion was sent.
    Sent,
    /// The response to a part of it was lost, with this error; a read may show what became of it.
    LostInPart(SentDeletion, Deletion),
    /// No response came.
    Lost(Vec<ProviderId>, CloudError),
}

impl Deleting {
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.removals.iter().map(|removal| &removal.request)
    }

    pub(super) fn withdraw(&mut self, withdrawn: &BTreeSet<RequestKey>) {
        self.removals.retain(|removal| !withdrawn.contains(&removal.request.key));
    }
}

impl Group {
    /// Responds to the removals that delete nothing, and returns the others.
    pub(super) fn deletions_of(&mut self, removals: Vec<Removal>) -> Deleting {
        let (deletions, rest): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !removal.plan.instances.is_empty());
        self.note_leaving(&rest);
        for removal in rest {
            if matches!(removal.request.mutation, Mutation::Decrease(_)) && removal.plan.placeholders.is_empty() {
                self.log(Note::NothingToDecrease);
            }
            self.respond(&removal.request, Ok(()));
        }
        Deleting { removals: self.committed_removals(deletions), step: Step::Check }
    }

    /// Goes on with deletions. Returns them while they wait.
    pub(super) fn delete(&mut self, job: &mut Progress, deleting: Deleting) -> Option<Deleting> {
        let Deleting { mut removals, mut step } = deleting;
        loop {
            if removals.is_empty() {
                return None;
            }
            step = match step {
                Step::Check => {
                    if self.still_there(&removals).is_empty() {
                        return self.respond_done(removals);
                    }
                    if job.fresh().is_none() {
                        Step::Read
                    } else {
                        match self.room_first(job, &removals) {
                            Ok(RoomFirst::NotNeeded) => {
                                removals = self.send_removals(job, removals)?;
                                return Some(Deleting { removals, step: Step::Sent });
                            }
                            Ok(RoomFirst::Waiting) => return Some(Deleting { removals, step: Step::Read }),
                            Ok(RoomFirst::Sent) => return Some(Deleting { removals, step: Step::Raised }),
                            Err(error) => {
                                removals = self.refuse_replaced(removals, &error);
                                Step::Check
                            }
                        }
                    }
                }
                Step::Raised => match self.capacity_outcome(job) {
                    None => return Some(Deleting { removals, step: Step::Raised }),
                    Some(CapacityOutcome::Accepted) => {
                        self.begin_replacing(job, &mut removals);
                        Step::Read
                    }
                    Some(CapacityOutcome::Retry(error)) => {
                        removals = self.deletion_refused(job, removals, error)?;
                        return Some(Deleting { removals, step: Step::Check });
                    }
                    Some(CapacityOutcome::Failed(error)) => {
                        removals = self.refuse_replaced(removals, &error);
                        Step::Check
                    }
                },
                Step::Read => match self.need(job, Scope::Capacity) {
                    Need::Waiting => return Some(Deleting { removals, step: Step::Read }),
                    Need::Failed(error) => {
                        self.respond_all(requests(removals), &error);
                        return None;
                    }
                    Need::Met => {
                        // What there was room for before may be too much now (law 6).
                        removals = self.judge_removals(requests(removals));
                        Step::Check
                    }
                },
                Step::Sent => match job.take_answer() {
                    Answer::Deletion(sent, Ok(deletion)) => {
                        if deletion.refused.iter().any(|(_, error)| error.outcome_unknown()) {
                            job.read_briefly(self.now);
                            Step::LostInPart(sent, deletion)
                        } else {
                            removals = self.respond_deleted(job, removals, &sent, &deletion)?;
                            return Some(Deleting { removals, step: Step::Check });
                        }
                    }
                    Answer::Deletion(sent, Err(error)) if error.outcome_unknown() => {
                        job.read_briefly(self.now);
                        Step::Lost(sent.ids, error)
                    }
                    Answer::Deletion(_, Err(error)) => {
                        removals = self.deletion_refused(job, removals, error)?;
                        return Some(Deleting { removals, step: Step::Check });
                    }
                    _ => return Some(Deleting { removals, step: Step::Sent }),
                },
                Step::LostInPart(sent, deletion) => match self.need(job, Scope::Instances) {
                    Need::Waiting => return Some(Deleting { removals, step: Step::LostInPart(sent, deletion) }),
                    // The response says what the read shows, if it shows anything.
                    Need::Met | Need::Failed(_) => {
                        removals = self.respond_deleted(job, removals, &sent, &deletion)?;
                        return Some(Deleting { removals, step: Step::Check });
                    }
                },
                // A read that shows every named instance as deleted or being deleted shows that it took effect (law 7).
                Step::Lost(ids, error) => match self.need(job, Scope::Instances) {
                    Need::Waiting => return Some(Deleting { removals, step: Step::Lost(ids, error) }),
                    need => {
                        let is_read = matches!(need, Need::Met);
                        let is_done = is_read && !ids.iter().any(|id| self.state.in_flight().is_unsettled(id));
                        if is_done {
                            return self.respond_done(removals);
                        }
                        let unknown = WriteError::OutcomeUnknown(error.to_string());
                        self.respond_all(requests(removals), &unknown);
                        return None;
                    }
                },
            };
        }
    }

    /// Sends one deletion for all of them. `None` if nothing is left to delete.
    fn send_removals(&mut self, job: &mut Progress, removals: Vec<Removal>) -> Option<Vec<Removal>> {
        // The time of some may be up, although others of the batch have more (law 9).
        let removals = self.committed_removals(removals);
        if removals.is_empty() {
            return None;
        }
        self.note_leaving(&removals);
        // Judged again after the read: an instance that another client is deleting meanwhile is not deleted twice.
        let ids = self.still_there(&removals);
        if ids.is_empty() {
            self.respond_done(removals);
            return None;
        }
        let requests = removals.iter().map(|removal| removal.request.key).collect();
        let replaced = removals.iter().flat_map(|removal| &removal.plan.replaced);
        let replaced = replaced.filter(|id| ids.contains(id)).cloned().collect();
        self.send_deletion(job, ids, replaced, false, requests);
        Some(removals)
    }

    fn committed_removals(&mut self, removals: Vec<Removal>) -> Vec<Removal> {
        let mut committed = Vec::new();
        for Removal { request, plan } in removals {
            let request = self.committed(vec![request]);
            committed.extend(request.into_iter().map(|request| Removal { request, plan: plan.clone() }));
        }
        committed
    }

    fn respond_done(&mut self, removals: Vec<Removal>) -> Option<Deleting> {
        for removal in removals {
            self.respond(&removal.request, Ok(()));
        }
        None
    }

    /// Responds to a deletion that the cloud accepted, in whole or in part. Returns those that were refused only for
    /// the moment, to be attempted again.
    fn respond_deleted(
        &mut self,
        job: &mut Progress,
        removals: Vec<Removal>,
        sent: &SentDeletion,
        deletion: &Deletion,
    ) -> Option<Vec<Removal>> {
        // Where the cloud is polled for the outcome, it was given all of the instances at once.
        let is_polled = !deletion.accepted.is_empty() && deletion.handle.is_some();
        let (mut busy, rest): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|removal| !is_polled && removal.is_busy(deletion));
        for removal in rest {
            self.respond_removed(removal, sent, deletion, is_polled);
        }
        let error = busy.iter().find_map(|removal| removal.refused(deletion).next())?.1.clone();
        for removal in busy.iter_mut().filter(|removal| removal.has_begun(deletion)) {
            self.begin(&mut removal.request);
        }
        let next = job.attempts.next(self.now, Some(&error));
        let (busy, out_of_time): (Vec<_>, Vec<_>) =
            busy.into_iter().partition(|removal| next < removal.request.attempt_until());
        for removal in out_of_time {
            self.respond_removed(removal, sent, deletion, false);
        }
        if !job.attempts.again(self.now, Some(&error)) {
            for removal in busy {
                self.respond_removed(removal, sent, deletion, false);
            }
            return None;
        }
        // What was accepted is being deleted by now, and is not deleted again.
        job.take_fresh();
        Some(self.judge_removals(requests(busy)))
    }

    fn respond_removed(&mut self, removal: Removal, sent: &SentDeletion, deletion: &Deletion, is_polled: bool) {
        let in_flight = self.state.in_flight();
        let is_open = |(id, error): &&(ProviderId, CloudError)| !error.outcome_unknown() || in_flight.is_unsettled(id);
        let refused: Vec<(ProviderId, CloudError)> = removal.refused(deletion).filter(is_open).cloned().collect();
        let outcome = match refused.iter().find(|(_, error)| error.outcome_unknown()) {
            Some((id, error)) => Err(WriteError::OutcomeUnknown(format!("{id}: {error}"))),
            None if refused.is_empty() => {
                if is_polled && removal.has_begun(deletion) {
                    return self.hold(removal.request, sent.operation);
                }
                Ok(())
            }
            None => Err(WriteError::PartlyRefused(refused)),
        };
        self.respond(&removal.request, outcome);
    }

    /// The cloud refused a deletion as a whole. Returns what is attempted again.
    fn deletion_refused(
        &mut self,
        job: &mut Progress,
        removals: Vec<Removal>,
        error: CloudError,
    ) -> Option<Vec<Removal>> {
        let (mut waiting, refused) = (requests(removals), WriteError::Cloud(error.clone()));
        if error.may_be_repeated() {
            let next = job.attempts.next(self.now, Some(&error));
            waiting = self.respond_out_of_time(waiting, next, &refused);
            if !waiting.is_empty() && job.attempts.again(self.now, Some(&error)) {
                self.log(Note::DeletionBusy(error));
                return Some(self.judge_removals(waiting));
            }
        }
        self.log(Note::DeletionRefusedByCloud(error));
        self.respond_all(waiting, &refused);
        None
    }

    /// Notes which named instances are gone or being deleted without a deletion of ours. Their caller gets OK, and the
    /// next read may still list them.
    fn note_leaving(&mut self, removals: &[Removal]) {
        let (observation, in_flight) = (self.state.observation(), self.state.in_flight());
        let stays = |id: &ProviderId| {
            let stays = |one: &Instance| one.id == *id && one.state != InstanceState::Deleting;
            observation.instances.iter().any(stays)
                || self.state.placeholders().iter().any(|placeholder| placeholder.id == *id)
        };
        let named: BTreeSet<&ProviderId> =
            removals.iter().flat_map(|removal| removal.request.mutation.named()).collect();
        // Callers may name what never was: no more than a group can have lost a moment ago is kept.
        let room = count(observation.instances.len() + OPERATIONS).saturating_sub(in_flight.named());
        let leaving = named.into_iter().filter(|id| !in_flight.deletes(id) && !stays(id));
        let leaving: Vec<ProviderId> = leaving.zip(0..room).map(|(id, _)| id.clone()).collect();
        if !leaving.is_empty() {
            let operation = self.next_operation();
            self.state.note_leaving(operation, &leaving, self.cloud_time, self.now);
        }
    }

    /// The named instances that are listed and not being deleted, each once.
    pub(super) fn still_there(&self, removals: &[Removal]) -> Vec<ProviderId> {
        let mut named = BTreeSet::new();
        let ids = removals.iter().flat_map(|removal| &removal.plan.instances).filter(|id| named.insert(*id));
        let stays = |id: &&ProviderId| {
            let instances = &self.state.observation().instances;
            instances.iter().any(|instance| instance.id == **id && !self.state.in_flight().is_leaving(instance))
        };
        ids.filter(stays).cloned().collect()
    }
}
