//! All that is known of one group, and how observations and operations change it. Pure: no I/O, no clock, no locks.
//!
//! The keeper owns one of these and drives it; everything that readers see is derived from it by
//! [`GroupState::status`]. `writes.rs` records what becomes of our writes, `undo.rs` tells whether one left the
//! capacity too low, `launches.rs` tells which launches have begun, `surplus.rs` tells how many live instances are
//! beyond the capacity, `placeholders.rs` keeps the placeholders of missing instances, `unfilled.rs` tells which of them a
//! scale set's capacity still holds, and `zones.rs` tells what is shared by zones that are served one by one.

mod launches;
mod launching;
mod placeholders;
mod surplus;
mod undo;
mod unfilled;
mod writes;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::group::Time;

use super::census::{Census, census};
use super::cluster_nodes::ClusterNodes;
use super::in_flight::InFlight;
use super::limits::FAILED_DELETION_LIFE;
use super::observation::{Observation, count};
use super::operation::{Operation, OperationId};
use super::placeholder::Placeholder;
use super::status::{GroupStatus, status, status_of_zone};
use super::surplus::Surplus;
use crate::cloud::{
    Consistency, Deletions, Identity, Instance, InstanceState, LaunchActivity, ProviderId, Reads, ZoneName, differ,
};
use placeholders::Missed;
pub(crate) use undo::WriteReason;
use undo::{LostWrite, RecentWrites};
use unfilled::KindOfCapacity;
pub(crate) use writes::{CapacityWrite, DeletionWrite};

/// One group, from its first good observation on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GroupState {
    /// The last good observation.
    observation: Observation,
    /// What is in flight.
    in_flight: InFlight,
    /// Instances that should exist and do not.
    placeholders: Vec<Placeholder>,
    /// How many placeholders were made so far: the next one's name.
    placeholders_made: u64,
    /// What the cloud reports of recent launches, while instances are missing.
    activity: LaunchActivity,
    /// What our recent writes make of the capacity, where the cloud cannot check them.
    recent_writes: Option<RecentWrites>,
    /// A capacity write without a response that may still take effect.
    lost_write: Option<LostWrite>,
    /// When the group last grew: the cloud accepted or finished a scale-up of ours, or a read showed that another client
    /// had raised the capacity.
    grown: Option<Time>,
    /// Whether the instances last read are those of the capacity last read.
    is_steady: bool,
    /// How live instances came to exceed the capacity, while they do.
    surplus: Option<Surplus>,
    /// Instances that lived when the capacity had room for all that did: since then, none of them is beyond it.
    within_capacity: BTreeSet<ProviderId>,
    /// Instances whose deletion was accepted and failed, and until when the target leaves out those that CA has
    /// tainted.
    survivors: BTreeMap<ProviderId, Time>,
    /// What the group has shown of how its capacity counts.
    kind_of_capacity: KindOfCapacity,
}

impl GroupState {
    /// The state of a group that was never observed before.
    pub(crate) fn new(observation: Observation) -> Self {
        let (began, now) = (observation.at, observation.begun);
        let mut state = Self {
            is_steady: observation.reading.consistency.reads == Reads::Together,
            observation,
            in_flight: InFlight::default(),
            placeholders: Vec::new(),
            placeholders_made: 0,
            activity: LaunchActivity::default(),
            recent_writes: None,
            lost_write: None,
            grown: None,
            surplus: None,
            within_capacity: BTreeSet::new(),
            survivors: BTreeMap::new(),
            kind_of_capacity: KindOfCapacity::Unknown,
        };
        state.in_flight.note_etag(&state.observation.reading);
        let found = if state.is_to_stay() { Surplus::Lasting } else { Surplus::FoundAtStart };
        state.surplus = state.has_surplus().then_some(found);
        state.note_surplus();
        state.note_room();
        state.note_uncounted();
        state.fit_placeholders(0, Missed::Found(began), now);
        state.note_unfilled(true);
        state
    }

    /// The last good observation.
    pub(crate) fn observation(&self) -> &Observation {
        &self.observation
    }

    /// What is in flight.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// The placeholders of missing instances.
    pub(crate) fn placeholders(&self) -> &[Placeholder] {
        &self.placeholders
    }

    /// The numbers of this moment.
    pub(crate) fn census(&self) -> Census {
        let census = census(&self.observation, &self.in_flight);
        match self.surplus {
            Some(Surplus::Lasting) => census.with_all_live(),
            _ => census,
        }
    }

    /// What the cloud reports of recent launches.
    pub(crate) fn activity(&self) -> &LaunchActivity {
        &self.activity
    }

    /// Takes what the cloud reports of recent launches.
    pub(crate) fn learn_activity(&mut self, activity: LaunchActivity) {
        self.activity = activity;
        self.explain_placeholders();
    }

