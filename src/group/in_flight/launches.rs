//! Launches in flight, and how much of them the last observation shows.
//!
//! A launch raises the capacity before its response or after it, and an observation may lag behind both. What it does
//! not show is added to it: never what it shows already, be it by the capacity or by the instances.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::InFlight;
use crate::cloud::{Counts, GroupReading, Instance, InstanceState, ProviderId};
use crate::group::Time;
use crate::group::limits::{LAUNCH_BEGINS, LAUNCH_RAISES, OPERATION_LIFE, SETTLE};
use crate::group::observation::{Observation, count};
use crate::group::operation::{Operation, OperationId};

/// A launch whose outcome is not known, or that observations need not show yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Launch {
    /// The name of the launch.
    id: OperationId,
    /// When it was sent.
    sent: Time,
    /// The capacity that it was sent on, with what else was in flight.
    from: u32,
    /// How many instances it launches: what was requested, and later what was launched.
    number: u32,
    /// The instances that were listed before.
    before: BTreeSet<ProviderId>,
    /// What it launched, by [`ProviderId::instance`], once that is known.
    launched: Option<Known>,
    /// Instances whose deletions lower the capacity, unless `from` shows them.
    deleted: BTreeSet<ProviderId>,
    /// Whether a capacity was written since that includes it.
    is_included: bool,
    /// How much of it the capacity that was read last does not show.
    unshown: u32,
    /// How many of its instances the last list does not show.
    unlisted: u32,
}

/// What a launch is known to have launched.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    /// When it became known what was launched.
    at: Time,
    /// The instances of the launch that no list has shown yet.
    unlisted: BTreeSet<String>,
    /// All that it launched.
    all: BTreeSet<String>,
    /// Whether the capacity has been seen to include these instances, or was written since.
    is_shown: bool,
}

/// What an observation shows of all launches.
struct Shown<'a> {
    /// Its capacity, with the capacity writes that it does not show.
    capacity: u32,
    /// Live instances beyond that capacity, without the cloud's own. The capacity has no room yet for as many of those
    /// that launches made, whoever else changed it.
    beyond: u32,
    /// Listed instances that launches may have made whose outcome is not known.
    new: Vec<&'a ProviderId>,
}

impl Shown<'_> {
    fn take_beyond(&mut self, most: u32) -> u32 {
        let taken = self.beyond.min(most);
        self.beyond -= taken;
        taken
    }
}

impl Launch {
    /// This launch after an observation that shows this of all launches.
    fn after(&self, observation: &Observation, shown: &mut Shown<'_>) -> Self {
        let mut next = self.clone();
        let lives = |id: &ProviderId| {
            observation.instances.iter().any(|one| one.id == *id && one.state != InstanceState::Deleting)
        };
        let lowered = count(self.deleted.iter().filter(|id| !lives(id)).count());
        let expected = self.from.saturating_add(self.number).saturating_sub(lowered);
        let gap = if self.is_included { 0 } else { expected.saturating_sub(shown.capacity).min(self.number) };
        let Some(known) = &mut next.launched else {
            let mut unlisted = self.number;
            shown.new.retain(|id| {
                let is_its_own = unlisted > 0 && !self.before.contains(*id);
                unlisted -= u32::from(is_its_own);
                !is_its_own
            });
            let beyond = shown.take_beyond(self.number - unlisted);
            (next.unshown, next.unlisted) = (gap.max(beyond), unlisted);
            return next;
        };
        let names = observation.instances.iter().map(|one| one.id.instance());
        let listed: BTreeSet<&str> = names.filter(|name| known.all.contains(*name)).collect();
        known.unlisted.retain(|name| !listed.contains(name.as_str()));
        // A list without any of them is older than the launch, whatever its capacity is.
        let is_younger = !listed.is_empty() || known.all.is_empty();
        let gap = gap.max(shown.take_beyond(count(listed.len())).min(self.number));
        known.is_shown |= is_younger && gap == 0;
        let is_raised = known.is_shown || observation.begun.since(known.at) > LAUNCH_RAISES;
        next.unshown = if is_younger && is_raised { 0 } else { gap };
        next.unlisted = count(known.unlisted.len());
        next
    }

    fn is_settled(&self) -> bool {
        self.unshown == 0 && self.unlisted == 0 && self.launched.as_ref().is_some_and(|known| known.is_shown)
    }

    fn is_over(&self, now: Time) -> bool {
        match &self.launched {
            Some(known) => now.since(known.at) > SETTLE,
            None => now.since(self.sent) > OPERATION_LIFE,
        }
    }
}

