//! Decides what to write for a batch of requests, from a fresh observation. Pure; the keeper carries it out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::observation::count;
use super::operation::Operation;
use super::placeholder::Placeholder;
use super::reading::Polls;
use super::refusal::Refusal;
use super::request::{NamedNode, NodeKind};
use super::state::GroupState;
use super::status::ReportedInstance;
use super::surplus::Surplus;
use super::time::Time;
use crate::cloud::{
    CAPACITY_MAX, Consistency, Counts, Deletions, GroupReading, GrowsBy, Instance, InstanceState, Missing, Permit,
    ProviderId, Provisioning, ZoneName,
};

/// What to write to delete some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeletePlan {
    /// Instances to delete.
    pub instances: Vec<ProviderId>,
    /// Placeholders to take out of the target.
    pub placeholders: BTreeSet<ProviderId>,
    /// Those of the instances in whose place others are to be launched.
    #[serde(default)]
    pub replaced: BTreeSet<ProviderId>,
}

/// The capacity that a reduction may set; `None` if it may set none. It is never below the sum of the instances that it
/// may count and those being launched (law 1), never below the group's minimum, and never above the capacity that was
/// read.
pub(crate) fn reduced_capacity(state: &GroupState, under_way: u32) -> Option<u32> {
    // A capacity write without a response may still take effect (law 7), and so may a launch.
    if !state.may_lower() || state.awaits_lost_write() {
        return None;
    }
    if state.in_flight().is_launching() {
        return None;
    }
    let (census, reading) = (state.census(), &state.observation().reading);
    // If a launch has failed, the launches of the last scale-up have begun.
    let has_begun = state.placeholders().iter().any(|placeholder| placeholder.failure.is_some());
    let is_young = state.may_lack_instances() || (!has_begun && state.has_just_grown());
    if !state.is_steady() || state.may_be_outdated() || is_young || may_still_be_lowered(state) {
        return None;
    }
    // A launch under way still creates its instance after the capacity is lowered, and the cloud then deletes one of
    // its choice.
    let existing = state.observation().counted().saturating_add(under_way).saturating_add(unlisted_deletions(state));
    let lowest = existing.max(reading.min).max(reading.floor);
    let wanted = census.capacity.saturating_sub(state.cancelled()).max(lowest);
    // The new capacity must also be below the one that was read: if the read lags, the actual capacity is not known.
    (wanted < census.capacity && wanted < reading.desired).then_some(wanted)
}

/// Whether a deletion without a response may still lower the capacity, in addition to a reduction of ours. On a scale
/// set, the etag rules this out.
fn may_still_be_lowered(state: &GroupState) -> bool {
    !state.observation().reading.consistency.is_guarded() && state.in_flight().has_unsettled()
}

/// Instances that the cloud is still deleting although the observation does not list them. The observation may be
/// wrong. The cloud may also drop such a deletion in favour of the reduction, and the reduction must leave room for its
/// instances.
fn unlisted_deletions(state: &GroupState) -> u32 {
    let running = state.in_flight().operations().iter().filter(|operation| operation.is_polled());
    let named: BTreeSet<_> = running.filter_map(Operation::deletes).flatten().collect();
    let listed = state.observation().instances.iter().filter(|instance| named.contains(&instance.id)).count();
    count(named.len() - listed)
}

/// The placeholders that a decrease by `number` cancels: failed ones first, then the youngest, and never more than
/// there are. `claimed` is what earlier calls of the same batch cancel.
pub(crate) fn decrease(
    state: &GroupState,
    number: u32,
    zone: Option<&ZoneName>,
    claimed: &DeletePlan,
) -> BTreeSet<ProviderId> {
    let is_here = |placeholder: &Placeholder| placeholder.zone.as_ref() == zone;
    let free = |placeholder: &&Placeholder| {
        is_here(placeholder) && placeholder.in_target() && !claimed.placeholders.contains(&placeholder.id)
    };
    let mut missing: Vec<_> = state.placeholders().iter().rev().filter(free).collect();
    missing.sort_by_key(|placeholder| placeholder.failure.is_none());
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    missing.into_iter().take(number).map(|placeholder| placeholder.id.clone()).collect()
}

