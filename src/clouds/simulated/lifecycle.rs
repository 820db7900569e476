//! How instances come and go, in both kinds of groups.

use std::time::Duration;

use super::chance::draw;
use super::group::{Due, Group};
use super::member::{Claim, Fate, Phase};
use super::plan::Kind;
use super::record::{ActivityKind, ActivityStatus};
use super::trouble::{DeleteOutcome, LaunchOutcome, PlannedFailure};
use super::world::called;
use crate::cloud::ProviderId;

impl Group {
    /// What will come of the next launch, and how much later.
    pub(super) fn draw_launch(&mut self) -> (Duration, Fate) {
        self.launches = self.launches.saturating_add(1);
        let outcome = self
            .plan
            .launch_troubles
            .befalling(self.launches, &mut self.rng, |outcome| !matches!(outcome, LaunchOutcome::Refused(_)))
            .cloned();
        match outcome {
            Some(LaunchOutcome::Fails { failure, after, rollback }) => {
                (draw(&mut self.rng, &after), Fate::Fail { failure, rollback })
            }
            Some(LaunchOutcome::Breaks { failure, after }) => (draw(&mut self.rng, &after), Fate::Break(failure)),
            _ => (draw(&mut self.rng, &self.plan.launch_time), Fate::Run),
        }
    }

    /// Why a write that asks for launches is refused, if it is.
    pub(super) fn launch_refusal(&mut self) -> Option<PlannedFailure> {
        let next = self.launches.saturating_add(1);
        let is_refusal = |outcome: &LaunchOutcome| matches!(outcome, LaunchOutcome::Refused(_));
        match self.plan.launch_troubles.befalling(next, &mut self.rng, is_refusal) {
            Some(LaunchOutcome::Refused(failure)) => Some(failure.clone()),
            _ => None,
        }
    }

    /// What will come of the next deletion.
    pub(super) fn draw_deletion(&mut self) -> DeleteOutcome {
        self.deletions = self.deletions.saturating_add(1);
        let outcome = self.plan.delete_troubles.befalling(self.deletions, &mut self.rng, |_| true);
        outcome.cloned().unwrap_or(DeleteOutcome::Fine)
    }

    /// Decides what an instance will come to, and when.
    pub(super) fn decide(&mut self, serial: u64, at: Duration, fate: Fate) {
        if let Some(member) = self.members.get_mut(&serial) {
            member.fate = Some((at, fate));
            self.schedule(at, Due::Member(serial));
        }
    }

