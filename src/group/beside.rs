//! What happens beside the writes: listings, reads that no write waits for, launch activity, and the ends of polls.

use std::mem;

use serde::{Deserialize, Serialize};

use super::Group;
use super::event::{Effect, Event, ListingKey, Note, ReadResult};
use super::job::{Answer, Call};
use super::limits::DETAIL_LIFE;
use super::observation::Observation;
use super::plan;
use crate::cloud::{CloudError, Consistency, GroupReading, InstanceState, LaunchActivity, Shortfall};

/// Which reads beside the writes are under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Beside {
    is_reading: bool,
    /// Whether the group is to be read again after that.
    is_read_wanted: bool,
    is_reading_activity: bool,
    /// Whether the log says that launch activity cannot be read.
    is_activity_unreadable: bool,
    /// Whether the log says that the group cannot be read by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_failure_logged: bool,
    /// Why the last listing could not read the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
}

impl Group {
    /// Takes what happened beside the writes, while no job runs.
    pub(super) fn take_beside(&mut self, event: Event) {
        match event {
            Event::Listed(read, listing) => self.listed(read, listing),
            Event::NotListed(begun, listing) => {
                // It is dropped only if a read by name does not find it either.
                if self.is_outdated(begun) {
                    self.effects.push(Effect::Adopted(listing));
                } else {
                    self.read_beside(Some(listing));
                }
            }
            Event::ReadBeside(read, listing) => self.read_beside_ended(read, listing),
            Event::ReadPanicked(listing) => {
                self.beside.is_reading = false;
                self.effects.extend(listing.map(Effect::Adopted));
            }
            Event::ActivityBeside(activity) => self.activity_beside_ended(activity),
            Event::ActivityPanicked => self.beside.is_reading_activity = false,
            _ => debug_assert!(false, "this event is not deferred"),
        }
    }

    /// Reads the group with its instances. While such a read runs, another one is started after it.
    pub(super) fn read_beside(&mut self, listing: Option<ListingKey>) {
        if self.beside.is_reading {
            self.beside.is_read_wanted = true;
            return self.effects.extend(listing.map(Effect::Adopted));
        }
        self.beside.is_reading = true;
        self.beside.is_read_wanted = false;
        self.effects.push(Effect::ReadBeside(listing));
    }

    /// Reads the launch activity if instances are missing, or if it may tell which of our writes the last read shows;
    /// unless it is being read.
    pub(super) fn read_activity_beside(&mut self) {
        if self.beside.is_reading_activity {
            return;
        }
        // A launch in a zone returns its own reasons.
        let is_unexplained = self.state.census().shortfall > 0 && !self.state.has_separate_zones();
        let missing = Some(self.state.unexplained_shortfall()).filter(|_| is_unexplained);
        let undated = self.state.undated_since().map(|since| Shortfall { missing: 1, since });
        if let Some(shortfall) = missing.or(undated) {
            self.beside.is_reading_activity = true;
            self.effects.push(Effect::ReadActivityBeside(shortfall));
        }
    }

    /// A listing has the group. Where it lacks the instances and there may be something new to see, they are read
    /// beside.
    fn listed(&mut self, read: ReadResult, listing: ListingKey) {
        if self.is_outdated(read.begun) {
            self.note_outdated(&read);
            return self.effects.push(Effect::Adopted(listing));
        }
        let ReadResult { reading, begun, at } = read;
        let reading = match reading {
            Ok(Some(reading)) => reading,
            unread => {
                self.beside.unlisted = unread.err().map(|error| error.fault().message.clone());
                return self.effects.push(Effect::Adopted(listing));
            }
        };
        self.beside.unlisted = None;
        let observation = match reading.instances {
            None if self.needs_detail(&reading) => return self.read_beside(Some(listing)),
            None => Some(self.state.observation().with_capacity_of(*reading, begun, at)),
            Some(_) => Observation::new(*reading, begun, at),
        };
        if let Some(observation) = observation {
            self.consider(observation, Some(listing));
        }
    }

    /// A read that a write of ours overtook shows how high the capacity was: that write may have undone another client's
    /// raise.
    fn note_outdated(&mut self, read: &ReadResult) {
        if let Ok(Some(reading)) = &read.reading {
            self.state.note_unused(reading.desired, read.at);
        }
    }

