//! How a VM scale set behaves: each write is one operation, and nothing happens by itself.

use std::time::Duration;

use super::group::Group;
use super::lifecycle::instances;
use super::member::{DeletionAccounting, Member, Phase};
use super::outcome::DeleteOutcome;
use super::plan::{Accounting, GroupStyle, Overlap, Sizing};
use super::record::{Author, DeletionResult, Ending, OperationKind, Refusal, RefusalKind};
use crate::cloud::{Permit, Provisioning};

/// The most instances that a scale set takes.
const CAPACITY_MAX: u32 = 1000;

impl Group {
    /// `PATCH sku.capacity`, if the etag still equals `if_match`. Returns the operation.
    ///
    /// A lower capacity deletes instances of the scale set's own choice at once: as many as are beyond it, or, where
    /// the capacity is nominal, as many as it is lower.
    pub(super) fn resize(
        &mut self,
        at: Duration,
        to: u32,
        if_match: Option<&str>,
        author: Author,
    ) -> Result<u64, Refusal> {
        if if_match.is_some_and(|expected| self.etag().as_deref() != Some(expected)) {
            let message = "The etag provided in the If-Match header does not match the resource's.";
            return Err(Refusal::new(RefusalKind::Conflict, "PreconditionFailed", message));
        }
        self.refuse_if_busy()?;
        if to > CAPACITY_MAX {
            let message = format!("The capacity {to} is above the greatest possible, {CAPACITY_MAX}.");
            return Err(Refusal::new(RefusalKind::Refused, "InvalidParameter", message));
        }
        if to > self.capacity {
            if let Permit::Withheld(reason) = &self.plan.growth {
                return Err(Refusal::new(RefusalKind::Refused, "OperationNotAllowed", reason.clone()));
            }
            if let Some(failure) = self.launch_refusal() {
                return Err(Refusal::planned(&failure));
            }
        }
        self.preempt_others(at);
        let before = match self.plan.sizing {
            Sizing::Actual => self.count(|member| member.counts()).saturating_sub(self.surplus),
            Sizing::Nominal => self.capacity,
        };
        self.take_capacity(at, to, author);
        let operation = self.open_operation(at, OperationKind::Resize);
        for _ in before..to {
            let (after, transition) = self.draw_launch();
            let serial = self.add_member(at, Phase::Creating);
            self.assign(serial, Some(operation), at);
            self.schedule_transition(serial, at + after, transition);
        }
        self.kill(before.saturating_sub(to), at, Some(operation));
        self.stop_counting_beyond(to);
        self.close_if_done(operation, at);
        Ok(operation)
    }

    /// Stops counting instances being deleted that the new capacity has no room for: the capacity does not fall when
    /// they are gone.
    fn stop_counting_beyond(&mut self, capacity: u32) {
        let excess = self.count(|member| member.counts()).saturating_sub(capacity);
        let going = self.members.values_mut().filter(|member| member.accounting == DeletionAccounting::UntilGone);
        for member in going.take(usize::try_from(excess).unwrap_or(usize::MAX)) {
            member.accounting = DeletionAccounting::None;
        }
    }

    /// `POST …/delete`: deletes the named instances, and lowers the capacity by their number when its accounting says
    /// so.
    pub(super) fn delete(&mut self, at: Duration, ids: &[&str]) -> Result<DeletionResult, Refusal> {
        let mut result = DeletionResult::default();
        let mut serials = Vec::new();
        for id in ids {
            // Where this operation preempts others, an instance that another one deletes can be deleted again.
            let goes = |member: &Member| {
                let is_freed = self.plan.overlap == Overlap::Preempt && member.accounting != DeletionAccounting::None;
                member.phase == Phase::Deleting && !is_freed
            };
            let going = |serial: &u64| self.members.get(serial).is_none_or(goes);
            match self.find(id) {
                Some(serial) if !going(&serial) && !serials.contains(&serial) => {
                    serials.push(serial);
                    result.accepted.push((*id).to_owned());
                }
                _ => result.already_gone.push((*id).to_owned()),
            }
        }
        if serials.is_empty() {
            return Ok(result);
        }
        if let Permit::Withheld(reason) = &self.plan.removal {
            return Err(Refusal::new(RefusalKind::Refused, "OperationNotAllowed", reason.clone()));
        }
        self.refuse_if_busy()?;
        let mut failures = Vec::new();
        for _ in &serials {
            failures.push(match self.draw_deletion() {
                DeleteOutcome::Fine => None,
                DeleteOutcome::FailsLater(failure) => Some(failure),
                DeleteOutcome::Refused(failure) => return Err(Refusal::planned(&failure)),
            });
        }
        self.preempt_others(at);
        let operation = self.open_operation(at, OperationKind::Delete);
        result.operation = Some(operation);
        let accounting = match self.plan.accounting {
            Accounting::OnAccept => DeletionAccounting::Released,
            Accounting::WhenGone => DeletionAccounting::UntilGone,
        };
        self.changed();
        for (serial, failure) in serials.into_iter().zip(failures) {
            if accounting == DeletionAccounting::Released {
                self.capacity = self.capacity.saturating_sub(1);
            }
            self.begin_deletion(serial, at, Some(operation), accounting, failure);
        }
        let count = u32::try_from(result.accepted.len()).unwrap_or(u32::MAX);
        let until = if accounting == DeletionAccounting::UntilGone { " until then" } else { "" };
        self.narrate(at, format!("{} being deleted, capacity {}{until}", instances(count), self.capacity));
        Ok(result)
    }

    /// Whether an operation runs, or an upgrade, which adds instances of its own; otherwise, how the last one ended.
    pub fn provisioning(&self) -> Provisioning {
        let is_running = self.operations.values().any(|operation| operation.ending.is_none());
        if self.plan.style == GroupStyle::AutoScaling || is_running || self.surplus > 0 {
            return Provisioning::Running;
        }
        match self.operations.values().next_back().map(|last| &last.ending) {
            Some(Some((_, Ending::Failed(_)))) => Provisioning::Failed,
            _ => Provisioning::Succeeded,
        }
    }

    /// Refuses a write during another operation, if the plan says so.
    fn refuse_if_busy(&self) -> Result<(), Refusal> {
        let busy = self.operations.values().any(|operation| operation.ending.is_none());
        if busy && self.plan.overlap == Overlap::Conflict {
            let message = "Another operation is in progress on this scale set.";
            return Err(Refusal::new(RefusalKind::Conflict, "AnotherOperationInProgress", message));
        }
        Ok(())
    }

    /// Stops the operations in progress for a new one, if the plan says so.
    fn preempt_others(&mut self, at: Duration) {
        if self.plan.overlap == Overlap::Preempt {
            let busy = self.operations.values().filter(|operation| operation.ending.is_none());
            for number in busy.map(|operation| operation.number).collect::<Vec<_>>() {
                self.preempt(number, at);
            }
        }
    }

    /// Stops an operation: its deletions are undone, and instances being created continue without it.
    fn preempt(&mut self, number: u64, at: Duration) {
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.ending = Some((at, Ending::Preempted));
        }
        let part_of_it: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, member)| member.operation == Some(number))
            .map(|(serial, _)| *serial)
            .collect();
        for serial in part_of_it {
            let Some(member) = self.members.get_mut(&serial) else { continue };
            member.operation = None;
            // Instances that no client named are deleted anyway.
            if member.phase == Phase::Deleting && member.accounting != DeletionAccounting::None {
                self.resume(serial);
            }
        }
    }
}
