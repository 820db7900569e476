//! The placeholders of missing instances: as many as the shortfall, and what CA does with them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::group::Time;

use super::{GroupState, size};
use crate::cloud::{LaunchActivity, ProviderId, Shortfall, ZoneName};
use crate::group::observation::count;
use crate::group::placeholder::{self, Placeholder, PlaceholderState};

/// Why instances are missing, and since when, by the cloud's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missed {
    /// A write of ours asked for them at this time.
    Requested(SystemTime),
    /// A read after this time shows that the capacity asks for them.
    Found(SystemTime),
}

impl GroupState {
    /// Makes as many placeholders as the shortfall says. Where each zone is served, only what launches will end in has
    /// one: what the group lacks otherwise belongs to no zone.
    pub(crate) fn fit_placeholders(&mut self, capacity_fell: u32, missed: Missed, now: Time) {
        let census = self.census();
        self.placeholders
            .retain(|placeholder| !matches!(placeholder.state, PlaceholderState::RolledBack { until } if until <= now));
        if self.has_separate_zones() {
            for (zone, unlisted) in self.missing_by_zone() {
                self.fit_placeholders_of(Some(&zone), unlisted, 0, missed);
            }
        } else {
            self.fit_placeholders_of(None, census.shortfall, capacity_fell, missed);
        }
        if census.shortfall == 0 {
            // What was launched still tells which writes a read is younger than.
            let launched = std::mem::take(&mut self.activity.launched);
            self.activity = LaunchActivity { launched, ..LaunchActivity::default() };
        }
        self.explain_placeholders();
    }

    /// How many instances each zone lacks that has placeholders, or launches under way.
    fn missing_by_zone(&self) -> BTreeMap<ZoneName, u32> {
        let placeholders = self.placeholders.iter().filter_map(|placeholder| Some((placeholder.zone.clone()?, 0)));
        let mut missing: BTreeMap<ZoneName, u32> = placeholders.collect();
        missing.extend(self.in_flight.unlisted_by_zone());
        missing
    }

    fn fit_placeholders_of(&mut self, zone: Option<&ZoneName>, shortfall: u32, capacity_fell: u32, missed: Missed) {
        placeholder::shrink(&mut self.placeholders, zone, size(shortfall), size(capacity_fell));
        let is_held = |placeholder: &&Placeholder| placeholder.zone.as_ref() == zone && placeholder.in_capacity();
        let held = self.placeholders.iter().filter(is_held).count();
        self.add_placeholders(size(shortfall).saturating_sub(held), zone, missed);
    }

    /// Gives each placeholder the reason that the last known launch activity has for it.
    pub(crate) fn explain_placeholders(&mut self) {
        // A launch in a zone returns its own reasons.
        if self.has_separate_zones() {
            return;
        }
        let to_come = self.to_come(&self.activity);
        placeholder::explain(&mut self.placeholders, &self.activity, to_come);
    }

    /// How many instances launches will end in that the list lacks.
    pub(crate) fn to_come(&self, activity: &LaunchActivity) -> u32 {
        let listed: BTreeSet<&str> = self.observation.instances.iter().map(|one| one.id.instance()).collect();
        let unlisted = activity.launched.iter().filter(|one| !listed.contains(one.instance.as_str())).count();
        activity.under_way.saturating_add(count(unlisted))
    }

    /// The missing instances that no known failure explains.
    pub(crate) fn unexplained_shortfall(&self) -> Shortfall {
        let is_unexplained = |placeholder: &&Placeholder| {
            placeholder.state == PlaceholderState::Pending && placeholder.failure.is_none()
        };
        let unexplained = self.placeholders.iter().filter(is_unexplained);
        Shortfall {
            missing: count(unexplained.clone().count()),
            since: unexplained.map(|placeholder| placeholder.since).min().unwrap_or(self.observation.at),
        }
    }

    pub(crate) fn add_placeholders(&mut self, number: usize, zone: Option<&ZoneName>, missed: Missed) {
        let (since, is_requested) = match missed {
            Missed::Requested(since) => (since, true),
            Missed::Found(since) => (since, false),
        };
        for _ in 0..number {
            self.placeholders_made += 1;
            let label = format!("{}-{}", placeholder::whole_seconds(since), self.placeholders_made);
            let id = self.observation.reading.placeholder(&label);
            self.placeholders.push(Placeholder {
                id,
                zone: zone.cloned(),
                since,
                is_requested,
                state: PlaceholderState::Pending,
                failure: None,
            });
        }
    }

    /// Takes placeholders out of the target: all that `names` picks. Returns how many of them were part of the
    /// capacity.
    pub(crate) fn cancel(&mut self, names: &BTreeSet<ProviderId>) -> usize {
        let mut cancelled = 0;
        self.placeholders.retain_mut(|placeholder| {
            if !names.contains(&placeholder.id) {
                return true;
            }
            let keep = placeholder.in_capacity();
            if placeholder.state == PlaceholderState::Pending {
                placeholder.state = PlaceholderState::Cancelled;
                cancelled += 1;
            }
            keep
        });
        cancelled
    }

    /// Puts up to `number` cancelled placeholders back into the target, under new IDs: a scale-up that the capacity has
    /// room for already. Returns how many.
    pub(crate) fn reinstate(&mut self, number: u32, zone: Option<&ZoneName>, since: SystemTime) -> u32 {
        let is_cancelled = |placeholder: &Placeholder| {
            placeholder.state == PlaceholderState::Cancelled && placeholder.zone.as_ref() == zone
        };
        let mut reinstated = 0;
        while reinstated < number {
            let Some(position) = self.placeholders.iter().position(is_cancelled) else { break };
            self.placeholders.remove(position);
            reinstated += 1;
        }
        self.add_placeholders(size(reinstated), zone, Missed::Requested(since));
        reinstated
    }

    /// Puts cancelled placeholders back into the target: the write that was to lower the capacity by them was refused.
    pub(crate) fn undo_cancel(&mut self, names: &BTreeSet<ProviderId>) {
        for placeholder in self.placeholders.iter_mut().filter(|placeholder| names.contains(&placeholder.id)) {
            if placeholder.state == PlaceholderState::Cancelled {
                placeholder.state = PlaceholderState::Pending;
            }
        }
    }

    /// How many placeholders are cancelled.
    pub(crate) fn cancelled(&self) -> u32 {
        count(self.placeholders.iter().filter(|placeholder| placeholder.state == PlaceholderState::Cancelled).count())
    }

    /// How many of them are of this zone, or of a group whose zones are not served.
    pub(crate) fn cancelled_in(&self, zone: Option<&ZoneName>) -> u32 {
        let is_cancelled = |placeholder: &&Placeholder| {
            placeholder.state == PlaceholderState::Cancelled && placeholder.zone.as_ref() == zone
        };
        count(self.placeholders.iter().filter(is_cancelled).count())
    }
}