impl InFlight {
    /// How much of the launches the capacity that was read last does not show.
    pub(crate) fn unshown(&self) -> u32 {
        self.launches.iter().map(|launch| launch.unshown).sum()
    }

    /// How many instances of launches the last list does not show.
    pub(crate) fn unlisted(&self) -> u32 {
        self.launches.iter().map(|launch| launch.unlisted).sum()
    }

    /// Whether a launch was sent a moment ago, and its outcome is not known.
    pub(crate) fn has_young_launch(&self, now: Time) -> bool {
        self.launches.iter().any(|launch| launch.launched.is_none() && now.since(launch.sent) < LAUNCH_BEGINS)
    }

    /// Whether any launch may not have raised the capacity yet, or not as far as reads show.
    pub(crate) fn is_launching(&self) -> bool {
        self.launches.iter().any(|launch| !launch.is_settled())
    }

    /// A launch of as many instances is being sent.
    pub(crate) fn start_launch(&mut self, id: OperationId, number: u32, now: Time, shown: &Observation) {
        let launch = Launch {
            id,
            sent: now,
            from: self.capacity(&shown.reading),
            number,
            before: shown.instances.iter().map(|one| one.id.clone()).collect(),
            launched: None,
            deleted: self.unread.clone(),
            is_included: false,
            unshown: number,
            unlisted: number,
        };
        // What is read from now on no longer shows how the last deletion is counted.
        self.baseline = None;
        self.launches.push(launch);
    }

    /// What a launch made is known: these instances. Returns how many fewer they are than requested.
    pub(crate) fn end_launch(&mut self, id: OperationId, instances: &[String], now: Time) -> u32 {
        let Some(position) = self.launches.iter().position(|launch| launch.id == id) else { return 0 };
        let launch = &mut self.launches[position];
        let all: BTreeSet<String> = instances.iter().cloned().collect();
        let launched = count(all.len()).min(launch.number);
        let short = launch.number - launched;
        launch.number = launched;
        launch.unshown = launch.unshown.min(launched);
        launch.unlisted = launch.unlisted.min(launched);
        launch.launched = Some(Known { at: now, unlisted: all.clone(), all, is_shown: launched == 0 });
        for later in &mut self.launches[position + 1..] {
            later.from = later.from.saturating_sub(short);
        }
        if launched == 0 {
            self.launches.remove(position);
        }
        short
    }

    /// A capacity was written that includes all launches: none has to be added to what is read from now on.
    pub(super) fn include_launches(&mut self) {
        for launch in &mut self.launches {
            (launch.is_included, launch.unshown) = (true, 0);
            if let Some(known) = &mut launch.launched {
                known.is_shown = true;
            }
        }
    }

    /// These deletions lower the capacity, whatever the launches that are in flight do to it.
    pub(super) fn lower_launches(&mut self, deleted: &[ProviderId]) {
        for launch in &mut self.launches {
            launch.deleted.extend(deleted.iter().cloned());
        }
    }

    /// What this observation shows of the launches.
    pub(super) fn note_launches(&mut self, observation: &Observation) {
        if self.launches.is_empty() {
            return;
        }
        let capacity = self.written_capacity(&observation.reading);
        let known = |name: &str| {
            let all = self.launches.iter().filter_map(|launch| launch.launched.as_ref());
            all.into_iter().any(|known| known.all.contains(name))
        };
        let listed = observation.instances.iter().filter(|one| one.counts != Counts::No).map(|one| &one.id);
        let new: Vec<&ProviderId> = listed.filter(|id| !known(id.instance())).collect();
        let is_live = |one: &&Instance| one.counts != Counts::No && !self.is_leaving(one);
        let live = count(observation.instances.iter().filter(is_live).count());
        let beyond = live.saturating_sub(capacity).saturating_sub(self.surplus);
        let mut shown = Shown { capacity, beyond, new };
        self.launches = self.launches.iter().map(|launch| launch.after(observation, &mut shown)).collect();
        self.launches.retain(|launch| !launch.is_over(observation.begun));
    }

    /// The capacity that a read means, with the capacity writes that it may not show yet.
    pub(super) fn written_capacity(&self, reading: &GroupReading) -> u32 {
        let etag = reading.etag.as_deref();
        let explained = |capacity, operation: &Operation| operation.explains(capacity, etag).unwrap_or(capacity);
        self.operations.iter().filter(|one| !self.shows(one.sent)).fold(reading.desired, explained)
    }
}
