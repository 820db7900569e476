//! Carrying requests out: a short wait for others to join, a fresh read, the laws, as few cloud calls as possible, a
//! response to every caller.
//!
//! Within a batch placeholders are cancelled first, then instances are deleted, then the group grows. All requests of a
//! batch came before any of them got a response, so no order between them was promised; this one writes least.

use std::collections::BTreeSet;
use std::mem;

use serde::{Deserialize, Serialize};

use super::Group;
use super::delete::Deleting;
use super::event::{Effect, Scope};
use super::grow::Growing;
use super::job::{Attempts, Job, Progress, Work};
use super::limits::{BATCH_IDLE, BATCH_IDLES, BATCH_SHARE};
use super::lower::Lowering;
use super::reading::Need;
use super::refusal::WriteError;
use super::removal::{Cancelled, Cancelling, Removal};
use super::request::{Mutation, Request, RequestKey, Stage};
use super::time::Time;
use crate::cloud::{ProviderId, Writes};

/// Requests that are carried out together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Batch {
    growth: Vec<Request>,
    step: Step,
}

/// How far a batch is.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Step {
    /// What it needs is being read.
    Read(Vec<Request>),
    /// Placeholders were cancelled; the capacity is lowered by them.
    Cancel(Cancelling),
    /// Instances are being deleted.
    Delete(Deleting),
    /// The group grows.
    Grow(Growing),
}

impl Batch {
    /// The requests that have no response yet.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        let at_step: Box<dyn Iterator<Item = &Request>> = match &self.step {
            Step::Read(requests) => Box::new(requests.iter()),
            Step::Cancel(cancelling) => Box::new(cancelling.requests()),
            Step::Delete(deleting) => Box::new(deleting.requests()),
            Step::Grow(growing) => Box::new(growing.requests()),
        };
        at_step.chain(&self.growth)
    }

    fn withdraw(&mut self, withdrawn: &BTreeSet<RequestKey>) {
        self.growth.retain(|request| !withdrawn.contains(&request.key));
        match &mut self.step {
            Step::Read(requests) => requests.retain(|request| !withdrawn.contains(&request.key)),
            Step::Cancel(_) => {}
            Step::Delete(deleting) => deleting.withdraw(withdrawn),
            Step::Grow(growing) => growing.withdraw(withdrawn),
        }
    }
}

impl Job {
    /// The requests that it carries out and that have no response yet.
    pub(super) fn requests(&self) -> impl Iterator<Item = RequestKey> {
        let batch = if let Work::Batch(batch) = &self.work { Some(batch) } else { None };
        batch.into_iter().flat_map(Batch::requests).map(|request| request.key)
    }
}

impl Group {
    /// A request has arrived. Deletions wait a little for each other; everything that waits already is taken along.
    pub(super) fn arrive(&mut self, mut request: Request) {
        request.group = self.state.observation().reading.identity;
        request.arrived = self.now;
        self.queue.push(request);
    }

    /// The callers of these requests gave up before anything was sent for them.
    pub(super) fn withdraw(&mut self, withdrawn: &BTreeSet<RequestKey>) {
        self.queue.retain(|request| !withdrawn.contains(&request.key));
        self.withdraw_from_launches(withdrawn);
        if let Some(Job { work: Work::Batch(batch), .. }) = &mut self.job {
            batch.withdraw(withdrawn);
        }
    }

    /// When the batch that is being collected closes, if one is. Only deletions wait for others: until none has come for
    /// a moment, but no longer than a share of any caller's time.
    pub(super) fn batch_closes(&self) -> Option<Time> {
        if !self.second.is_empty() {
            return Some(self.now);
        }
        let (first, last) = (self.queue.first()?, self.queue.last()?);
        if !self.queue.iter().all(|request| matches!(request.mutation, Mutation::Delete(_))) {
            return Some(self.now);
        }
        let idle = match self.state.observation().reading.consistency.writes {
            Writes::Ample => BATCH_IDLE,
            Writes::Scarce => BATCH_IDLE * 2,
        };
        let share = |one: &Request| one.arrived + one.send_by.since(one.arrived) / BATCH_SHARE;
        let latest = self.queue.iter().map(share).min()?;
        Some(latest.min(first.arrived + idle * BATCH_IDLES).min(last.arrived + idle))
    }