    /// What is reported.
    pub(crate) fn status(&self) -> GroupStatus {
        status(self.census(), &self.observation, &self.in_flight, &self.placeholders)
    }

    /// What is reported of the group, or of a zone of it, where the cluster has these nodes.
    ///
    /// An instance that is a node is not reported as failed to be created: CA would delete it without draining it.
    ///
    /// CA treats its own deletion taint as proof that the instance is gone, since the externalgrpc client cannot report
    /// that it lives. Such a node is neither ready nor upcoming for CA, and while the target includes it, CA considers
    /// the group unhealthy and does not scale it up. So a tainted node whose deletion failed is left out of the target
    /// until CA removes the taint, names the node again, or two minutes have passed.
    pub(crate) fn status_in(&self, zone: Option<&ZoneName>, nodes: &ClusterNodes) -> GroupStatus {
        let status = match zone {
            Some(zone) => status_of_zone(zone, &self.observation, &self.in_flight, &self.placeholders),
            None => self.status(),
        };
        let status = status.with_running(|id| nodes.may_have(id));
        status.with_deleting(|id| self.survivors.contains_key(id) && nodes.has_tainted(id))
    }

    /// Adopts an observation: operations that it shows done drop out, and the placeholders follow the shortfall.
    /// Returns how much of the capacity left with running instances that Headcount did not delete.
    pub(crate) fn observe(&mut self, observation: Observation) -> u32 {
        let now = observation.begun;
        let (before, ran_before, began) = (self.census(), self.running_ids(), self.observation.at);
        let (left_before, lived_before) = (self.leaving_ids(), self.staying_ids());
        let given_up = self.given_up_among(&left_before);
        let hidden_before = self.observation.reading.without_id;
        self.note_capacity_read(&observation);
        self.note_late_deletions(&observation);
        self.forget(&self.replaced_by(&observation));
        self.in_flight = self.in_flight.after(&observation, &self.activity.launched);
        let is_capacity_lost = self.is_capacity_lost(before.capacity, &given_up, &observation);
        let (etag, reads) = (&observation.reading.etag, observation.reading.consistency.reads);
        // Instances that were read before the etag changed stay what they are, however often the capacity is read
        // again.
        let is_whole = observation.detailed == observation.begun || self.is_steady;
        self.is_steady = reads == Reads::Together || (is_whole && *etag == self.observation.reading.etag);
        if before.capacity.saturating_add(self.may_count_again()) < observation.reading.desired {
            self.grown = Some(observation.begun);
        }
        let is_listed = |id: &ProviderId| observation.instances.iter().any(|instance| instance.id == *id);
        let read = observation.detailed;
        let is_young = |until: Time| until.since(read) > FAILED_DELETION_LIFE.saturating_sub(Consistency::LAG);
        self.survivors.retain(|id, until| now < *until && (is_listed(id) || is_young(*until)));
        self.observation = observation;
        self.surplus = match self.surplus {
            _ if !self.has_surplus() => None,
            Some(Surplus::Lasting) => Some(Surplus::Lasting),
            _ if is_capacity_lost && self.is_protected() => Some(Surplus::Lasting),
            _ if is_capacity_lost => Some(Surplus::CapacityFell),
            Some(Surplus::CapacityFell | Surplus::FoundAtStart) if self.is_protected() => Some(Surplus::Lasting),
            Some(_) if self.is_at_rest() => Some(Surplus::Lasting),
            None | Some(Surplus::Launched | Surplus::FoundAtStart)
                if self.has_revived(&left_before) || self.has_surfaced(hidden_before) || self.survivors() > 0 =>
            {
                Some(Surplus::Lasting)
            }
            known => known.or(Some(Surplus::Launched)),
        };
        self.note_surplus();
        self.note_room();
        self.note_uncounted();
        let lost = self.lost_with_instances(before, &ran_before);
        self.in_flight.lower_expectations(lost);
        let fell = before.remaining.saturating_sub(self.census().remaining);
        self.fit_placeholders(fell, Missed::Found(began), now);
        self.note_unfilled(false);
        if !lived_before.is_subset(&self.staying_ids()) {
            self.learn_no_kind_of_capacity();
        }
        self.note_kind_of_capacity();
        lost
    }

    /// The IDs under which an observation lists other instances than the last one did, or than those that are being
    /// deleted, which the last one may have lacked. What was requested for the old ones does not apply to these.
    pub(crate) fn replaced_by(&self, observation: &Observation) -> BTreeSet<ProviderId> {
        let listed = self.observation.instances.iter().filter_map(|one| Some((&one.id, one.identity?)));
        let known: BTreeMap<&ProviderId, Identity> = self.in_flight.identities().chain(listed).collect();
        let is_other = |one: &&Instance| known.get(&one.id).is_some_and(|before| differ(Some(*before), one.identity));
        observation.instances.iter().filter(is_other).map(|one| one.id.clone()).collect()
    }

