//! Launches in flight, and how much of them the last observation shows.
//!
//! A launch raises the capacity before its response or after it, and an observation may lag behind both. What it does
//! not show is added to it: never what it shows already, be it by the capacity or by the instances.
//!
//! What the capacity lacks of what all launches lead to is one number. It does not tell which of them has not raised the
//! capacity. That is taken to be one of which nothing was listed; else one that a capacity write of ours may have
//! undone; else one that was never shown, of just this number; else the youngest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::InFlight;
use crate::cloud::{Consistency, Counts, GroupReading, Instance, InstanceState, ProviderId, ZoneName};
use crate::group::Time;
use crate::group::limits::OPERATION_LIFE;
use crate::group::observation::{Observation, count};
use crate::group::operation::{Operation, OperationId};

/// A launch whose outcome is not known, or that observations need not show yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Launch {
    /// The name of the launch.
    id: OperationId,
    /// The zone that it launches in, where each is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<ZoneName>,
    /// When it was sent.
    sent: Time,
    /// By when it had launched something: a list showed an instance of it, or the response told. Of one whose outcome is
    /// not known, that may have been an instance of something else.
    launched: Option<Time>,
    /// What it was asked to launch, until it is known what it launched.
    outcome: Outcome,
    /// How much of it the capacity that was read last does not show.
    unshown: u32,
    /// Whether a capacity that does not include it was sent last, and each that was read since lacks it. If it had raised
    /// the capacity just before, that write undid it.
    may_be_undone: bool,
}

/// What a launch was asked to launch, until it is known what it launched.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Outcome {
    /// It is not known what was launched.
    Awaited {
        /// How many instances were requested.
        requested: u32,
        /// How many of these the last list does not show.
        unlisted: u32,
        /// The instances that were listed before.
        before: BTreeSet<ProviderId>,
    },
    /// It is known.
    Known(Known),
}

/// What a launch is known to have launched.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    /// All that it launched, by [`ProviderId::instance`], each with whether a list has shown it.
    instances: BTreeMap<String, bool>,
    /// Whether the capacity has been seen to include these instances.
    is_shown: bool,
}

/// What an observation shows of one launch.
struct Shown {
    /// The launch, with what its list shows of it.
    launch: Launch,
    /// How many of its instances are listed.
    listed: u32,
    /// How much of it the capacity is taken to lack.
    lacking: u32,
}

impl Shown {
    /// The one that the capacity is taken to lack before others comes first. Of those that a write may have undone, that
    /// is the one whose time is up first: the cloud acts on it first. If another one was undone, the capacity is raised for
    /// both. Of the rest, it is one that no capacity has shown, and of just the number that is lacking, if there is one: a
    /// launch raises the capacity at once, by all that it launched.
    fn order(&self, lacking: u32) -> impl Ord + use<> {
        let (launch, known) = (&self.launch, self.launch.known());
        let launched = launch.launched;
        let undone = launch.may_be_undone.then_some((launched.is_none(), launched));
        let was_listed = known.is_some_and(|known| known.instances.values().any(|is_listed| *is_listed));
        let was_shown = known.is_some_and(|known| known.is_shown);
        let is_other = launch.number() != lacking;
        (self.listed > 0 || was_listed, undone.is_none(), undone, was_shown, is_other, Reverse(launch.id))
    }
}

impl Launch {
    /// What it is known to have launched.
    fn known(&self) -> Option<&Known> {
        match &self.outcome {
            Outcome::Awaited { .. } => None,
            Outcome::Known(known) => Some(known),
        }
    }

    /// How many instances it launches: what was requested, and later what was launched.
    fn number(&self) -> u32 {
        match &self.outcome {
            Outcome::Awaited { requested, .. } => *requested,
            Outcome::Known(known) => count(known.instances.len()),
        }
    }

    /// How many of its instances the last list does not show. One that was listed once is not missed later.
    fn unlisted(&self) -> u32 {
        match &self.outcome {
            Outcome::Awaited { unlisted, .. } => *unlisted,
            Outcome::Known(known) => count(known.instances.values().filter(|is_listed| !**is_listed).count()),
        }
    }