    /// Begins the deletion of an instance, which fails in the end if `failure` says so.
    pub(super) fn begin_deletion(
        &mut self,
        serial: u64,
        at: Duration,
        operation: Option<u64>,
        claim: Claim,
        failure: Option<PlannedFailure>,
    ) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        // A machine whose deletion fails half way has been started by then.
        member.resumes = if member.phase == Phase::Creating { Phase::Running } else { member.phase };
        member.phase = Phase::Deleting;
        member.claim = claim;
        let launch = member.activity.take();
        let id = member.id.clone();
        self.assign(serial, operation, at);
        if self.plan.kind == Kind::AwsLike {
            self.close_activity(launch, at, ActivityStatus::Cancelled);
            let activity = self.open_activity(at, ActivityKind::Terminate, Some(id));
            if let Some(member) = self.members.get_mut(&serial) {
                member.activity = Some(activity);
            }
        }
        let done = at + draw(&mut self.rng, &self.plan.delete_time);
        self.decide(serial, done, failure.map_or(Fate::Go, Fate::Stay));
    }

    /// Lets an instance meet its fate, if this is the time for it.
    pub(super) fn meet_fate(&mut self, serial: u64, at: Duration) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        if member.fate.as_ref().is_none_or(|(due, _)| *due != at) {
            return;
        }
        let Some((_, fate)) = member.fate.take() else { return };
        match fate {
            Fate::Appear(wait, next) => {
                member.phase = Phase::Creating;
                self.decide(serial, at + wait, *next);
                self.watch_surplus(at);
            }
            Fate::Run => self.now_runs(serial, at),
            Fate::Fail { failure, rollback } => self.launch_failed(serial, at, &failure, rollback),
            Fate::Break(failure) => self.broke(serial, at, failure),
            Fate::Go => self.went(serial, at),
            Fate::Stay(failure) => self.deletion_failed(serial, at, &failure),
        }
    }

    fn now_runs(&mut self, serial: u64, at: Duration) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        member.phase = Phase::Running;
        let (activity, operation) = (member.activity.take(), member.operation.take());
        let (instance, name) = (member.id.clone(), called(&member.provider_id));
        if let Some(activity) = self.activities.iter_mut().find(|one| Some(one.number) == activity) {
            activity.instance = Some(instance);
        }
        self.close_activity(activity, at, ActivityStatus::Successful);
        self.resolve(operation, at, None);
        self.tell(at, format!("{name} is running"));
    }

    fn launch_failed(&mut self, serial: u64, at: Duration, failure: &PlannedFailure, rollback: bool) {
        let Some(member) = self.members.remove(&serial) else { return };
        if rollback {
            self.capacity = self.capacity.saturating_sub(1);
            self.changed();
        }
        self.close_activity(member.activity, at, ActivityStatus::Failed(failure.clone()));
        self.resolve(member.operation, at, Some(failure));
        let taken_back = if rollback { format!("; capacity is back at {}", self.capacity) } else { String::new() };
        self.tell(at, format!("launch failed: {} - {}{taken_back}", failure.code, failure.message));
        self.retry_later(at);
    }

    fn broke(&mut self, serial: u64, at: Duration, failure: PlannedFailure) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        let (activity, operation) = (member.activity.take(), member.operation.take());
        let name = called(&member.provider_id);
        member.phase = Phase::Broken;
        member.failure = Some((failure.clone(), at));
        self.tell(at, format!("{name} failed: {} - {}", failure.code, failure.message));
        self.close_activity(activity, at, ActivityStatus::Failed(failure.clone()));
        self.resolve(operation, at, Some(&failure));
        if self.plan.kind == Kind::AwsLike {
            self.begin_deletion(serial, at, None, Claim::None, None);
            self.retry_later(at);
        }
    }

    fn went(&mut self, serial: u64, at: Duration) {
        let Some(member) = self.members.remove(&serial) else { return };
        let mut afterwards = String::new();
        if member.claim == Claim::UntilGone {
            self.capacity = self.capacity.saturating_sub(1);
            self.changed();
            afterwards = format!(", capacity {}", self.capacity);
        }
        self.close_activity(member.activity, at, ActivityStatus::Successful);
        self.resolve(member.operation, at, None);
        self.tell(at, format!("{} is gone{afterwards}", called(&member.provider_id)));
    }

    fn deletion_failed(&mut self, serial: u64, at: Duration, failure: &PlannedFailure) {
        let Some((name, activity, operation)) = self.resume(serial) else { return };
        self.close_activity(activity, at, ActivityStatus::Failed(failure.clone()));
        self.resolve(operation, at, Some(failure));
        self.tell(at, format!("deletion of {name} failed: {} - {}", failure.code, failure.message));
        self.watch_surplus(at);
    }

    /// Takes a deletion back: the instance is what it was, and the capacity includes it again.
    pub(super) fn resume(&mut self, serial: u64) -> Option<(String, Option<u64>, Option<u64>)> {
        let member = self.members.get_mut(&serial)?;
        let claim = std::mem::replace(&mut member.claim, Claim::None);
        member.phase = member.resumes;
        member.fate = None;
        let taken = (called(&member.provider_id), member.activity.take(), member.operation.take());
        // What a scale set failed to delete counts again, whoever wanted it gone.
        let uncounted = self.plan.kind == Kind::AzureLike && self.count(|member| member.counts()) > self.capacity;
        if claim == Claim::GivenUp || uncounted {
            self.capacity = self.capacity.saturating_add(1);
            self.changed();
        }
        Some(taken)
    }

    /// Takes running instances away from outside, as a spot market or a failing host does.
    pub(super) fn evict(&mut self, at: Duration, count: usize) -> Vec<ProviderId> {
        let mut running: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, member)| member.phase == Phase::Running)
            .map(|(serial, _)| *serial)
            .collect();
        self.rng.shuffle(&mut running);
        let victims: Vec<_> =
            running.into_iter().take(count).filter_map(|serial| self.members.remove(&serial)).collect();
        for member in &victims {
            // A scale set with eviction policy Delete lets go of the capacity; an Auto Scaling group replaces.
            let afterwards = if self.plan.kind == Kind::AzureLike {
                self.capacity = self.capacity.saturating_sub(1);
                self.changed();
                format!("capacity {}", self.capacity)
            } else {
                "it will be replaced".to_owned()
            };
            self.tell(at, format!("{} was evicted, {afterwards}", called(&member.provider_id)));
        }
        if !victims.is_empty() {
            self.replace_lost(at);
        }
        victims.into_iter().map(|member| member.provider_id).collect()
    }

    /// Adds running instances from outside, and raises the capacity by their number.
    pub(super) fn attach(&mut self, at: Duration, count: u32) {
        for _ in 0..count {
            self.add_member(at, Phase::Running);
        }
        self.capacity = self.capacity.saturating_add(count);
        self.changed();
        self.tell(at, format!("{} attached from outside, capacity {}", instances(count), self.capacity));
    }
}

/// So many instances, in words.
pub(super) fn instances(count: u32) -> String {
    if count == 1 { "1 instance".to_owned() } else { format!("{count} instances") }
}
