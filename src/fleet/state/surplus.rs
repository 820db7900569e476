//! Live instances beyond the capacity: how many there are, how that came about, and which of them may be the cloud's own.

use std::collections::BTreeSet;

use super::GroupState;
use crate::cloud::{Counts, Deletions, Instance, InstanceState, OwnLaunches, ProviderId};
use crate::fleet::accounting::Accounting;
use crate::fleet::census::Census;
use crate::fleet::observation::{Observation, count};
use crate::fleet::operation::{Operation, Phase};
use crate::fleet::surplus::Surplus;

impl GroupState {
    /// How live instances came to exceed the capacity, if they do.
    pub(in crate::fleet) fn surplus(&self) -> Option<Surplus> {
        self.surplus
    }

    pub(super) fn has_surplus(&self) -> bool {
        let census = self.census();
        census.live > census.capacity
    }

    /// Whether any of these, which were being deleted, live again because their deletion failed. These are no surplus of the cloud's own.
    pub(super) fn has_revived(&self, deleted: &BTreeSet<ProviderId>) -> bool {
        let lives = |one: &&Instance| one.counts != Counts::No && !self.in_flight.is_leaving(one);
        let mut live = self.observation.instances.iter().filter(lives);
        self.observation.reading.consistency.deletions == Deletions::CanFail
            && live.any(|one| deleted.contains(&one.id))
    }

    /// Whether the capacity fell from `before` by more than our writes and the instances that left account for. Called with
    /// `in_flight` as it is after the observation.
    pub(super) fn is_capacity_lost(&self, before: u32, observation: &Observation) -> bool {
        let fell = before.saturating_sub(self.in_flight.capacity(&observation.reading));
        let listed: BTreeSet<&ProviderId> = observation.instances.iter().map(|instance| &instance.id).collect();
        let explained = |instance: &&Instance| !listed.contains(&instance.id) || self.in_flight.deletes(&instance.id);
        let explained = count(self.observation.instances.iter().filter(explained).count());
        fell > explained && !self.has_lowered(observation)
    }

    /// Instances that were read before the capacity may lack those that it has room for.
    pub(super) fn note_surplus(&mut self) {
        if self.observation.detailed < self.observation.begun {
            return;
        }
        let census = self.census();
        // Where the capacity fell, the cloud is about to delete instances: they are no surplus of its own.
        let is_own = !matches!(self.surplus, Some(Surplus::CapacityFell | Surplus::DeletionFailed));
        let beyond = census.live.saturating_sub(census.remaining).max(self.new_without_room(census));
        self.in_flight.note_surplus(if is_own { beyond } else { 0 });
    }

    /// Instances that came up while the capacity was known to count as many as are being deleted. Live ones alone may account for
    /// all of it by now, but that does not take those out of it.
    ///
    /// A deletion that has ended leaves nothing that the capacity counts, however long a list shows its instances.
    fn new_without_room(&self, census: Census) -> u32 {
        let operations = self.in_flight.operations();
        let is_deleted = |id: &ProviderId| {
            let running = operations.iter().filter(|operation| !matches!(operation.phase, Phase::Succeeded(_)));
            running.filter_map(Operation::deletes).any(|ids| ids.contains(id))
        };
        let instances = || self.observation.instances.iter().filter(|one| one.counts != Counts::No);
        let is_new = |one: &&Instance| !self.in_flight.is_leaving(one) && !self.within_capacity.contains(&one.id);
        let new = count(instances().filter(is_new).count());
        let is_counted =
            |one: &&Instance| is_deleted(&one.id) && self.in_flight.accounting(&one.id) == Accounting::Counted;
        let counted = count(instances().filter(is_counted).count());
        census.live.saturating_add(counted).saturating_sub(census.capacity).min(new)
    }

    /// The live instances that an observation shows as gone or being deleted, by no deletion of ours.
    pub(super) fn removed_by_others(&self, observation: &Observation) -> Vec<ProviderId> {
        let stays = |one: &&Instance| one.state != InstanceState::Deleting;
        let staying: BTreeSet<&ProviderId> = observation.instances.iter().filter(stays).map(|one| &one.id).collect();
        let lived = self.observation.instances.iter().filter(|one| !self.in_flight.is_leaving(one));
        let removed = lived.filter(|one| one.counts != Counts::No && !staying.contains(&one.id));
        removed.map(|one| one.id.clone()).collect()
    }

    /// Notes how much of a surplus of the cloud's own an observation still shows. What the cloud or another client `removed` since
    /// was part of it, for all that is known: instances that nobody named must not be taken for the rest of it. Where they had room in
    /// the capacity, the cloud's own take their places.
    pub(super) fn note_surplus_before(&mut self, removed: &[ProviderId]) {
        let census = self.census();
        let replaced = count(removed.iter().filter(|id| self.within_capacity.contains(*id)).count());
        self.replaced = self.replaced.saturating_add(replaced);
        let removed = count(removed.len());
        if let Some(reduction) = &mut self.reduction {
            let left = reduction.surplus.saturating_sub(removed);
            // After a scale-up, the difference is too small until its instances live.
            let most = if reduction.is_lost() { census.live.saturating_sub(census.capacity) } else { u32::MAX };
            reduction.surplus = left.min(most);
        }
    }

    /// How many live instances a heal makes no room for: those that were beyond the capacity before a write of ours, and
    /// the cloud's `own`, as far as neither has taken the place of one that was removed. (The cloud removes the oldest
    /// instances.) Its activities count such removals, and so do the observations since the capacity last had room for all; both miss
    /// some, and the smaller number is the safer one.
    pub(in crate::fleet) fn beyond(&self, own: &OwnLaunches) -> u32 {
        let own =
            self.counted_among(own.additional()).min(self.counted_among(&own.instances).saturating_sub(self.replaced));
        own.max(self.recent_reduction(self.observation.begun).map_or(0, |recent| recent.surplus))
    }

    /// Notes which instances the capacity has room for, as far as an observation tells: all live ones, or none in particular.
    pub(super) fn note_room(&mut self) {
        let in_flight = &self.in_flight;
        let observation = &self.observation;
        self.within_capacity
            .retain(|id| in_flight.deletes(id) || observation.instances.iter().any(|one| one.id == *id));
        if !self.has_surplus() && self.in_flight.surplus() == 0 {
            let live =
                observation.instances.iter().filter(|one| one.counts != Counts::No && !in_flight.is_leaving(one));
            self.within_capacity.extend(live.map(|one| one.id.clone()));
            self.replaced = 0;
        }
    }

    /// How many of these instances, which the cloud launched for reasons of its own, make the live ones too many: those that
    /// live, and those that a deletion named, unless the capacity once had room for them. It is lower by those that a deletion
    /// named, although it never had room for them.
    fn counted_among(&self, instances: &[String]) -> u32 {
        let is_live = |one: &&Instance| one.counts != Counts::No && !self.in_flight.is_leaving(one);
        let live = self.observation.instances.iter().filter(is_live).map(|one| &one.id);
        let deleted = self.in_flight.operations().iter().filter_map(Operation::deletes).flatten();
        let beyond = live.chain(deleted).filter(|id| !self.within_capacity.contains(*id));
        let counted: BTreeSet<&str> = beyond.map(ProviderId::instance).collect();
        count(instances.iter().filter(|name| counted.contains(name.as_str())).count())
    }
}