    /// The next batch, once it has closed. What names unknown instances needs a list of all of them, which may take
    /// longer than the rest can wait: it comes after the rest.
    pub(super) fn next_batch(&mut self) -> Option<Job> {
        self.batch_closes().filter(|closes| *closes <= self.now)?;
        let mut requests = mem::take(&mut self.second);
        if requests.is_empty() {
            let all = mem::take(&mut self.queue);
            let (unknown, known): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| self.names_unknown_instances(one));
            (requests, self.second) = if known.is_empty() { (unknown, known) } else { (known, unknown) };
        }
        let until = requests.iter().map(Request::attempt_until).max()?;
        let attempts = Attempts::until(until);
        let is_lost = requests.iter().any(|request| request.is_cloud_lost);
        let attempts = if is_lost { attempts.of_lost_cloud(self.now) } else { attempts };
        Some(Job::new(Work::Batch(Batch { growth: Vec::new(), step: Step::Read(requests) }), attempts))
    }

    /// Goes on with a batch, until it waits for something or is done.
    pub(super) fn carry_out(&mut self, mut job: Progress, batch: Batch) {
        let Batch { mut growth, mut step } = batch;
        loop {
            let next = match step {
                Step::Read(requests) => {
                    // A named instance that is not known may be new: only fresh instances show that it is gone.
                    let names_unknown = requests.iter().any(|request| self.names_unknown_instances(request));
                    let scope = if names_unknown { Scope::Instances } else { Scope::Capacity };
                    match self.need(&mut job, scope) {
                        Need::Waiting => Err(Step::Read(requests)),
                        Need::Failed(error) => return self.respond_unread(requests, &error),
                        Need::Met => {
                            let is_growth = |request: &Request| matches!(request.mutation, Mutation::Increase(_));
                            let (grows, removes): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_growth);
                            growth = grows;
                            let removals = self.judge_removals(removes);
                            let (cancels, others): (Vec<_>, Vec<_>) = removals.into_iter().partition(Removal::cancels);
                            Ok(self.begin_removing(&mut job, cancels, others))
                        }
                    }
                }
                Step::Cancel(mut cancelling) => {
                    match self.lower(&mut job, &mut cancelling.lowering, &cancelling.cancels) {
                        None => Err(Step::Cancel(cancelling)),
                        Some(lowered) => {
                            let removals = self.cancelled(cancelling, lowered);
                            Ok(self.begin_deleting(removals))
                        }
                    }
                }
                Step::Delete(deleting) => match self.delete(&mut job, deleting) {
                    Some(deleting) => Err(Step::Delete(deleting)),
                    None => Ok(Step::Grow(Growing::new(mem::take(&mut growth)))),
                },
                Step::Grow(growing) => match self.grow(&mut job, growing) {
                    Some(growing) => Err(Step::Grow(growing)),
                    None => return,
                },
            };
            step = match next {
                Ok(next) => next,
                Err(waiting) => {
                    let work = Work::Batch(Batch { growth, step: waiting });
                    self.job = Some(Job { work, progress: job });
                    return;
                }
            };
        }
    }

    /// The group cannot be read in time. What only takes placeholders out of the target needs no read: the capacity is
    /// lowered once there is one. An error would end CA's whole loop, before it scales up any group (`fixNodeGroupSize`).
    fn respond_unread(&mut self, requests: Vec<Request>, error: &WriteError) {
        let is_deferred = |one: &Request| !matches!(error, WriteError::Gone) && self.names_placeholders(one);
        let (deferred, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_deferred);
        self.respond_all(others, error);
        let (cancels, mut removals): (Vec<_>, Vec<_>) =
            self.judge_removals(deferred).into_iter().partition(Removal::cancels);
        removals.extend(self.cancel(cancels).into_iter().flat_map(|cancelled| cancelled.cancels));
        let deletions = self.deletions_of(removals);
        debug_assert!(deletions.requests().next().is_none(), "a placeholder is no instance");
    }

    /// Whether a request is only about instances that do not exist.
    fn names_placeholders(&self, request: &Request) -> bool {
        let is_placeholder = |id: &ProviderId| self.state.placeholders().iter().any(|one| one.id == *id);
        match request.mutation {
            Mutation::Decrease(_) => true,
            Mutation::Delete(_) => request.mutation.named().all(is_placeholder),
            Mutation::Increase(_) => false,
        }
    }

    /// Takes placeholders out of the target. If the capacity may be lowered by them, that comes before the deletions.
    fn begin_removing(&mut self, job: &mut Progress, cancels: Vec<Removal>, mut others: Vec<Removal>) -> Step {
        let Some(Cancelled { cancels, names }) = self.cancel(cancels) else { return self.begin_deleting(others) };
        if !self.state.may_lower() {
            others.extend(cancels);
            return self.begin_deleting(others);
        }
        Step::Cancel(Cancelling { cancels, names, others, lowering: Lowering::for_callers(job, self.now) })
    }

    fn begin_deleting(&mut self, removals: Vec<Removal>) -> Step {
        Step::Delete(self.deletions_of(removals))
    }

    fn names_unknown_instances(&self, request: &Request) -> bool {
        let state = &self.state;
        let is_known = |id: &ProviderId| {
            state.observation().instances.iter().any(|instance| instance.id == *id)
                || state.placeholders().iter().any(|placeholder| placeholder.id == *id)
                || state.in_flight().deletes(id)
        };
        request.mutation.named().any(|id| !is_known(id))
    }

    /// Whether a write may be sent for a request now. If so, its caller can no longer give it up.
    pub(super) fn commit(&self, request: &mut Request) -> bool {
        if self.now >= request.send_by {
            return false;
        }
        if request.stage == Stage::Waiting {
            request.stage = Stage::Sent;
        }
        true
    }

    /// Part of a request took effect.
    pub(super) fn begin(&mut self, request: &mut Request) {
        request.stage = Stage::Begun;
        self.effects.push(Effect::Begin(request.key));
    }

    pub(super) fn respond(&mut self, request: &Request, outcome: Result<(), WriteError>) {
        let outcome = match outcome {
            Err(WriteError::NotSent) if request.stage == Stage::Begun => Err(WriteError::StillRunning),
            outcome => outcome,
        };
        self.effects.push(Effect::Respond(request.key, outcome));
    }

    /// Responds to all of them with the same error.
    pub(super) fn respond_all(&mut self, requests: impl IntoIterator<Item = Request>, error: &WriteError) {
        for request in requests {
            self.respond(&request, Err(error.clone()));
        }
    }

    /// Responds to those for which it is too late to send anything, and returns the rest.
    pub(super) fn committed(&mut self, requests: Vec<Request>) -> Vec<Request> {
        let mut committed = Vec::new();
        for mut request in requests {
            if self.commit(&mut request) {
                committed.push(request);
            } else {
                self.respond(&request, Err(WriteError::NotSent));
            }
        }
        committed
    }

    /// Responds with the error to those whose time ends before the next attempt, although others of the batch have
    /// more. Returns the rest, whose last attempt wrote nothing.
    pub(super) fn respond_out_of_time(
        &mut self,
        requests: Vec<Request>,
        next: Time,
        error: &WriteError,
    ) -> Vec<Request> {
        let mut rest = Vec::new();
        for mut request in requests {
            if request.stage == Stage::Sent {
                request.stage = Stage::Waiting;
                self.effects.push(Effect::Release(request.key));
            }
            if next < request.attempt_until() {
                rest.push(request);
            } else {
                self.respond(&request, Err(error.clone()));
            }
        }
        rest
    }

    /// The group no longer exists: nothing waits for it.
    pub(super) fn respond_gone(&mut self) {
        let job = self.job.take();
        let in_work: Vec<RequestKey> = job.iter().flat_map(Job::requests).collect();
        for key in in_work {
            self.effects.push(Effect::Respond(key, Err(WriteError::Gone)));
        }
    }
}
