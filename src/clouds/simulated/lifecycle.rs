//! How instances are launched and deleted, in both styles of groups.

use std::time::Duration;

use super::agenda::Due;
use super::chance::draw;
use super::group::Group;
use super::member::{DeletionAccounting, Phase, Transition};
use super::outcome::{DeleteOutcome, LaunchOutcome, PlannedFailure};
use super::plan::{GroupStyle, Sizing};
use super::record::{ActivityKind, ActivityStatus};
use super::world::display_name;
use crate::cloud::ProviderId;

impl Group {
    /// Draws the outcome of the next launch, and how long it takes.
    pub(super) fn draw_launch(&mut self) -> (Duration, Transition) {
        self.launches = self.launches.saturating_add(1);
        let outcome = self
            .plan
            .launch_outcomes
            .outcome_for(self.launches, &mut self.rng, |outcome| !matches!(outcome, LaunchOutcome::Refused(_)))
            .cloned();
        match outcome {
            Some(LaunchOutcome::Fails { failure, after, rollback }) => {
                (draw(&mut self.rng, &after), Transition::LaunchFails { failure, rollback })
            }
            Some(LaunchOutcome::FailsInZone { failure, after }) => {
                (draw(&mut self.rng, &after), Transition::ZoneFails(failure))
            }
            Some(LaunchOutcome::Breaks { failure, after }) => {
                (draw(&mut self.rng, &after), Transition::Breaks(failure))
            }
            _ => (draw(&mut self.rng, &self.plan.launch_time), Transition::Running),
        }
    }

    /// Why a write that requests launches is refused, if it is.
    pub(super) fn launch_refusal(&mut self) -> Option<PlannedFailure> {
        let next = self.launches.saturating_add(1);
        let is_refusal = |outcome: &LaunchOutcome| matches!(outcome, LaunchOutcome::Refused(_));
        match self.plan.launch_outcomes.outcome_for(next, &mut self.rng, is_refusal) {
            Some(LaunchOutcome::Refused(failure)) => Some(failure.clone()),
            _ => None,
        }
    }

    /// Draws the outcome of the next deletion.
    pub(super) fn draw_deletion(&mut self) -> DeleteOutcome {
        self.deletions = self.deletions.saturating_add(1);
        let outcome = self.plan.delete_outcomes.outcome_for(self.deletions, &mut self.rng, |_| true);
        outcome.cloned().unwrap_or(DeleteOutcome::Fine)
    }

    /// Schedules the next transition of an instance.
    pub(super) fn schedule_transition(&mut self, serial: u64, at: Duration, transition: Transition) {
        if let Some(member) = self.members.get_mut(&serial) {
            member.transition = Some((at, transition));
            self.schedule(at, Due::Transition(serial));
        }
    }

