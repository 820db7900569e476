//! What a VM scale set does: what each write asks for, as one operation, and nothing by itself.

use std::time::Duration;

use super::group::Group;
use super::lifecycle::instances;
use super::member::{Claim, Member, Phase};
use super::plan::{Accounting, Overlap};
use super::record::{Author, Ending, OperationKind, Receipt, Refusal, RefusalKind};
use super::trouble::DeleteOutcome;
use crate::cloud::Permit;

/// The most instances that a scale set takes.
const CAPACITY_MAX: u32 = 1000;

impl Group {
    /// `PATCH sku.capacity`, provided that the etag still is `if_match`. Answers the operation.
    ///
    /// A capacity below what counts deletes instances of the scale set's own choice, at once.
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
        self.take_capacity(at, to, author);
        let operation = self.open_operation(at, OperationKind::Resize);
        let counted = self.count(|member| member.counts());
        for _ in counted..to {
            let (after, fate) = self.draw_launch();
            let serial = self.add_member(at, Phase::Creating);
            self.assign(serial, Some(operation), at);
            self.decide(serial, at + after, fate);
        }
        self.kill(counted.saturating_sub(to), at, Some(operation));
        self.stop_counting_beyond(to);
        self.close_if_done(operation, at);
        Ok(operation)
    }

    /// A capacity that has no room for what is on its way out does not count it, and so does not fall when it is gone.
    fn stop_counting_beyond(&mut self, capacity: u32) {
        let excess = self.count(|member| member.counts()).saturating_sub(capacity);
        let going = self.members.values_mut().filter(|member| member.claim == Claim::UntilGone);
        for member in going.take(usize::try_from(excess).unwrap_or(usize::MAX)) {
            member.claim = Claim::None;
        }
    }

    /// `POST …/delete`: deletes the named instances, and lowers the capacity by their number, when its habit is to.
    pub(super) fn delete(&mut self, at: Duration, ids: &[&str]) -> Result<Receipt, Refusal> {
        let mut receipt = Receipt::default();
        let mut serials = Vec::new();
        for id in ids {
            // What another operation deletes is free again where this one preempts it.
            let goes = |member: &Member| {
                let is_freed = self.plan.overlap == Overlap::Preempt && member.claim != Claim::None;
                member.phase == Phase::Deleting && !is_freed
            };
            let going = |serial: &u64| self.members.get(serial).is_none_or(goes);
            match self.find(id) {
                Some(serial) if !going(&serial) && !serials.contains(&serial) => {
                    serials.push(serial);
                    receipt.accepted.push((*id).to_owned());
                }
                _ => receipt.already_gone.push((*id).to_owned()),
            }
        }
        if serials.is_empty() {
            return Ok(receipt);
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
        receipt.operation = Some(operation);
        let claim = match self.plan.accounting {
            Accounting::OnAccept => Claim::GivenUp,
            Accounting::WhenGone => Claim::UntilGone,
        };
        self.changed();
        for (serial, failure) in serials.into_iter().zip(failures) {
            if claim == Claim::GivenUp {
                self.capacity = self.capacity.saturating_sub(1);
            }
            self.begin_deletion(serial, at, Some(operation), claim, failure);
        }
        let count = u32::try_from(receipt.accepted.len()).unwrap_or(u32::MAX);
        let until = if claim == Claim::UntilGone { " until then" } else { "" };
        self.tell(at, format!("{} being deleted, capacity {}{until}", instances(count), self.capacity));
        Ok(receipt)
    }

    /// Refuses a write while another is under way, where that is the habit.
    fn refuse_if_busy(&self) -> Result<(), Refusal> {
        let busy = self.operations.values().any(|operation| operation.ending.is_none());
        if busy && self.plan.overlap == Overlap::Conflict {
            let message = "Another operation is in progress on this scale set.";
            return Err(Refusal::new(RefusalKind::Conflict, "AnotherOperationInProgress", message));
        }
        Ok(())
    }

    /// Gives up the operations under way for a new one, where that is the habit.
    fn preempt_others(&mut self, at: Duration) {
        if self.plan.overlap == Overlap::Preempt {
            let busy = self.operations.values().filter(|operation| operation.ending.is_none());
            for number in busy.map(|operation| operation.number).collect::<Vec<_>>() {
                self.preempt(number, at);
            }
        }
    }

    /// Gives an operation up: deletions under way are taken back, instances being created go on without it.
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
            // Nobody waits for those that nobody named: they go.
            if member.phase == Phase::Deleting && member.claim != Claim::None {
                self.resume(serial);
            }
        }
    }
}