    /// Forgets what was requested for these instances: others have their IDs now.
    pub(crate) fn forget(&mut self, replaced: &BTreeSet<ProviderId>) {
        self.in_flight.forget(replaced);
        self.survivors.retain(|id, _| !replaced.contains(id));
    }

    /// Instances that are not in the target because of a deletion without a response, and that may live on. On a cloud
    /// that reports how deletions end, also those of a deletion that cannot be polled and that a later list still shows
    /// as live.
    pub(crate) fn may_live_on(&self) -> u32 {
        let (in_flight, observation) = (&self.in_flight, &self.observation);
        let is_listed = |one: &Instance| {
            observation.reading.consistency.deletions == Deletions::CanFail
                && in_flight.seems_to_live_on(one, observation.detailed)
        };
        let instances = observation.instances.iter();
        count(instances.filter(|one| in_flight.may_live_on(one) || is_listed(one)).count())
    }

    /// Notes how many instances are to be launched in the place of those that an operation deletes.
    pub(crate) fn owe(&mut self, id: OperationId, number: u32) {
        self.in_flight.owe(id, number);
    }

    /// They were launched, or cannot be.
    pub(crate) fn settle_owed(&mut self) {
        self.in_flight.settle_owed();
    }

    /// How many instances live on although their deletion was accepted, on a cloud that reports how deletions end. Some
    /// of those that a failed operation named may have gone all the same.
    pub(crate) fn survivors(&self) -> u32 {
        let can_fail = self.observation.reading.consistency.deletions == Deletions::CanFail;
        let is_going = |id: &&ProviderId| self.listed(id).is_some_and(|one| one.state == InstanceState::Deleting);
        if can_fail { count(self.survivors.keys().filter(|id| !is_going(id)).count()) } else { 0 }
    }

    /// How many instances the capacity gave up for deletions of ours, on a cloud where these can fail: it may count them
    /// again, and no other client has raised it.
    fn may_count_again(&self) -> u32 {
        if self.observation.reading.consistency.deletions == Deletions::Final {
            return 0;
        }
        let named = self.in_flight.operations().iter().filter_map(Operation::deletes).flatten();
        count(named.filter(|id| self.in_flight.accounting(id).is_uncounted()).count())
    }

    /// Whether the list lacks any of them.
    pub(crate) fn lacks_survivors(&self) -> bool {
        self.survivors.keys().any(|id| self.listed(id).is_none())
    }

    fn listed(&self, id: &ProviderId) -> Option<&Instance> {
        self.observation.instances.iter().find(|one| one.id == *id)
    }

    fn note_uncounted(&mut self) {
        if self.is_steady {
            self.in_flight.note_uncounted(&self.observation);
        }
    }

    /// Where running instances left that Headcount did not delete (an eviction), a running scale-up expects that much
    /// less. Instances that leave while they are being created are what the scale-up itself failed to make.
    fn lost_with_instances(&self, before: Census, ran_before: &BTreeSet<ProviderId>) -> u32 {
        let left = count(ran_before.difference(&self.running_ids()).count());
        before.remaining.saturating_sub(self.census().remaining).min(left)
    }

    /// The instances that run and are not being deleted.
    fn running_ids(&self) -> BTreeSet<ProviderId> {
        let instances = self.observation.instances.iter();
        instances
            .filter(|instance| instance.state == InstanceState::Running && !self.in_flight.is_leaving(instance))
            .map(|instance| instance.id.clone())
            .collect()
    }

    /// The instances that are not being deleted.
    fn staying_ids(&self) -> BTreeSet<ProviderId> {
        let staying = self.observation.instances.iter().filter(|instance| !self.in_flight.is_leaving(instance));
        staying.map(|instance| instance.id.clone()).collect()
    }

    /// The instances that are being deleted.
    fn leaving_ids(&self) -> BTreeSet<ProviderId> {
        let leaving = self.observation.instances.iter().filter(|instance| self.in_flight.is_leaving(instance));
        leaving.map(|instance| instance.id.clone()).collect()
    }

    /// The instances being deleted that the capacity has no room for. What a scale-up adds is for new instances, and
    /// for none of these.
    pub(crate) fn without_room(&self) -> BTreeSet<ProviderId> {
        self.in_flight.without_room(&self.observation)
    }
}

fn size(nodes: u32) -> usize {
    usize::try_from(nodes).unwrap_or(usize::MAX)
}