    /// What an observation lists of it. `new` are listed instances that launches may have made whose outcome is not
    /// known.
    fn listed(&self, observation: &Observation, new: &mut Vec<&ProviderId>) -> Shown {
        let mut launch = self.clone();
        let listed = match &mut launch.outcome {
            Outcome::Awaited { requested, unlisted, before } => {
                *unlisted = *requested;
                new.retain(|id| {
                    let is_here = self.zone.as_ref().is_none_or(|zone| id.is_in(zone));
                    let is_its_own = *unlisted > 0 && is_here && !before.contains(*id);
                    *unlisted -= u32::from(is_its_own);
                    !is_its_own
                });
                *requested - *unlisted
            }
            Outcome::Known(Known { instances, .. }) => {
                let names = observation.instances.iter().map(|one| one.id.instance());
                let listed: BTreeSet<&str> = names.filter(|name| instances.contains_key(*name)).collect();
                for (name, is_listed) in &mut *instances {
                    *is_listed |= listed.contains(name.as_str());
                }
                count(listed.len())
            }
        };
        if listed > 0 {
            launch.launched.get_or_insert(observation.detailed);
        }
        Shown { launch, listed, lacking: 0 }
    }

    /// Whether the capacity should have risen by it, as far as an observation tells that lists so many of it.
    fn is_due(&self, listed: u32, read: Time) -> bool {
        // A list without any of them is older than the launch, whatever its capacity is.
        self.known().is_some() && listed > 0 && self.raises_by(read)
    }

    /// Whether a capacity that was read at this moment should have risen by what it had launched by then.
    fn raises_by(&self, read: Time) -> bool {
        self.launched.is_some_and(|launched| read.since(launched) > Consistency::LAUNCH_RAISES)
    }

    /// This launch, where the capacity that was read at this moment has no room yet for so much of it.
    fn after(mut self, unshown: u32, listed: u32, read: Time) -> Self {
        // A capacity that has shown it is not enough: this read may lag behind that one.
        self.unshown = if self.is_due(listed, read) { 0 } else { unshown };
        if let Outcome::Known(known) = &mut self.outcome {
            known.is_shown |= unshown == 0 && listed > 0;
        }
        self
    }

    /// Whether it adds nothing more to the capacity that was read at this moment. A launch raises it at once, by all that
    /// it launched: where all of that is listed and the capacity has risen by a part of it, something else has lowered
    /// what is lacking. Where its outcome is not known, what a list showed of it may have been something else: the
    /// capacity is not waited for much longer than that launch would take to raise it.
    fn has_raised(&self, read: Time) -> bool {
        match &self.outcome {
            Outcome::Awaited { .. } => self.raises_by(read),
            Outcome::Known(_) => self.unlisted() == 0 && self.unshown < self.number(),
        }
    }

    fn is_settled(&self) -> bool {
        self.unshown == 0 && self.unlisted() == 0 && self.known().is_some_and(|known| known.is_shown)
    }

    /// Whether no capacity that was read at this moment lacks it any more.
    fn is_over(&self, read: Time, now: Time) -> bool {
        match self.launched.filter(|_| self.known().is_some()) {
            Some(launched) => {
                read.since(launched) > Consistency::LAG
                    || now.since(launched) > Consistency::LAG + Consistency::LAUNCH_RAISES
            }
            None => now.since(self.sent) > OPERATION_LIFE,
        }
    }
}

/// For each launch, when the capacity was read that an observation shows: no later than the next launch was sent of which
/// nothing is listed. One that may be undone does not wait for that: the group is about to terminate its instances.
fn times_of_reading(shown: &[Shown], begun: Time) -> Vec<Time> {
    let is_unlisted = |other: &&Shown| other.listed == 0;
    let time = |one: &Shown| {
        if one.launch.may_be_undone {
            return begun;
        }
        let later = shown.iter().filter(is_unlisted).filter(|other| other.launch.id > one.launch.id);
        later.map(|other| other.launch.sent).min().map_or(begun, |sent| sent.min(begun))
    };
    shown.iter().map(time).collect()
}

impl InFlight {
    /// How much of the launches the capacity that was read last does not show.
    pub(crate) fn unshown(&self) -> u32 {
        self.launches.iter().map(|launch| launch.unshown).sum()
    }

    /// How many instances of launches the last list does not show.
    pub(crate) fn unlisted(&self) -> u32 {
        self.launches.iter().map(Launch::unlisted).sum()
    }