/// Decides one DeleteNodes call as a whole (law 6). `claimed` is what earlier calls of the same batch delete.
///
/// With `--force-delete-unregistered-nodes`, CA names instances that never became nodes although the group is at its
/// minimum. Others are launched in their place, where that can be done: the number of instances that are meant to live
/// stays as it is.
pub(crate) fn delete(state: &GroupState, nodes: &[NamedNode], claimed: &DeletePlan) -> Result<DeletePlan, Refusal> {
    let (status, reading) = (state.status(), &state.observation().reading);
    let mut plan = DeletePlan::default();
    let (mut healthy, mut replaceable) = (0_u32, Vec::new());
    for node in nodes {
        let Some(reported) = status.instances.iter().find(|reported| reported.id == node.id) else {
            // Gone already: deleting it again is OK and costs nothing (law 7).
            continue;
        };
        if reported.state == InstanceState::Deleting || plan.has(&reported.id) {
            continue;
        }
        if reported.exists {
            // A node that an earlier call of the batch also names is counted once; both calls get the same response.
            let fills_target = !failed(reported, node) && !is_uncounted(state, &reported.id);
            if fills_target && !claimed.has(&reported.id) {
                healthy += 1;
                replaceable.extend((node.kind == NodeKind::Unregistered).then(|| reported.id.clone()));
            }
            plan.instances.push(reported.id.clone());
        } else {
            plan.placeholders.insert(reported.id.clone());
        }
    }
    if plan.instances.is_empty() {
        return Ok(plan);
    }
    if let Permit::Withheld(reason) = &reading.removal {
        return Err(Refusal::RemovalWithheld { reason: reason.clone() });
    }
    let given_up = plan.placeholders.union(&claimed.placeholders).cloned().collect();
    let room = room_above_min(state, &status.instances, status.target, claimed, &given_up);
    let too_many = usize::try_from(healthy.saturating_sub(room)).unwrap_or(usize::MAX);
    if replacing(reading).is_none() {
        replaceable.clear();
    }
    if too_many > replaceable.len() {
        return Err(Refusal::BelowMin { asked: healthy, room, min: reading.min });
    }
    plan.replaced = replaceable.into_iter().take(too_many).collect();
    Ok(plan)
}

/// How another instance is launched in the place of a deleted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacing {
    /// The cloud does it where a deletion does not lower the capacity.
    ByCloud,
    /// The capacity is raised, under a precondition.
    ByRaising,
}

/// How a deleted instance of this group is replaced, if it can be. Where each zone is served, the cloud would replace it
/// in any of them.
pub(crate) fn replacing(reading: &GroupReading) -> Option<Replacing> {
    let Consistency { deletions, missing, grows_by, .. } = reading.consistency;
    if reading.growth != Permit::Granted || grows_by == GrowsBy::LaunchInZone {
        return None;
    }
    match (deletions, missing) {
        (Deletions::Final, Missing::Retried) => Some(Replacing::ByCloud),
        (Deletions::CanFail, Missing::LeftOut) if reading.consistency.is_guarded() => Some(Replacing::ByRaising),
        _ => None,
    }
}

/// By how much the capacity is to be raised before instances are deleted that others replace; 0 if the maximum leaves
/// no room for that: then it is raised after the deletion.
pub(crate) fn raised_first(state: &GroupState, replaced: u32) -> Result<u32, Refusal> {
    match increase(state, replaced, None, 0) {
        Ok(()) => Ok(replaced),
        Err(Refusal::AboveMax { .. }) => Ok(0),
        Err(refusal) => Err(refusal),
    }
}

/// Whether as many instances may be launched as are owed. The target includes them.
pub(crate) fn permits_owed(state: &GroupState) -> Result<(), Refusal> {
    let reading = &state.observation().reading;
    permits_growth(reading, None)?;
    let (target, delta, max) = (state.status().target, state.in_flight().owed_now(), reading.max);
    if target > max { Err(Refusal::AboveMax { delta, target: target.saturating_sub(delta), max }) } else { Ok(()) }
}

/// The instances among `ids` whose deletion is not to lower the capacity, where a deletion can be sent so: those that it
/// does not count, and as many others as live beyond it, unless the cloud launched those itself and removes them
/// itself. Lowering it for these as well would leave too little room for instances that nobody named (law 1).
pub(crate) fn not_lowering(state: &GroupState, ids: &[ProviderId]) -> BTreeSet<ProviderId> {
    let is_final = state.observation().reading.consistency.deletions == Deletions::Final;
    if !is_final {
        return BTreeSet::new();
    }
    let census = state.census();
    let room = census.capacity.saturating_sub(census.unread);
    let beyond = if state.has_own_surplus() { 0 } else { census.live.saturating_sub(room) };
    let (uncounted, counted): (Vec<_>, Vec<_>) = ids.iter().partition(|id| is_uncounted(state, id));
    let beyond = counted.into_iter().take(usize::try_from(beyond).unwrap_or(usize::MAX));
    uncounted.into_iter().chain(beyond).cloned().collect()
}

