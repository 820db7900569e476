//! Whether a higher capacity leaves room for all that live. A deletion on a scale set that fails leaves the capacity as
//! low as when it was accepted, and its VMs live again (autoscaler #7432).

use super::Group;
use super::event::{Effect, PollEnd, Scope};
use super::job::{Call, Progress, Read, Wanted};
use super::limits::DETAIL_LIMIT;
use super::operation::OperationId;
use super::plan;
use super::reading::{Need, Polls};
use super::refusal::WriteError;
use crate::cloud::CloudError;

/// Whether a higher capacity leaves room for all that live.
#[derive(Debug)]
pub(super) enum Room {
    /// It does, as far as what was read and polled tells.
    Enough,
    /// It may not: deletions that it counts on may have failed.
    TooLittle,
    /// That is being read.
    Waiting,
    /// The read failed.
    Failed(WriteError),
}

impl From<Need> for Room {
    fn from(need: Need) -> Self {
        match need {
            Need::Met => Self::Enough,
            Need::Waiting => Self::Waiting,
            Need::Failed(error) => Self::Failed(error),
        }
    }
}

impl Group {
    /// Reads the group for a write that raises the capacity by `number` or more. If that counts on deletions under way,
    /// those of ours are polled after the read. Where no poll tells, the list of instances does.
    pub(super) fn room_to_raise(&mut self, job: &mut Progress, scope: Scope, number: u32) -> Room {
        match self.need(job, scope) {
            Need::Met if plan::counts_on_deletions(&self.state, number) => {}
            need => return need.into(),
        }
        let polls = job.fresh().map_or(Polls::NotAsked, |fresh| fresh.polls);
        if polls == Polls::Unanswered || !plan::is_told_by_polls(&self.state) {
            match self.need(job, Scope::Instances) {
                Need::Met if plan::counts_on_deletions(&self.state, number) => {}
                need => return need.into(),
            }
        }
        if polls == Polls::NotAsked && self.poll_for_write(job) {
            return Room::Waiting;
        }
        let leaves_room = plan::leaves_room(&self.state, number, polls);
        if leaves_room { Room::Enough } else { Room::TooLittle }
    }

    /// Polls the deletions under way, if any can be polled.
    fn poll_for_write(&mut self, job: &mut Progress) -> bool {
        let operations = self.state.in_flight().running_deletions();
        if operations.is_empty() {
            return false;
        }
        let limit = job.attempts.left(self.now).min(DETAIL_LIMIT);
        self.effects.push(Effect::PollForWrite { operations, limit });
        job.call = Some(Call::Polls);
        true
    }

    /// Deletions that a write counts on were polled.
    pub(super) fn polled_for_write(&mut self, ended: Vec<(OperationId, PollEnd)>, error: Option<CloudError>) {
        let Some(Call::Polls) = self.take_call() else { return };
        ended.into_iter().for_each(|(operation, end)| self.polled(operation, end));
        let Some(job) = &mut self.job else { return };
        match (&mut job.progress.read, error) {
            (Read::Met(fresh), None) => fresh.polls = Polls::Answered,
            (Read::Met(fresh), Some(_)) if fresh.scope == Scope::Instances => fresh.polls = Polls::Unanswered,
            (_, before) => {
                let polls = Polls::Unanswered;
                job.progress.read = Read::Wanted(Wanted { before, polls, ..Wanted::new(Scope::Instances) });
            }
        }
    }
}
