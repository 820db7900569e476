//! Live instances beyond the capacity: how many there are, how that came about, and which of them may be the cloud's
//! own.

use std::collections::BTreeSet;

use super::GroupState;
use crate::cloud::{Counts, Deletions, Instance, ProviderId, Provisioning};
use crate::group::accounting::Accounting;
use crate::group::census::Census;
use crate::group::observation::{Observation, count};
use crate::group::operation::{Operation, Phase};
use crate::group::surplus::Surplus;

impl GroupState {
    /// How live instances came to exceed the capacity, if they do.
    pub(crate) fn surplus(&self) -> Option<Surplus> {
        self.surplus
    }

    /// Whether the cloud itself launched the live instances beyond the capacity, as far as is known.
    pub(crate) fn has_own_surplus(&self) -> bool {
        self.has_surplus() && matches!(self.surplus, Some(Surplus::Launched | Surplus::FoundAtStart))
    }

    pub(crate) fn has_surplus(&self) -> bool {
        let census = self.census();
        census.live > census.capacity
    }

    /// Whether live instances exceed the capacity as far as reads show it. A launch that they do not show yet and a
    /// surplus of the cloud's own look the same.
    pub(super) fn may_have_own_surplus(&self) -> bool {
        let (census, unshown) = (self.census(), self.in_flight.unshown());
        self.has_own_surplus() || (unshown > 0 && census.live > census.capacity.saturating_sub(unshown))
    }

    /// Whether the cloud deletes none of the live instances by itself.
    pub(crate) fn is_protected(&self) -> bool {
        self.in_flight.is_protected(&self.observation)
    }

    /// Whether live instances beyond the capacity that a start finds are there to stay: they are protected, or the scale
    /// set is at rest. Then an earlier process's deletion may have failed and left a capacity far below the live
    /// instances; a scale-up from that would delete them (#7432).
    pub(super) fn is_to_stay(&self) -> bool {
        self.is_protected() || self.is_at_rest()
    }

    /// Whether deletions can fail, and the cloud is changing nothing: it deletes none of the live instances any more,
    /// however they came to be beyond the capacity.
    pub(super) fn is_at_rest(&self) -> bool {
        let reading = &self.observation.reading;
        reading.consistency.deletions == Deletions::CanFail && reading.provisioning != Provisioning::Running
    }

    /// Whether any of these, which were being deleted, live again because their deletion failed. These are no surplus
    /// of the cloud's own.
    pub(crate) fn has_revived(&self, deleted: &BTreeSet<ProviderId>) -> bool {
        let lives = |one: &&Instance| one.counts != Counts::No && !self.in_flight.is_leaving(one);
        let mut live = self.observation.instances.iter().filter(lives);
        self.observation.reading.consistency.deletions == Deletions::CanFail
            && live.any(|one| deleted.contains(&one.id))
    }

    /// Whether fewer instances are listed without an ID than before. Azure lists some so while it deletes them: those that
    /// have one again are no surplus of the cloud's own.
    pub(super) fn has_surfaced(&self, hidden_before: u32) -> bool {
        let reading = &self.observation.reading;
        reading.consistency.deletions == Deletions::CanFail && reading.without_id < hidden_before
    }

    /// The instances being deleted that the capacity has fallen by already, or never counted.
    pub(super) fn given_up_among(&self, leaving: &BTreeSet<ProviderId>) -> BTreeSet<ProviderId> {
        let in_flight = &self.in_flight;
        let is_given_up = |id: &&ProviderId| in_flight.accounting(id).is_uncounted() && !in_flight.is_unread(id);
        leaving.iter().filter(is_given_up).cloned().collect()
    }

    /// Whether the capacity fell from `before` by more than our writes account for, and the instances that it counted and
    /// that left. It does not fall again by those that it had given up. Called with `in_flight` as it is after the
    /// observation.
    pub(crate) fn is_capacity_lost(
        &self,
        before: u32,
        given_up: &BTreeSet<ProviderId>,
        observation: &Observation,
    ) -> bool {
        let fell = before.saturating_sub(self.in_flight.capacity(&observation.reading));
        let listed: BTreeSet<&ProviderId> = observation.instances.iter().map(|instance| &instance.id).collect();
        let has_left = |one: &Instance| !listed.contains(&one.id) || self.in_flight.deletes(&one.id);
        let is_given_up = |one: &Instance| given_up.contains(&one.id);
        let explained = |one: &&Instance| one.counts != Counts::No && has_left(one) && !is_given_up(one);
        let explained = count(self.observation.instances.iter().filter(explained).count());
        fell > explained && !self.has_lowered(observation, self.in_flight.unshown())
    }

    /// Instances that were read before the capacity may lack those that it has room for.
    pub(crate) fn note_surplus(&mut self) {
        if self.observation.detailed < self.observation.begun {
            return;
        }
        let census = self.census();
        // Where the capacity fell, the cloud is about to delete instances: they are no surplus of its own.
        let is_own = !matches!(self.surplus, Some(Surplus::CapacityFell | Surplus::Lasting));
        let beyond = census.live.saturating_sub(census.remaining).max(self.new_without_room(census));
        self.in_flight.note_surplus(if is_own { beyond } else { 0 });
    }

    /// Instances that came up while the capacity was known to count as many as are being deleted. Live ones alone may
    /// account for all of it by now, but that does not take those out of it.
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

    /// Notes which instances the capacity has room for, as far as an observation tells: all live ones, or only those that
    /// our launches made. Each of these raises it.
    pub(crate) fn note_room(&mut self) {
        let in_flight = &self.in_flight;
        let observation = &self.observation;
        self.within_capacity
            .retain(|id| in_flight.deletes(id) || observation.instances.iter().any(|one| one.id == *id));
        let has_room = !self.has_surplus() && !self.may_have_own_surplus() && in_flight.surplus() == 0;
        let live = observation.instances.iter().filter(|one| one.counts != Counts::No && !in_flight.is_leaving(one));
        let within = live.filter(|one| has_room || in_flight.has_launched(&one.id));
        self.within_capacity.extend(within.map(|one| one.id.clone()));
    }

    /// How many live instances the capacity once had room for.
    pub(super) fn live_within_capacity(&self) -> u32 {
        count(self.live_ids().filter(|id| self.within_capacity.contains(*id)).count())
    }

    fn live_ids(&self) -> impl Iterator<Item = &ProviderId> {
        let is_live = |one: &&Instance| one.counts != Counts::No && !self.in_flight.is_leaving(one);
        self.observation.instances.iter().filter(is_live).map(|one| &one.id)
    }

    /// How many of these instances, which the cloud launched for reasons of its own, live and never had room in the
    /// capacity.
    pub(super) fn listed_among(&self, instances: &[String]) -> u32 {
        let live = self.live_ids();
        let beyond: BTreeSet<&str> =
            live.filter(|id| !self.within_capacity.contains(*id)).map(ProviderId::instance).collect();
        count(instances.iter().filter(|name| beyond.contains(name.as_str())).count())
    }
}