/// What preempted deletions still claim: their instances are live until they are deleted again.
pub(crate) fn pending(state: &GroupState, to_resend: &BTreeMap<ProviderId, Time>) -> DeletePlan {
    let in_flight = state.in_flight();
    let lives = |one: &&Instance| to_resend.contains_key(&one.id) && !in_flight.is_leaving(one);
    let instances = state.observation().instances.iter().filter(lives).map(|one| one.id.clone()).collect();
    DeletePlan { instances, ..DeletePlan::default() }
}

/// Whether these can be deleted again without going below the minimum: other instances may have left in the meantime
/// (law 6).
pub(crate) fn permits_again(state: &GroupState, to_resend: &BTreeMap<ProviderId, Time>) -> Result<(), Refusal> {
    let (status, room) = (state.status(), room_to_shrink(state));
    let is_healthy = |id: &&ProviderId| {
        let reported = status.instances.iter().find(|reported| reported.id == **id);
        reported.is_some_and(|reported| reported.failure.is_none()) && !is_uncounted(state, id)
    };
    let asked = count(pending(state, to_resend).instances.iter().filter(is_healthy).count());
    let min = state.observation().reading.min;
    if asked > room { Err(Refusal::BelowMin { asked, room, min }) } else { Ok(()) }
}

/// How many healthy nodes the group may lose before it is below its minimum.
pub(crate) fn room_to_shrink(state: &GroupState) -> u32 {
    let status = state.status();
    room_above_min(state, &status.instances, status.target, &DeletePlan::default(), &BTreeSet::new())
}

/// How many healthy nodes may be deleted before the group is below its minimum. Nodes that failed to be created are
/// left out of this sum: they neither use up that room nor count toward the minimum (law 6). The same applies to nodes
/// that the capacity does not count. Placeholders that are `given_up` leave the target before the nodes do.
fn room_above_min(
    state: &GroupState,
    reported: &[ReportedInstance],
    target: u32,
    claimed: &DeletePlan,
    given_up: &BTreeSet<ProviderId>,
) -> u32 {
    let failed: Vec<_> = reported.iter().filter(|reported| reported.failure.is_some()).collect();
    let leave = |one: &&ReportedInstance| !one.exists && one.failure.is_none() && given_up.contains(&one.id);
    let target = target.saturating_sub(count(reported.iter().filter(leave).count()));
    let is_part = |id: &&ProviderId| {
        !failed.iter().any(|reported| reported.id == **id)
            && !is_uncounted(state, id)
            && !claimed.replaced.contains(*id)
    };
    let claimed_healthy = count(claimed.instances.iter().filter(is_part).count());
    let min = state.observation().reading.min;
    target.saturating_sub(count(failed.len())).saturating_sub(claimed_healthy).saturating_sub(min)
}

/// Whether the capacity does not count an instance (in standby, or overprovisioned).
fn is_uncounted(state: &GroupState, id: &ProviderId) -> bool {
    state.observation().instances.iter().any(|instance| instance.id == *id && instance.counts == Counts::No)
}

fn failed(reported: &ReportedInstance, node: &NamedNode) -> bool {
    reported.failure.is_some() || node.kind == NodeKind::CreateError
}

/// Shows only the first few IDs.
impl fmt::Display for DeletePlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let (instances, placeholders) = (self.instances.len(), self.placeholders.len());
        match (instances, placeholders) {
            (_, 0) => write!(formatter, "delete instances ({instances}):")?,
            (0, _) => write!(formatter, "give up capacity without an instance ({placeholders}):")?,
            _ => {
                write!(formatter, "delete instances ({instances}), and give up capacity without one ({placeholders}):")?
            }
        }
        for id in self.instances.iter().chain(&self.placeholders).take(SHOWN) {
            write!(formatter, " {id}")?;
        }
        if instances + placeholders > SHOWN { formatter.write_str(" …") } else { Ok(()) }
    }
}

impl DeletePlan {
    /// Whether nothing is left to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.instances.is_empty() && self.placeholders.is_empty()
    }

    fn has(&self, id: &ProviderId) -> bool {
        self.instances.contains(id) || self.placeholders.contains(id)
    }

    /// Adds another plan.
    pub(crate) fn join(&mut self, other: Self) {
        let new: Vec<ProviderId> = other.instances.into_iter().filter(|id| !self.instances.contains(id)).collect();
        self.instances.extend(new);
        self.placeholders.extend(other.placeholders);
        self.replaced.extend(other.replaced);
    }
}

