//! What observations and time settle: writes become visible, and operations that nothing more will be heard of drop
//! out.

use std::collections::BTreeSet;
use std::time::SystemTime;

use crate::group::Time;

use super::InFlight;
use crate::cloud::{Consistency, GroupReading, Instance, InstanceState, Launched, ProviderId};
use crate::group::limits::OPERATION_LIFE;
use crate::group::observation::{Observation, count};
use crate::group::operation::{Attempt, Operation, OperationRequest, Phase};

impl InFlight {
    /// A capacity write is visible once a read says something other than what the write was computed from. Once a
    /// reduction is visible, so is everything before it.
    pub(crate) fn mark_visible(&mut self, reading: &GroupReading) {
        let mut expected_read = reading.desired;
        let mut reduced = None;
        for (position, operation) in self.operations.iter_mut().enumerate() {
            let is_reduction = operation.is_reduction();
            if let OperationRequest::Capacity { from, to, is_visible, outdated, .. } = &mut operation.request
                && !*is_visible
            {
                let is_older = reading.etag.as_ref().is_none_or(|etag| outdated.contains(etag));
                if is_older && expected_read == *from {
                    expected_read = *to;
                } else {
                    *is_visible = true;
                    reduced = reduced.max(is_reduction.then_some(position));
                }
            }
        }
        if let Some(reduced) = reduced {
            let mut position = 0;
            self.operations.retain(|operation| {
                let is_outdated =
                    position < reduced && operation.deletes().is_none() && operation.phase == Phase::Unpolled;
                position += 1;
                !is_outdated
            });
        }
    }

    /// A read that shows a deletion of ours is younger than a scale-up that we sent before: it does not lag behind
    /// that. If the deletion got no response, this holds for a scale-up that an earlier read showed: its instances lived
    /// then.
    pub(crate) fn settle_growth(&mut self, observation: &Observation) {
        if observation.reading.consistency.is_guarded() {
            return;
        }
        let leaves = |id: &ProviderId| {
            observation.instances.iter().any(|one| one.id == *id && one.state == InstanceState::Deleting)
        };
        let is_shown = |one: &&Operation| match &one.request {
            OperationRequest::Deletion { ids, attempt: Attempt::First, .. } => ids.iter().any(leaves),
            _ => false,
        };
        let last_shown = self.operations.iter().filter(is_shown).map(|one| one.id).max();
        let mut unsettled = self.operations.iter().filter(|one| one.phase == Phase::Unsettled);
        let shows_late_deletion = unsettled.any(|one| one.deletes().is_some_and(|ids| ids.iter().any(leaves)));
        let may_be_unshown = |one: &Operation| {
            last_shown.is_none_or(|shown| one.id > shown) && !(shows_late_deletion && one.is_visible())
        };
        self.operations.retain(|one| !one.is_unpolled_growth() || may_be_unshown(one));
    }

    /// The instances of our deletions that live, and whose launch began after that: a warm pool returns an instance
    /// under its ID.
    pub(crate) fn launched_again(&self, observation: &Observation, launches: &[Launched]) -> BTreeSet<ProviderId> {
        let deletions = self.operations.iter().filter_map(|one| Some((one.deletes()?, one.sent)));
        let again = deletions.flat_map(|(ids, sent)| {
            let launched = observation.launched_after(sent, launches);
            launched.filter(move |one| ids.contains(&one.id)).map(|one| one.id.clone())
        });
        again.collect()
    }

    /// Settles deletions without a response, instance by instance. One that is being deleted or gone shows that the
    /// deletion took effect. One that lives shows that it did not, but only if it was read later than the write by more
    /// than reads lag.
    pub(crate) fn settle_unknown(&mut self, observation: &Observation) {
        let mut settled = Vec::new();
        for operation in self.operations.iter_mut().filter(|one| one.phase == Phase::Unsettled) {
            if observation.detailed < operation.accepted {
                continue;
            }
            let is_late = observation.detailed.since(operation.accepted) > Consistency::LAG;
            let OperationRequest::Deletion { ids, owed, .. } = &mut operation.request else { continue };
            let lives = |id: &ProviderId| {
                observation.instances.iter().any(|one| one.id == *id && one.state != InstanceState::Deleting)
            };
            let (unsettled, done): (BTreeSet<_>, BTreeSet<_>) = std::mem::take(ids).into_iter().partition(lives);
            if !is_late {
                *ids = unsettled;
            }
            // What lives on needs no other instance in its place.
            let replaced = (*owed).min(count(done.len()));
            *owed = (*owed - replaced).min(count(ids.len()));
            if !done.is_empty() {
                let mut settled_part = operation.clone();
                settled_part.phase = Phase::Unpolled;
                if let OperationRequest::Deletion { ids, owed, .. } = &mut settled_part.request {
                    (*ids, *owed) = (done, replaced);
                }
                settled.push(settled_part);
            }
        }
        self.operations.retain(|one| one.phase != Phase::Unsettled || one.deletes().is_some_and(|ids| !ids.is_empty()));
        self.operations.extend(settled);
    }