    /// The same for each zone that launches were sent in.
    pub(crate) fn unlisted_by_zone(&self) -> BTreeMap<ZoneName, u32> {
        let mut unlisted = BTreeMap::new();
        for launch in &self.launches {
            if let Some(zone) = &launch.zone {
                *unlisted.entry(zone.clone()).or_default() += launch.unlisted();
            }
        }
        unlisted
    }

    /// Whether one of these launches is known to have made this instance.
    pub(crate) fn has_launched(&self, id: &ProviderId) -> bool {
        let mut known = self.launches.iter().filter_map(Launch::known);
        known.any(|known| known.instances.contains_key(id.instance()))
    }

    /// The zone of a launch, where each is served.
    pub(crate) fn zone_of(&self, id: OperationId) -> Option<ZoneName> {
        self.launches.iter().find(|launch| launch.id == id)?.zone.clone()
    }

    /// Whether a capacity write of ours may have undone a launch.
    pub(crate) fn may_be_undone(&self, id: OperationId) -> bool {
        self.launches.iter().any(|launch| launch.id == id && launch.may_be_undone)
    }

    /// Whether any launch may not have raised the capacity yet, or not as far as reads show.
    pub(crate) fn is_launching(&self) -> bool {
        self.launches.iter().any(|launch| !launch.is_settled())
    }

    /// How much launches may still add to the capacity that was read last.
    pub(crate) fn to_be_raised(&self, read: Time) -> u32 {
        self.launches.iter().filter(|launch| !launch.has_raised(read)).map(|launch| launch.unshown).sum()
    }

    /// The same, of the launches that were sent after the last capacity write.
    pub(crate) fn to_be_raised_since_written(&self, read: Time) -> u32 {
        let since = self.launches.iter().filter(|launch| !launch.has_raised(read) && !launch.may_be_undone);
        since.map(|launch| launch.unshown).sum()
    }

    /// Whether a launch is about to raise the capacity, or has just done so: its instances are known, and no capacity that
    /// was read has shown it. A capacity written now may undo it.
    pub(crate) fn is_raising(&self, read: Time) -> bool {
        let is_awaited = |launch: &&Launch| launch.unshown > 0 && !launch.has_raised(read) && !launch.may_be_undone;
        let mut known = self.launches.iter().filter(is_awaited).filter_map(Launch::known);
        known.any(|known| !known.is_shown)
    }

    /// A launch of as many instances is being sent.
    pub(crate) fn start_launch(
        &mut self,
        id: OperationId,
        number: u32,
        zone: Option<ZoneName>,
        now: Time,
        shown: &Observation,
    ) {
        // A launch that a write may have undone is still missing when it is no longer waited for. This one does not make
        // up for it.
        if !self.launches.iter().any(|launch| launch.may_be_undone) {
            self.expect(self.written_capacity(&shown.reading));
        }
        self.expected = self.expected.saturating_add(number);
        let before = shown.instances.iter().map(|one| one.id.clone()).collect();
        let launch = Launch {
            id,
            zone,
            sent: now,
            launched: None,
            outcome: Outcome::Awaited { requested: number, unlisted: number, before },
            unshown: number,
            may_be_undone: false,
        };
        // What is read from now on no longer shows how the last deletion is counted.
        self.baseline = None;
        self.launches.push(launch);
    }

    /// What a launch made is known: these instances. Returns how many fewer they are than requested. What is known of
    /// it changes what the last observation shows.
    pub(crate) fn end_launch(&mut self, id: OperationId, instances: &[String], now: Time, shown: &Observation) -> u32 {
        let Some(position) = self.launches.iter().position(|launch| launch.id == id) else { return 0 };
        let launch = &mut self.launches[position];
        let instances: BTreeMap<String, bool> = instances.iter().map(|name| (name.clone(), false)).collect();
        let short = launch.number().saturating_sub(count(instances.len()));
        self.expected = self.expected.saturating_sub(short);
        if instances.is_empty() {
            self.launches.remove(position);
        } else {
            let is_listed = shown.instances.iter().any(|one| instances.contains_key(one.id.instance()));
            launch.launched = launch.launched.filter(|_| is_listed).or(Some(now));
            launch.outcome = Outcome::Known(Known { instances, is_shown: false });
        }
        self.note_launches(shown);
        short
    }