fn permits_growth(reading: &GroupReading, zone: Option<&ZoneName>) -> Result<(), Refusal> {
    match zone.map_or_else(|| reading.growth.clone(), |zone| reading.growth_in(zone)) {
        Permit::Granted => Ok(()),
        Permit::Withheld(reason) => Err(Refusal::GrowthWithheld { reason }),
    }
}

/// Decides one IncreaseSize call, for the group or one of its zones. `claimed` is what earlier calls of the same batch
/// add.
pub(crate) fn increase(state: &GroupState, delta: u32, zone: Option<&ZoneName>, claimed: u32) -> Result<(), Refusal> {
    let reading = &state.observation().reading;
    permits_growth(reading, zone)?;
    let target = state.taken().saturating_add(claimed);
    let max = reading.max.min(CAPACITY_MAX);
    if target.saturating_add(delta) > max {
        return Err(Refusal::AboveMax { delta, target, max });
    }
    // Instances being deleted leave the capacity.
    let census = state.census();
    let leaving = census.capacity.saturating_sub(census.remaining);
    let unfilled = state.taken_by_unfilled();
    let capacity = base_of_growth(state).saturating_sub(leaving).saturating_add(claimed).saturating_add(delta);
    if unfilled == 0 || capacity <= max {
        return Ok(());
    }
    if state.may_lower() {
        return Err(Refusal::NotLoweredYet { delta, unfilled, max });
    }
    Err(Refusal::Unfilled { delta, unfilled, max })
}

/// Whether live instances exceed the capacity in a way that permits no scale-up of one.
pub(crate) fn blocks_growth(state: &GroupState) -> bool {
    !permits_growth_to(state, base_of_growth(state).saturating_add(1))
}

/// Whether a scale-up to this capacity may be written with as many instances as live.
fn permits_growth_to(state: &GroupState, to: u32) -> bool {
    let census = state.census();
    match state.surplus() {
        // Deletions of an earlier process may have failed beside what runs, and a scale set deletes at once what is beyond
        // a new capacity.
        Some(Surplus::FoundAtStart) if can_revive(state) && !is_own_surplus(state) => census.live <= to,
        surplus => surplus.is_none_or(|surplus| surplus.permits_growth(census.capacity, to, census.live)),
    }
}

/// What a scale-up adds to: the capacity, or all live instances where they are there to stay although the capacity is
/// lower.
fn base_of_growth(state: &GroupState) -> u32 {
    // Where the read may be older than our last write, the higher of the two (law 2): AWS takes any number, and one
    // computed on an older read would undo what we wrote.
    base_as_read(state).max(state.own_capacity())
}

/// The same, without what we wrote and a read does not show.
fn base_as_read(state: &GroupState) -> u32 {
    let census = state.census();
    let stays = state.surplus() == Some(Surplus::Lasting);
    // A nominal capacity makes as many instances as it rises by, however many live.
    let needs_room = stays && !state.is_nominal();
    if needs_room { census.capacity.max(census.live) } else { census.capacity }
}

/// The capacity that a scale-up by `delta` sets. `None` if it would not be above both the capacity that was read and
/// the one that we wrote last, or if there is a surplus that does not permit growth.
pub(crate) fn raised_capacity(state: &GroupState, delta: u32) -> Option<u32> {
    let reading = &state.observation().reading;
    // What we wrote is in the base although another client may have lowered it since: no reason to exceed the maximum.
    let most = reading.max.max(base_as_read(state).checked_add(delta)?);
    let base = base_of_growth(state);
    let to = base.checked_add(delta)?.min(most);
    // No less than what we wrote: the read may be older than that.
    (permits_growth_to(state, to) && to > reading.desired && to > base).then_some(to)
}

/// Whether a scale-up by `number` leaves less room than there may be VMs, so that it counts on deletions under way, or
/// on some that have ended without a word of how. A list may lack those that are being launched or deleted.
pub(crate) fn counts_on_deletions(state: &GroupState, number: u32) -> bool {
    let (in_flight, listed) = (state.in_flight(), &state.observation().instances);
    let is_there = |one: &&Instance| one.counts != Counts::No && !in_flight.is_deleted(&one.id);
    // Where nothing runs, deletions have ended, and what no list shows is gone.
    let going = if is_idle(state) { 0 } else { unlisted_deletions(state) };
    let unlisted = going.max(without_id_beyond_pending(state));
    let pending = state.pending();
    // Where the list may lack what was launched, as many may live as the capacity says, and as many as it gave up.
    let given_up = state.survivors().saturating_add(in_flight.named());
    let most = if state.may_lack_instances() { state.census().capacity.saturating_add(given_up) } else { 0 };
    let there = count(listed.iter().filter(is_there).count()) + pending + unlisted;
    let is_too_little = |to: u32| there.max(most) > to;
    let is_any_leaving = || unlisted > 0 || listed.iter().filter(is_there).any(|one| in_flight.is_leaving(one));
    let is_short = || raised_capacity(state, number).is_some_and(is_too_little) && (is_idle(state) || is_any_leaving());
    can_revive(state) && (may_lack_survivors(state, number) || is_short())
}