    /// The deletions without a response that this observation shows to have taken effect: when each was sent, by the
    /// cloud's clock, and by how much it lowered the capacity.
    pub(crate) fn taken_effect(&self, observation: &Observation) -> Vec<(SystemTime, u32)> {
        let lives = |id: &ProviderId| {
            observation.instances.iter().any(|one| one.id == *id && one.state != InstanceState::Deleting)
        };
        let is_settled = |one: &&Operation| one.phase == Phase::Unsettled && one.accepted <= observation.detailed;
        let unsettled = self.operations.iter().filter(is_settled).filter_map(|one| Some((one.sent, one.deletes()?)));
        let lowered = |ids: &BTreeSet<ProviderId>| {
            count(ids.iter().filter(|id| !self.accounting(id).is_uncounted() && !lives(id)).count())
        };
        unsettled.map(|(sent, ids)| (sent, lowered(ids))).collect()
    }

    /// Whether it is unknown if an earlier deletion of this instance took effect.
    pub(crate) fn is_unsettled(&self, id: &ProviderId) -> bool {
        let unsettled = self.operations.iter().filter(|operation| operation.phase == Phase::Unsettled);
        unsettled.filter_map(Operation::deletes).any(|ids| ids.contains(id))
    }

    /// Whether an instance counts as being deleted only because its deletion got no response: it may live on.
    pub(crate) fn may_live_on(&self, instance: &Instance) -> bool {
        instance.state != InstanceState::Deleting && self.is_unsettled(&instance.id)
    }

    /// Whether a list that was read after its deletion was accepted shows an instance as live, where nothing reports
    /// how the deletion ends: it may have failed, or the list may lag.
    pub(crate) fn seems_to_live_on(&self, instance: &Instance, detailed: Time) -> bool {
        let is_unheard = |one: &&Operation| one.phase == Phase::Unpolled && one.accepted < detailed;
        let mut unheard = self.operations.iter().filter(is_unheard).filter_map(Operation::deletes);
        instance.state != InstanceState::Deleting && unheard.any(|ids| ids.contains(&instance.id))
    }

    /// Whether the cloud has reported that the deletion of this instance succeeded: a list that still shows it lags.
    pub(crate) fn is_deleted(&self, id: &ProviderId) -> bool {
        let succeeded = self.operations.iter().filter(|one| matches!(one.phase, Phase::Succeeded(_)));
        succeeded.filter_map(Operation::deletes).any(|ids| ids.contains(id))
    }

    /// Whether the outcome of any deletion is unknown.
    pub(crate) fn has_unsettled(&self) -> bool {
        self.operations.iter().any(|operation| operation.phase == Phase::Unsettled)
    }

    /// Drops operations that have settled: those whose success is old enough for every read to show it, and those that
    /// nothing more will be heard of.
    pub(crate) fn drop_settled(&mut self, observation: &Observation) {
        self.operations.retain(|operation| {
            // Which instances are gone, only a list of them shows, and that may be older than the capacity. It may also
            // show them for minutes after they are gone (azure-sdk-for-net #36946).
            let read = if operation.deletes().is_some() { observation.detailed } else { observation.begun };
            let is_listed = |id: &ProviderId| observation.instances.iter().any(|one| one.id == *id);
            let is_settled = match operation.phase {
                Phase::Succeeded(at) => {
                    read.since(at) > Consistency::LAG
                        && !operation.deletes().is_some_and(|ids| ids.iter().any(is_listed))
                }
                Phase::Unpolled => read.since(operation.accepted) > Consistency::LAG,
                Phase::Running(_) | Phase::Failed(_) | Phase::Unsettled => false,
            };
            !is_settled && observation.begun.since(operation.accepted) <= OPERATION_LIFE
        });
    }
}
