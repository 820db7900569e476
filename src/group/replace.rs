//! Replacing instances that never became nodes, in a group at its minimum whose cloud launches nothing by itself.
//!
//! The capacity is raised first, and the instances are deleted then. At the maximum, they are deleted first. What is
//! then owed is part of the target, so that it never falls below the minimum (law 6), and the capacity is raised by
//! it as soon as the cloud has accepted the deletion. A deletion that fails owes nothing: its instances live.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Group;
use super::event::{Note, Scope};
use super::grow::may_exceed;
use super::job::{CapacityOutcome, Job, Progress, Work};
use super::limits::{CALLER_WAITS, WATCH_EVERY};
use super::observation::count;
use super::plan::{self, Replacing};
use super::refusal::WriteError;
use super::removal::Removal;
use super::room::Room;
use super::state::WriteReason;

/// How far raising the capacity by what is owed is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Replace {
    /// The group is being read.
    Read,
    /// The capacity was sent.
    Sent,
}

/// How far making room is for the instances that take the place of those to be deleted.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoomFirst {
    /// None is needed: they can be deleted now.
    NotNeeded,
    /// What it depends on is being read.
    Waiting,
    /// A higher capacity was sent.
    Sent,
}

impl Group {
    /// Raises the capacity for the instances that take the place of those to be deleted.
    pub(super) fn room_first(&mut self, job: &mut Progress, removals: &[Removal]) -> Result<RoomFirst, WriteError> {
        let number = self.room_wanted(removals)?;
        if number == 0 {
            return Ok(RoomFirst::NotNeeded);
        }
        match self.room_to_raise(job, Scope::Capacity, number) {
            Room::Waiting => return Ok(RoomFirst::Waiting),
            Room::Failed(error) => return Err(error),
            Room::TooLittle => return Err(may_exceed()),
            Room::Enough => {}
        }
        let requests = removals.iter().map(|removal| removal.request.key).collect();
        let to = self.raised_by(number)?;
        self.send_capacity(job, to, WriteReason::Requested, requests)?;
        Ok(RoomFirst::Sent)
    }

    /// The capacity was raised for some of these. They are deleted even if their callers' time is up by then: otherwise
    /// the group would have more than anybody asked for.
    pub(super) fn begin_replacing(&mut self, job: &mut Progress, removals: &mut [Removal]) {
        let until = self.now + CALLER_WAITS;
        job.attempts.last_until(until);
        for Removal { request, .. } in removals.iter_mut().filter(|one| one.replaces()) {
            request.send_by = request.send_by.max(until);
            self.begin(request);
        }
    }

    /// By how much it is to be raised.
    fn room_wanted(&self, removals: &[Removal]) -> Result<u32, WriteError> {
        if plan::replacing(&self.state.observation().reading) != Some(Replacing::ByRaising) {
            return Ok(0);
        }
        let there = self.still_there(removals);
        let replaced: BTreeSet<_> = removals.iter().flat_map(|removal| &removal.plan.replaced).collect();
        let number = count(there.iter().filter(|id| replaced.contains(id)).count());
        Ok(if number == 0 { 0 } else { plan::raised_first(&self.state, number)? })
    }

    fn raised_by(&self, number: u32) -> Result<u32, WriteError> {
        if self.state.in_flight().has_unread() {
            return Err(WriteError::Contended("its reads do not yet show our last deletion".to_owned()));
        }
        let to = plan::raised_capacity(&self.state, number);
        to.ok_or_else(|| WriteError::Contended(self.why_not_raised()))
    }

    /// Responds to the calls that need room, and returns the others.
    pub(super) fn refuse_replaced(&mut self, removals: Vec<Removal>, error: &WriteError) -> Vec<Removal> {
        let (refused, others): (Vec<_>, Vec<_>) = removals.into_iter().partition(Removal::replaces);
        for Removal { request, .. } in refused {
            self.log(Note::DeletionRefused(Box::new(error.clone())));
            self.respond(&request, Err(error.clone()));
        }
        others
    }

    /// Raises the capacity by what is owed, if anything is.
    pub(super) fn replace_job(&self) -> Option<Job> {
        let is_owed = self.state.in_flight().owed_now() > 0;
        is_owed.then(|| Job::of_our_own(Work::Replace(Replace::Read), self.now))
    }

    /// Goes on with raising the capacity by what is owed.
    pub(super) fn replace(&mut self, mut job: Progress, step: Replace) {
        let next = match step {
            Replace::Read => match self.room_to_raise(&mut job, Scope::Capacity, self.state.in_flight().owed_now()) {
                Room::Waiting => Some(Replace::Read),
                Room::Failed(error) => self.not_replaced(error),
                Room::TooLittle => self.not_replaced(may_exceed()),
                Room::Enough => match self.raise_by_owed(&mut job) {
                    Ok(is_sent) => is_sent.then_some(Replace::Sent),
                    Err(error) => self.not_replaced(error),
                },
            },
            Replace::Sent => match self.capacity_outcome(&mut job) {
                None => Some(Replace::Sent),
                Some(CapacityOutcome::Accepted) => {
                    self.state.settle_owed();
                    self.publish();
                    None
                }
                Some(CapacityOutcome::Retry(error)) => self.not_replaced(error.into()),
                Some(CapacityOutcome::Failed(error)) => self.not_replaced(error),
            },
        };
        self.job = next.map(|step| Job { work: Work::Replace(step), progress: job });
    }

    /// Whether anything was sent: the read may have shown that nothing is owed any more.
    fn raise_by_owed(&mut self, job: &mut Progress) -> Result<bool, WriteError> {
        let owed = self.state.in_flight().owed_now();
        if owed == 0 {
            return Ok(false);
        }
        plan::permits_owed(&self.state)?;
        let to = self.raised_by(owed)?;
        self.send_capacity(job, to, WriteReason::Requested, Vec::new())?;
        Ok(true)
    }

    /// What may pass is tried again while the deletion is followed; a write without a response is not (law 7).
    fn not_replaced(&mut self, error: WriteError) -> Option<Replace> {
        let owed = self.state.in_flight().owed_now();
        if error.may_pass() {
            self.log(Note::NotReplacedYet(owed, Box::new(error)));
            self.read_by(self.now + WATCH_EVERY);
        } else {
            self.log(Note::NotReplaced(owed, Box::new(error)));
            self.state.settle_owed();
            self.publish();
        }
        None
    }
}