/// Whether a scale-up by `number` may leave no room for VMs whose deletion failed, because the list lacks some of them,
/// or may lack others that were launched. No more live than the capacity says, and those.
fn may_lack_survivors(state: &GroupState, number: u32) -> bool {
    let most = state.census().capacity.saturating_add(state.survivors());
    let may_lack = state.may_lack_instances() || state.lacks_survivors();
    state.survivors() > 0 && may_lack && raised_capacity(state, number).is_some_and(|to| to < most)
}

/// VMs that are listed without an ID and are none of those being launched: Azure lists some so while it deletes them.
fn without_id_beyond_pending(state: &GroupState) -> u32 {
    state.observation().reading.without_id.saturating_sub(state.pending())
}

/// Whether polls of deletions of ours tell which of the listed VMs live: nothing else seems to delete any, and something
/// runs in the scale set.
pub(crate) fn is_told_by_polls(state: &GroupState) -> bool {
    let is_others = |one: &Instance| one.state == InstanceState::Deleting && !state.in_flight().deletes(&one.id);
    !is_idle(state) && !state.observation().instances.iter().any(is_others) && state.in_flight().deletions_are_polled()
}

/// Whether a scale-up by `number` leaves room for all VMs that live if deletions whose end is not known have failed. Those
/// that a list shows as being deleted leave, and so do those of which polls have just told that. Where nothing runs in
/// the scale set, any deletion has ended.
pub(crate) fn leaves_room(state: &GroupState, number: u32, polls: Polls) -> bool {
    let (in_flight, is_idle) = (state.in_flight(), is_idle(state));
    let leaves = |one: &Instance| {
        let is_told = polls == Polls::Answered && !is_idle && in_flight.is_running_deletion(&one.id);
        one.state == InstanceState::Deleting || in_flight.is_deleted(&one.id) || is_told
    };
    let listed = state.observation().instances.iter();
    let mut live = listed.filter(|one| one.counts != Counts::No && !leaves(one));
    // Where polls tell nothing, those without an ID may be any.
    let going = if polls == Polls::Unanswered { 0 } else { unlisted_deletions(state) };
    let hidden = without_id_beyond_pending(state).saturating_sub(going);
    let number_of_live = count(live.clone().count()) + state.pending() + hidden;
    let may_have_failed = is_idle || hidden > 0 || live.any(|one| in_flight.deletes(&one.id));
    let is_enough = || raised_capacity(state, number).is_none_or(|to| number_of_live <= to);
    !may_lack_survivors(state, number) && (!may_have_failed || is_enough())
}

/// Whether no scale-up is written because VMs may live whose deletion has failed, or may have.
pub(crate) fn has_revived(state: &GroupState) -> bool {
    counts_on_deletions(state, 1) && !leaves_room(state, 1, Polls::NotAsked)
}

/// Whether a scale-up of the group is within the maximum only if deletions without a known outcome have taken effect.
pub(crate) fn may_exceed_max(state: &GroupState) -> bool {
    let exceeds = |claimed| increase(state, 1, None, claimed).is_err();
    !exceeds(0) && exceeds(state.may_live_on())
}

/// Whether VMs live again if their deletion fails, and a capacity that is lower than their number deletes some.
fn can_revive(state: &GroupState) -> bool {
    state.observation().reading.consistency.deletions == Deletions::CanFail && !state.is_nominal()
}

/// Whether instances beyond the capacity that a start finds are the cloud's own, for all that is known.
fn is_own_surplus(state: &GroupState) -> bool {
    let observation = state.observation();
    let is_any_being_deleted = observation.instances.iter().any(|one| one.state == InstanceState::Deleting);
    observation.reading.has_own_surplus && !is_any_being_deleted
}

/// Whether nothing runs in the scale set.
fn is_idle(state: &GroupState) -> bool {
    state.observation().reading.provisioning != Provisioning::Running
}
