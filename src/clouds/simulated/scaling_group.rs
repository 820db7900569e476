//! How an Auto Scaling group behaves: it adjusts its instances to its desired capacity by itself.
//!
//! A new desired capacity is visible at once and acted on later. Failed launches are retried forever. A surplus of
//! instances is tolerated for about twenty seconds and then terminated.

use std::time::Duration;

use super::agenda::Due;
use super::chance::{draw, seconds};
use super::group::Group;
use super::lifecycle::instances;
use super::member::{DeletionAccounting, Phase, Transition};
use super::outcome::DeleteOutcome;
use super::plan::GroupStyle;
use super::record::{ActivityKind, Author, Refusal, RefusalKind};
use crate::cloud::Permit;

/// How long an Auto Scaling group takes to notice that an instance is lost.
const REPLACE_AFTER: Duration = Duration::from_secs(5);

impl Group {
    /// `SetDesiredCapacity`.
    pub(super) fn set_desired(&mut self, at: Duration, to: u32, author: Author) -> Result<(), Refusal> {
        let invalid = |message: String| Err(Refusal::new(RefusalKind::Refused, "ValidationError", message));
        if to > self.plan.max {
            return invalid(format!("New SetDesiredCapacity value {to} is above max value {}", self.plan.max));
        }
        if to < self.plan.min {
            return invalid(format!("New SetDesiredCapacity value {to} is below min value {}", self.plan.min));
        }
        if to > self.capacity
            && let Some(failure) = self.launch_refusal()
        {
            return Err(Refusal::planned(&failure));
        }
        self.take_capacity(at, to, author);
        let lag = draw(&mut self.rng, &self.plan.acts_after);
        self.reconcile_no_later_than(at + lag);
        self.watch_surplus(at);
        Ok(())
    }

    /// Stores a new capacity, from any client.
    pub(super) fn take_capacity(&mut self, at: Duration, to: u32, author: Author) {
        let from = std::mem::replace(&mut self.capacity, to);
        self.changed();
        self.forget_ended_surplus();
        let by = if author == Author::External { " (from outside)" } else { "" };
        if to > from {
            self.narrate(at, format!("{} launching, capacity {from} → {to}{by}", instances(to - from)));
        } else if to < from {
            self.lowered_by = author;
            self.narrate(at, format!("capacity {from} → {to}{by}"));
        }
    }

    /// `TerminateInstanceInAutoScalingGroup`. Returns false if the instance was gone or being
    /// deleted already.
    pub(super) fn terminate(&mut self, at: Duration, id: &str, decrement: bool) -> Result<bool, Refusal> {
        let Some(serial) = self.find(id) else { return Ok(false) };
        let Some(phase) = self.members.get(&serial).map(|member| member.phase) else { return Ok(false) };
        if phase == Phase::Deleting {
            // AWS lowers the desired capacity each time, although the instance goes only once (autoscaler #2930): for
            // a termination that is sent twice, and for an instance that another client or the group itself is
            // terminating.
            if decrement && self.capacity > self.plan.min {
                self.take_capacity(at, self.capacity - 1, Author::Caller);
                self.watch_surplus(at);
            }
            return Ok(false);
        }
        if let Permit::Withheld(reason) = &self.plan.removal {
            return Err(Refusal::new(RefusalKind::Refused, "ValidationError", reason.clone()));
        }
        if decrement && self.capacity <= self.plan.min {
            let message = format!(
                "Currently, desiredSize equals minSize ({}). Terminating instance without replacement will violate \
                 group's min size constraint.",
                self.plan.min
            );
            return Err(Refusal::new(RefusalKind::Refused, "ValidationError", message));
        }
        let failure = match self.draw_deletion() {
            DeleteOutcome::Fine => None,
            DeleteOutcome::FailsLater(failure) => Some(failure),
            DeleteOutcome::Refused(failure) => return Err(Refusal::planned(&failure)),
        };
        if decrement {
            self.capacity -= 1;
            self.changed();
        } else {
            self.reconcile_no_later_than(at + REPLACE_AFTER);
        }
        let accounting = if decrement { DeletionAccounting::Released } else { DeletionAccounting::None };
        self.begin_deletion(serial, at, None, accounting, failure);
        Ok(true)
    }

    /// Launches what is missing.
    pub(super) fn reconcile(&mut self, at: Duration) {
        if self.plan.style != GroupStyle::AutoScaling || self.plan.growth != Permit::Granted {
            return;
        }
        let have = self.count(|member| member.phase == Phase::Requested || member.phase.lives());
        for _ in have.saturating_sub(self.surplus)..self.capacity {
            let activity = self.open_activity(at, ActivityKind::Launch, None);
            let (after, transition) = self.draw_launch();
            let serial = self.add_member(at, Phase::Requested);
            if let Some(member) = self.members.get_mut(&serial) {
                member.activity = Some(activity);
            }
            if matches!(transition, Transition::LaunchFails { .. } | Transition::ZoneFails(_)) {
                self.schedule_transition(serial, at + after, transition);
            } else {
                let listed = draw(&mut self.rng, &seconds(1, 2)).min(after);
                self.schedule_transition(
                    serial,
                    at + listed,
                    Transition::Listed(after.saturating_sub(listed), Box::new(transition)),
                );
            }
        }
        self.watch_surplus(at);
    }

    /// Terminates the surplus, if there still is one and it is not protected.
    pub(super) fn scale_in(&mut self, at: Duration) {
        if self.plan.is_protected {
            return;
        }
        let surplus = self.live_without_surplus().saturating_sub(self.capacity);
        if surplus > 0 {
            self.kill(surplus, at, None);
        }
    }

    /// Schedules the termination of a surplus.
    pub(super) fn watch_surplus(&mut self, at: Duration) {
        if self.plan.style == GroupStyle::AutoScaling
            && self.scale_in_at.is_none()
            && self.live_without_surplus() > self.capacity
        {
            let due = at + draw(&mut self.rng, &self.plan.scale_in_lag);
            self.scale_in_at = Some(due);
            self.schedule(due, Due::ScaleIn);
        }
    }

    /// A surplus that has ended is terminated no more, and the next one is tolerated as long as any.
    pub(super) fn forget_ended_surplus(&mut self) {
        if self.live_without_surplus() <= self.capacity {
            self.scale_in_at = None;
        }
    }

    /// Retries failed launches later.
    pub(super) fn retry_later(&mut self, at: Duration) {
        // A wait of zero would never let time pass.
        self.reconcile_no_later_than(at + self.plan.retry_every.max(Duration::from_millis(1)));
    }

    /// Replaces instances that were lost.
    pub(super) fn replace_lost(&mut self, at: Duration) {
        self.reconcile_no_later_than(at + REPLACE_AFTER);
    }

    pub(super) fn reconcile_no_later_than(&mut self, due: Duration) {
        if self.plan.style == GroupStyle::AutoScaling && self.reconcile_at.is_none_or(|planned| planned > due) {
            self.reconcile_at = Some(due);
            self.schedule(due, Due::Reconcile);
        }
    }
}