    /// The launches add to this capacity what the last observation does not show of them.
    fn expect(&mut self, capacity: u32) {
        self.expected = capacity.saturating_add(self.unshown());
        self.lowered_since = self.unread.clone();
    }

    /// A capacity was written. The launches add to it.
    pub(super) fn rebase_launches(&mut self, to: u32) {
        self.note_included();
        if !self.launches.is_empty() {
            self.expect(to);
        }
    }

    /// The capacity that was written last includes the launches that are no longer waited for: it did not undo them.
    pub(crate) fn note_included(&mut self) {
        self.launches.iter_mut().for_each(|launch| launch.may_be_undone &= launch.unshown > 0);
    }

    /// A capacity is being sent that does not include what the last observation does not show of the launches.
    pub(super) fn note_overwritten(&mut self) {
        self.launches.iter_mut().for_each(|launch| launch.may_be_undone |= launch.unshown > 0);
    }

    /// These deletions lower the capacity, whatever the launches that are in flight do to it.
    pub(super) fn lower_launches(&mut self, deleted: &[ProviderId]) {
        if !self.launches.is_empty() {
            self.lowered_since.extend(deleted.iter().cloned());
        }
    }

    /// How much an observation with this capacity lacks of what the launches lead to.
    fn lacking(&self, observation: &Observation, capacity: u32) -> u32 {
        let lives = |id: &ProviderId| {
            observation.instances.iter().any(|one| one.id == *id && one.state != InstanceState::Deleting)
        };
        let lowered = count(self.lowered_since.iter().filter(|id| !lives(id)).count());
        // The expected capacity shows those that were accepted before, and this one still counts them.
        let capacity = capacity.saturating_sub(count(self.unread.difference(&self.lowered_since).count()));
        self.expected.saturating_sub(lowered).saturating_sub(capacity)
    }

    /// What this observation shows of the launches.
    pub(super) fn note_launches(&mut self, observation: &Observation) {
        if !self.launches.is_empty() {
            self.note_each_launch(observation);
        }
        if self.launches.is_empty() {
            (self.expected, self.lowered_since) = (0, BTreeSet::new());
        }
    }

    fn note_each_launch(&mut self, observation: &Observation) {
        let capacity = self.written_capacity(&observation.reading);
        let listed = observation.instances.iter().filter(|one| one.counts != Counts::No).map(|one| &one.id);
        let mut new: Vec<&ProviderId> = listed.filter(|id| !self.has_launched(id)).collect();
        let is_live = |one: &&Instance| one.counts != Counts::No && !self.is_leaving(one);
        let live = count(observation.instances.iter().filter(is_live).count());
        // Live instances beyond the capacity, without the cloud's own. It has no room yet for as many of those that
        // launches made, whoever else changed it.
        let beyond = live.saturating_sub(capacity).saturating_sub(self.surplus);
        let shown = self.launches.iter().map(|launch| launch.listed(observation, &mut new));
        let mut shown: Vec<Shown> = shown.collect();
        let mut lacking = self.lacking(observation, capacity);
        shown.sort_by_key(|one| one.order(lacking));
        for one in &mut shown {
            one.lacking = lacking.min(one.launch.number());
            one.launch.may_be_undone &= one.lacking > 0;
            lacking -= one.lacking;
        }
        let unraised: u32 = shown.iter().map(|one| one.lacking.min(one.listed)).sum();
        let mut others = beyond.saturating_sub(unraised);
        let read = times_of_reading(&shown, observation.begun);
        self.launches.clear();
        for (Shown { launch, listed, lacking }, read) in shown.into_iter().zip(read) {
            if launch.is_over(read, observation.begun) {
                self.expected = self.expected.saturating_sub(lacking);
                continue;
            }
            let more = others.min(listed.saturating_sub(lacking));
            others -= more;
            self.launches.push(launch.after(lacking + more, listed, read));
        }
        self.launches.sort_by_key(|launch| launch.id);
    }

    /// The capacity that a read means, with the capacity writes that it may not show yet.
    pub(crate) fn written_capacity(&self, reading: &GroupReading) -> u32 {
        let etag = reading.etag.as_deref();
        let explained = |capacity, operation: &Operation| operation.explains(capacity, etag).unwrap_or(capacity);
        self.operations.iter().filter(|one| !self.shows(one.sent)).fold(reading.desired, explained)
    }
}
