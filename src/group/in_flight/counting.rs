//! Whether the capacity still counts each instance being deleted, as far as observations show it.

use std::collections::BTreeSet;

use super::InFlight;
use crate::cloud::{Consistency, Counts, Instance, InstanceState, ProviderId};
use crate::group::accounting::{Accounting, Baseline};
use crate::group::census::census;
use crate::group::observation::{Observation, count};
use crate::group::operation::{Attempt, Operation, OperationRequest, Phase};

impl InFlight {
    /// A cloud that removes its own surplus deletes instances that its capacity does not count.
    pub(crate) fn note_surplus_leaving(&mut self, observation: &Observation) {
        for instance in &observation.instances {
            let is_new = instance.state == InstanceState::Deleting && !self.accounting.contains_key(&instance.id);
            if self.surplus > 0 && is_new {
                self.surplus -= 1;
                self.accounting.insert(instance.id.clone(), Accounting::NotCounted);
            }
        }
    }

    /// Notes what an observation shows of the deletion that was computed on this baseline.
    pub(crate) fn learn_accounting(&mut self, baseline: &Baseline, observation: &Observation) {
        if !self.operations.iter().any(|operation| operation.id == baseline.operation) {
            return;
        }
        // A read that is older than the deletion would show that the capacity still counts them.
        if !self.unread.is_disjoint(&baseline.named) {
            return;
        }
        let shown = baseline.accounting(observation);
        // A later read that does not show it takes nothing back.
        if shown == Accounting::Unknown {
            return;
        }
        for id in &baseline.named {
            if !self.accounting(id).is_uncounted() {
                self.accounting.insert(id.clone(), shown);
            }
        }
    }

    /// The instances of accepted deletions that an observation is too old to show. A cloud that documents which
    /// instances its capacity counts lowers it when it accepts a deletion, and shows the instance as being deleted from
    /// then on. So a read that does not is older than the deletion: AWS's reads lag by seconds, and one can lag more than
    /// the one before it.
    ///
    /// Of any but a first attempt that was accepted, no read has to show that until one shows that the capacity fell by it.
    pub(crate) fn not_shown_by(&self, observation: &Observation) -> BTreeSet<ProviderId> {
        let is_recent = |one: &&Operation| {
            one.phase == Phase::Unpolled && observation.begun.since(one.accepted) <= Consistency::LAG
        };
        let lowers = |id: &&ProviderId, attempt: Attempt| match self.accounting(id) {
            Accounting::GivenUp => true,
            Accounting::Unknown | Accounting::Counted => attempt == Attempt::First,
            Accounting::NotCounted => false,
        };
        let deletions = self.operations.iter().filter(is_recent).filter_map(|one| match &one.request {
            OperationRequest::Deletion { ids, attempt, .. } => Some((ids, *attempt)),
            OperationRequest::Capacity { .. } => None,
        });
        let named = deletions.flat_map(|(ids, attempt)| ids.iter().filter(move |id| lowers(id, attempt)));
        let named: BTreeSet<&ProviderId> = named.collect();
        let lives = |one: &&Instance| one.counts == Counts::Yes && one.state != InstanceState::Deleting;
        let listed = observation.instances.iter().filter(lives).map(|one| &one.id);
        listed.filter(|id| named.contains(id)).cloned().collect()
    }

    /// Keeps the accounting of instances that are still being deleted, and of no others.
    pub(crate) fn forget_accounting(&mut self, observation: &Observation) {
        let leaving: BTreeSet<&ProviderId> =
            observation.instances.iter().filter(|one| self.is_leaving(one)).map(|one| &one.id).collect();
        let accounting = std::mem::take(&mut self.accounting);
        let operations = &self.operations;
        let is_deleted = |id: &ProviderId| operations.iter().filter_map(Operation::deletes).any(|ids| ids.contains(id));
        self.accounting = accounting.into_iter().filter(|(id, _)| leaving.contains(id) || is_deleted(id)).collect();
    }

    /// Notes that the capacity counts none of the instances being deleted, where live instances alone account for all
    /// of it.
    pub(crate) fn note_uncounted(&mut self, observation: &Observation) {
        if observation.reading.desired > census(observation, self).live.saturating_sub(self.surplus) {
            return;
        }
        let deleting = observation.instances.iter().filter(|one| one.state == InstanceState::Deleting);
        for instance in deleting {
            // The deletions of ours that lower nothing are excluded when they are sent.
            let is_ours = self.deletes(&instance.id);
            self.leave_out(&instance.id, if is_ours { Accounting::GivenUp } else { Accounting::NotCounted });
        }
    }

    /// The instances being deleted that the capacity has no room for beside those that live. Ones that it is known to
    /// count are among them only where the capacity was read later than the instances: it has lost those that are gone
    /// by now.
    pub(crate) fn without_room(&self, observation: &Observation) -> BTreeSet<ProviderId> {
        let leaving = || observation.instances.iter().filter(|one| self.is_leaving(one));
        let (unread, read): (Vec<_>, Vec<_>) = leaving().partition(|one| self.is_unread(&one.id));
        let has = |accounting: Accounting| move |one: &&&Instance| self.accounting(&one.id) == accounting;
        let mut counted: Vec<&Instance> = read.iter().filter(has(Accounting::Counted)).copied().collect();
        let unknown = read.iter().filter(has(Accounting::Unknown)).filter(|one| one.counts != Counts::No);
        let taken = census(observation, self).live.saturating_sub(self.surplus) + count(unread.len() + counted.len());
        let desired = observation.reading.desired;
        let is_older = observation.detailed < observation.begun && self.surplus == 0;
        counted.sort_by_key(|one| self.deletes(&one.id));
        let gone = counted.iter().take(if is_older { size(taken.saturating_sub(desired)) } else { 0 });
        let without_room = gone.chain(unknown.skip(size(desired.saturating_sub(taken))));
        without_room.map(|one| one.id.clone()).collect()
    }

    /// Notes that the capacity counts none of these instances. Those that it is known to have given up stay so.
    pub(crate) fn exclude(&mut self, ids: BTreeSet<ProviderId>) {
        for id in ids {
            self.leave_out(&id, Accounting::NotCounted);
        }
    }

    fn leave_out(&mut self, id: &ProviderId, uncounted: Accounting) {
        if !self.accounting(id).is_uncounted() {
            self.accounting.insert(id.clone(), uncounted);
        }
    }
}

fn size(nodes: u32) -> usize {
    usize::try_from(nodes).unwrap_or(usize::MAX)
}