    /// Begins the deletion of an instance. With a `failure`, it fails at the end.
    pub(super) fn begin_deletion(
        &mut self,
        serial: u64,
        at: Duration,
        operation: Option<u64>,
        accounting: DeletionAccounting,
        failure: Option<PlannedFailure>,
    ) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        // An instance whose deletion fails half way has started by then.
        member.resumes = if member.phase == Phase::Creating { Phase::Running } else { member.phase };
        member.phase = Phase::Deleting;
        member.accounting = accounting;
        let launch = member.activity.take();
        let id = member.id.clone();
        self.forget_ended_surplus();
        self.assign(serial, operation, at);
        if self.plan.style == GroupStyle::AutoScaling {
            self.close_activity(launch, at, ActivityStatus::Cancelled);
            let activity = self.open_activity(at, ActivityKind::Terminate, Some(id));
            if let Some(member) = self.members.get_mut(&serial) {
                member.activity = Some(activity);
            }
        }
        let done = at + draw(&mut self.rng, &self.plan.delete_time);
        self.schedule_transition(serial, done, failure.map_or(Transition::Gone, Transition::DeletionFails));
    }

    /// Applies the transition of an instance, if it is due now.
    pub(super) fn apply_transition(&mut self, serial: u64, at: Duration) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        if member.transition.as_ref().is_none_or(|(due, _)| *due != at) {
            return;
        }
        let Some((_, transition)) = member.transition.take() else { return };
        match transition {
            Transition::Listed(wait, next) => {
                member.phase = Phase::Creating;
                self.name_launched(serial);
                self.schedule_transition(serial, at + wait, *next);
                self.watch_surplus(at);
            }
            Transition::Running => self.now_runs(serial, at),
            Transition::LaunchFails { failure, rollback } => self.launch_failed(serial, at, &failure, rollback),
            Transition::ZoneFails(failure) => self.zone_failed(serial, at, &failure),
            Transition::Breaks(failure) => self.broke(serial, at, failure),
            Transition::Gone => self.went(serial, at),
            Transition::DeletionFails(failure) => self.deletion_failed(serial, at, &failure),
        }
    }

    /// The activity of a launch names its instance as soon as that is listed.
    fn name_launched(&mut self, serial: u64) {
        let Some(member) = self.members.get(&serial) else { return };
        if let Some(activity) = self.activities.iter_mut().find(|one| Some(one.number) == member.activity) {
            activity.instance = Some(member.id.clone());
        }
    }

    fn now_runs(&mut self, serial: u64, at: Duration) {
        self.name_launched(serial);
        let Some(member) = self.members.get_mut(&serial) else { return };
        member.phase = Phase::Running;
        let (activity, operation) = (member.activity.take(), member.operation.take());
        let name = display_name(&member.provider_id);
        self.close_activity(activity, at, ActivityStatus::Successful);
        self.resolve(operation, at, None);
        self.narrate(at, format!("{name} is running"));
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
        self.narrate(at, format!("launch failed: {} - {}{taken_back}", failure.code, failure.message));
        self.retry_later(at);
    }

    /// A launch failed in one zone. The next one, in another zone, begins at once.
    fn zone_failed(&mut self, serial: u64, at: Duration, failure: &PlannedFailure) {
        if self.plan.style == GroupStyle::ScaleSet || self.plan.zones.len() < 2 {
            return self.launch_failed(serial, at, failure, false);
        }
        let Some(member) = self.members.remove(&serial) else { return };
        let failed = self.activities.iter_mut().find(|one| Some(one.number) == member.activity);
        if let Some(activity) = failed {
            activity.is_made_up_for = true;
        }
        self.close_activity(member.activity, at, ActivityStatus::Failed(failure.clone()));
        self.narrate(at, format!("launch failed in {}: {}; trying another zone", member.zone, failure.code));
        self.reconcile(at);
    }

    fn broke(&mut self, serial: u64, at: Duration, failure: PlannedFailure) {
        let Some(member) = self.members.get_mut(&serial) else { return };
        let (activity, operation) = (member.activity.take(), member.operation.take());
        let name = display_name(&member.provider_id);
        member.phase = Phase::Broken;
        member.failure = Some((failure.clone(), at));
        self.narrate(at, format!("{name} failed: {} - {}", failure.code, failure.message));
        self.close_activity(activity, at, ActivityStatus::Failed(failure.clone()));
        self.resolve(operation, at, Some(&failure));
        if self.plan.style == GroupStyle::AutoScaling {
            self.begin_deletion(serial, at, None, DeletionAccounting::None, None);
            self.retry_later(at);
        }
    }

    fn went(&mut self, serial: u64, at: Duration) {
        let Some(member) = self.members.remove(&serial) else { return };
        self.removed += u32::from(member.accounting != DeletionAccounting::None);
        let mut afterwards = String::new();
        if member.accounting == DeletionAccounting::UntilGone {
            self.capacity = self.capacity.saturating_sub(1);
            self.changed();
            afterwards = format!(", capacity {}", self.capacity);
        }
        self.close_activity(member.activity, at, ActivityStatus::Successful);
        self.resolve(member.operation, at, None);
        self.narrate(at, format!("{} is gone{afterwards}", display_name(&member.provider_id)));
    }

    fn deletion_failed(&mut self, serial: u64, at: Duration, failure: &PlannedFailure) {
        let Some((name, activity, operation)) = self.resume(serial) else { return };
        self.close_activity(activity, at, ActivityStatus::Failed(failure.clone()));
        self.resolve(operation, at, Some(failure));
        self.narrate(at, format!("deletion of {name} failed: {} - {}", failure.code, failure.message));
        self.watch_surplus(at);
    }

    /// Undoes a deletion: the instance has its earlier phase, and the capacity counts it again.
    pub(super) fn resume(&mut self, serial: u64) -> Option<(String, Option<u64>, Option<u64>)> {
        let member = self.members.get_mut(&serial)?;
        let accounting = std::mem::replace(&mut member.accounting, DeletionAccounting::None);
        member.phase = member.resumes;
        member.transition = None;
        let taken = (display_name(&member.provider_id), member.activity.take(), member.operation.take());
        // A scale set counts an instance again if its deletion failed, regardless of the client that requested it.
        let uncounted = self.plan.style == GroupStyle::ScaleSet
            && self.count(|member| member.counts()).saturating_sub(self.surplus) > self.capacity;
        if accounting == DeletionAccounting::Released || uncounted {
            self.capacity = self.capacity.saturating_add(1);
            self.changed();
        }
        Some(taken)
    }

    /// Removes running instances, as evictions and host failures do.
    pub(super) fn evict(&mut self, at: Duration, count: usize) -> Vec<ProviderId> {
        let mut running: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, member)| member.phase == Phase::Running)
            .map(|(serial, _)| *serial)
            .collect();
        self.rng.shuffle(&mut running);
        self.lose(at, &running.into_iter().take(count).collect::<Vec<_>>())
    }

    /// Loses these instances: nothing that the group was asked for deleted them.
    pub(super) fn lose(&mut self, at: Duration, serials: &[u64]) -> Vec<ProviderId> {
        let victims: Vec<_> = serials.iter().filter_map(|serial| self.members.remove(serial)).collect();
        for member in &victims {
            // A scale set with eviction policy Delete lowers its capacity; an Auto Scaling group replaces the instance.
            let afterwards = if self.plan.style == GroupStyle::ScaleSet && self.plan.sizing == Sizing::Nominal {
                self.changed();
                format!("capacity {}", self.capacity)
            } else if self.plan.style == GroupStyle::ScaleSet {
                self.capacity = self.capacity.saturating_sub(1);
                self.changed();
                format!("capacity {}", self.capacity)
            } else {
                "it will be replaced".to_owned()
            };
            self.narrate(at, format!("{} was evicted, {afterwards}", display_name(&member.provider_id)));
        }
        self.forget_ended_surplus();
        if !victims.is_empty() {
            self.replace_lost(at);
        }
        victims.into_iter().map(|member| member.provider_id).collect()
    }
}

/// A number of instances, as text.
pub(super) fn instances(count: u32) -> String {
    if count == 1 { "1 instance".to_owned() } else { format!("{count} instances") }
}