    fn needs_detail(&self, reading: &GroupReading) -> bool {
        let known = self.state.observation();
        let age = self.now.since(known.detailed);
        self.is_another(reading)
            || known.reading.desired != reading.desired
            || known.reading.etag != reading.etag
            || reading.is_detail_outdated
            || !self.state.is_steady()
            || age > DETAIL_LIFE
            // A list that lags shows instances that are gone already.
            || (self.state.surplus().is_some() && age > Consistency::LAG)
            || (self.state.survivors() > 0 && self.state.may_lack_instances())
            || !self.state.in_flight().operations().iter().all(|one| one.is_listed(known.detailed))
            || self.state.is_settling_placeholders()
            || known.instances.iter().any(|instance| instance.state != InstanceState::Running)
    }

    fn read_beside_ended(&mut self, read: ReadResult, listing: Option<ListingKey>) {
        self.beside.is_reading = false;
        let is_outdated = self.is_outdated(read.begun);
        if is_outdated {
            self.note_outdated(&read);
        }
        let ReadResult { reading, begun, at } = read;
        if reading.is_ok() && mem::take(&mut self.beside.is_failure_logged) {
            self.log(Note::Readable);
        }
        let mut waiting = listing;
        match reading {
            Ok(Some(reading)) if !is_outdated => {
                if let Some(observation) = Observation::new(*reading, begun, at) {
                    self.read_beside = Some((begun, self.now));
                    self.consider(observation, waiting.take());
                }
            }
            Ok(None) if !is_outdated => self.retire(),
            Ok(_) => {}
            Err(error) => {
                if !mem::replace(&mut self.beside.is_failure_logged, true) {
                    self.log(Note::Unreadable(error));
                }
                self.postpone_confirmation();
            }
        }
        self.effects.extend(waiting.map(Effect::Adopted));
        if self.is_gone {
            return;
        }
        if mem::take(&mut self.beside.is_read_wanted) || is_outdated {
            self.read_soon();
        }
        self.plan_read();
    }

    /// Whether a scale-up needs a list of the instances, and the last one that no write waits for could not be read.
    pub(super) fn lacks_list_to_grow(&self) -> bool {
        self.beside.is_failure_logged
            && plan::counts_on_deletions(&self.state, 1)
            && !plan::is_told_by_polls(&self.state)
    }

    /// Adopts an observation, or waits for a second one if it is in doubt (law 5).
    fn consider(&mut self, observation: Observation, listing: Option<ListingKey>) {
        if let Some(why) = self.doubt_of(&observation) {
            if !self.confirms(&why, observation.begun) {
                self.log(Note::InDoubt(why.clone()));
                self.put_in_doubt(why, &observation, listing);
                self.plan_read();
                return;
            }
            self.log(Note::Confirmed(why));
        }
        self.end_doubt();
        self.adopt(observation);
        self.effects.extend(listing.map(Effect::Adopted));
        self.read_activity_beside();
        self.settle();
    }

    fn activity_beside_ended(&mut self, activity: Result<LaunchActivity, CloudError>) {
        self.beside.is_reading_activity = false;
        match activity {
            Ok(activity) => {
                self.beside.is_activity_unreadable = false;
                let (is_missing, is_undated) =
                    (self.state.census().shortfall > 0, self.state.undated_since().is_some());
                if is_missing || is_undated {
                    self.state.learn_activity(activity);
                    self.publish();
                    self.settle();
                }
                // What they date is read once more.
                if self.state.is_dated_by_launches() {
                    self.read_soon();
                }
            }
            Err(error) => self.activity_failed(error),
        }
    }

    /// Launch activity was read for a write.
    pub(super) fn activity_for_write(&mut self, activity: Result<LaunchActivity, CloudError>) {
        let Some(job) = &mut self.job else { return };
        if matches!(job.progress.call, Some(Call::Activity)) {
            job.progress.call = None;
            job.progress.answer = Answer::Activity(activity);
        }
    }

    /// Logs once that launch activity cannot be read, until it can be read again.
    pub(super) fn activity_failed(&mut self, error: CloudError) {
        if !mem::replace(&mut self.beside.is_activity_unreadable, true) {
            self.log(Note::ActivityUnreadable(error));
        }
    }
}
