//! Reading before writing (law 2), and what of a reading is believed (law 5). A write consumes a [`Fresh`]: there is no
//! way to send one without having read the group.

use std::mem;

use serde::{Deserialize, Serialize};

use super::doubt::{Doubt, doubt, doubt_first};
use super::event::{Effect, ListingKey, Note, ReadResult, Scope};
use super::job::{Call, Job, Progress, Read, Wanted};
use super::limits::{DETAIL_LIMIT, READ_AGAIN};
use super::observation::Observation;
use super::refusal::WriteError;
use super::time::Time;
use super::{Group, differ};
use crate::cloud::{CloudError, GroupReading};

/// What was read for one write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fresh {
    /// What the write is conditional on, where the cloud has preconditions.
    pub basis: GroupReading,
    pub scope: Scope,
    /// What polls of the deletions that the write counts on have told.
    #[serde(default)]
    pub polls: Polls,
}

/// What polls of the deletions that a write counts on have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Polls {
    /// They were not polled since the read.
    #[default]
    NotAsked,
    /// Which of them are still running.
    Answered,
    /// Nothing: the list of instances decides.
    Unanswered,
}

/// Whether a read that a write needs has ended.
#[derive(Debug)]
pub(super) enum Need {
    /// It has, and [`Progress::fresh`] is what it returned.
    Met,
    /// It goes on.
    Waiting,
    /// It failed.
    Failed(WriteError),
}

/// An observation that waits for a second one to confirm it. Listings, reads beside the writes and reads for a write
/// share it: whichever comes next confirms what another one showed first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Doubted {
    pub why: Doubt,
    /// When it was read. A read that began less than [`READ_AGAIN`] later is no second one.
    since: Time,
    /// When the group is read again to confirm it.
    pub confirm_at: Time,
    /// The listing that it came with, which waits until the group is published.
    listing: Option<ListingKey>,
}

impl Group {
    /// Reads the group for a write of this job. The last known instances are enough for a capacity, unless the two
    /// contradict each other, or an operation has failed since they were read: only a new list shows what it left.
    pub(super) fn need(&mut self, job: &mut Progress, scope: Scope) -> Need {
        match mem::take(&mut job.read) {
            Read::Failed(error) => {
                job.patience = None;
                Need::Failed(error)
            }
            Read::Met(fresh) if fresh.scope >= scope && !self.has_failed() => {
                job.patience = None;
                job.read = Read::Met(fresh);
                Need::Met
            }
            Read::Idle | Read::Met(_) => {
                let scope = if self.has_failed() { Scope::Instances } else { scope };
                self.ask(job, Wanted::new(scope));
                Need::Waiting
            }
            Read::Wanted(wanted) => {
                self.ask(job, wanted);
                Need::Waiting
            }
        }
    }

    fn ask(&mut self, job: &mut Progress, wanted: Wanted) {
        let (scope, limit) = (wanted.scope, job.reading().left(self.now));
        job.call = Some(Call::Read(scope, limit));
        self.effects.push(Effect::Read { scope, limit });
        job.read = Read::Wanted(wanted);
    }

    /// A read for a write has ended.
    pub(super) fn read_for_write(&mut self, read: ReadResult) {
        let Some(Call::Read(scope, time)) = self.take_call() else { return };
        let Some(Job { work, progress: mut job }) = self.job.take() else { return };
        if read.reading.is_ok() {
            job.attempts.reached();
            job.reading().reached();
        }
        if let Read::Wanted(wanted) = mem::take(&mut job.read) {
            job.read = match (read.reading, scope) {
                (Err(error), _) => {
                    let is_passing = error.may_pass();
                    if is_passing && job.reading().again(self.now, Some(&error)) {
                        Read::Wanted(Wanted { before: Some(error), ..wanted })
                    } else if is_passing || scope == Scope::Instances {
                        Read::Failed(self.read_error(error, time, &mut job, wanted.before))
                    } else {
                        Read::Failed(error.into())
                    }
                }
                (Ok(reading), Scope::Capacity) => {
                    self.capacity_read(reading.map(|reading| *reading), read.begun, read.at, wanted)
                }
                (Ok(Some(reading)), Scope::Instances) => match Observation::new(*reading, read.begun, read.at) {
                    Some(observation) => self.instances_read(observation, &mut job, wanted),
                    None => Read::Failed(WriteError::Contended("the cloud returned no instances".to_owned())),
                },
                (Ok(None), Scope::Instances) if wanted.is_gone => {
                    self.retire();
                    Read::Failed(WriteError::Gone)
                }
                // Once is not enough: a machine that starts again has forgotten which of its writes may still take
                // effect.
                (Ok(None), Scope::Instances) => {
                    let reason = "the cloud reported once that it does not exist".to_owned();
                    self.read_again(reason, &mut job, Wanted { is_gone: true, ..wanted })
                }
            };
        }
        self.job = Some(Job { work, progress: job });
        if self.is_gone {
            self.respond_gone();
        }
    }

    fn capacity_read(
        &mut self,
        reading: Option<GroupReading>,
        begun: Time,
        at: std::time::SystemTime,
        wanted: Wanted,
    ) -> Read {
        let usable = reading.filter(|reading| reading.instances.is_some() || !self.is_another(reading));
        let observation = usable.and_then(|reading| match reading.instances {
            Some(_) => Observation::new(reading, begun, at),
            None => Some(self.state.observation().with_capacity_of(reading, begun, at)),
        });
        match observation.filter(|observation| self.doubt_of(observation).is_none()) {
            Some(observation) => Read::Met(Box::new(self.adopt_fresh(observation, Scope::Capacity, wanted.polls))),
            None => Read::Wanted(Wanted { scope: Scope::Instances, ..wanted }),
        }
    }

    fn instances_read(&mut self, observation: Observation, job: &mut Progress, wanted: Wanted) -> Read {
        if let Some(why) = self.doubt_of(&observation) {
            if !self.confirms(&why, observation.begun) {
                self.log(Note::InDoubtForWrite(why.clone()));
                let reason = format!("its observations contradict each other: {why}");
                self.put_in_doubt(why, &observation, None);
                return self.read_again(reason, job, Wanted { is_gone: false, ..wanted });
            }
            self.log(Note::Confirmed(why));
        }
        Read::Met(Box::new(self.adopt_fresh(observation, Scope::Instances, wanted.polls)))
    }

    /// Reads the instances again after a moment, if the time allows for it.
    fn read_again(&mut self, reason: String, job: &mut Progress, wanted: Wanted) -> Read {
        let now = self.now;
        let attempts = job.reading();
        if attempts.left(now) <= READ_AGAIN {
            return Read::Failed(WriteError::Contended(reason));
        }
        attempts.pause(now + READ_AGAIN);
        Read::Wanted(Wanted { scope: Scope::Instances, ..wanted })
    }

    /// Why a read failed that had this much time: the cloud's reason, now or `before`, unless the caller had left it
    /// too little.
    fn read_error(
        &self,
        error: CloudError,
        time: std::time::Duration,
        job: &mut Progress,
        before: Option<CloudError>,
    ) -> WriteError {
        let attempts = job.reading();
        if attempts.left(self.now).is_zero() && time < DETAIL_LIMIT && !attempts.is_lost() {
            return before.map_or(WriteError::NotSent, WriteError::Cloud);
        }
        error.into()
    }

    fn adopt_fresh(&mut self, observation: Observation, scope: Scope, polls: Polls) -> Fresh {
        self.end_doubt();
        let scope = if observation.detailed == observation.begun { Scope::Instances } else { scope };
        let basis = observation.reading.clone();
        self.adopt(observation);
        Fresh { basis, scope, polls }
    }

    /// What is fresh of an observation that was just read beside the writes: everything, if the read began after the
    /// last write and ended a moment ago, and no later one is in doubt. A listing is never fresh: it takes as long as all
    /// of its groups.
    pub(super) fn fresh_from_beside(&self) -> Option<Fresh> {
        let observation = self.state.observation();
        let is_its = |(begun, ended)| begun == observation.begun && self.now.since(ended) <= DETAIL_LIMIT;
        let is_fresh = self.read_beside.is_some_and(is_its)
            && self.doubted.is_none()
            && self.written.is_none_or(|written| written < observation.begun);
        is_fresh.then(|| {
            let basis = observation.reading.clone();
            Fresh { basis, scope: Scope::Instances, polls: Polls::NotAsked }
        })
    }

    /// Whether a read that began then may show less than is known already: responses arrive in any order.
    pub(super) fn is_outdated(&self, begun: Time) -> bool {
        self.state.observation().begun > begun || self.written.is_some_and(|written| written >= begun)
    }

    /// Why an observation is in doubt, if it is.
    pub(super) fn doubt_of(&self, observation: &Observation) -> Option<Doubt> {
        let is_another = differ(self.state.observation().reading.identity, observation.reading.identity);
        if is_another { doubt_first(observation) } else { doubt(&self.state, observation) }
    }

    /// Whether a read that began then confirms the doubt of an earlier one.
    pub(super) fn confirms(&self, why: &Doubt, begun: Time) -> bool {
        let is_second = |earlier: &&Doubted| earlier.why.is_confirmed_by(why) && earlier.since + READ_AGAIN <= begun;
        self.doubted.as_ref().filter(is_second).is_some()
    }

    /// Keeps an observation from being used until a second one confirms it. One that agrees with an earlier one, but
    /// was read too soon after it, changes nothing.
    pub(super) fn put_in_doubt(&mut self, why: Doubt, observation: &Observation, listing: Option<ListingKey>) {
        if !self.is_another(&observation.reading) {
            self.state.note_unused(observation.reading.desired, observation.at);
        }
        let waiting = self.doubted.as_mut().and_then(|earlier| earlier.listing.take());
        let (kept, released) = (listing.or(waiting), listing.and(waiting));
        released.into_iter().for_each(|listing| self.effects.push(Effect::Adopted(listing)));
        match &mut self.doubted {
            Some(earlier) if earlier.why.is_confirmed_by(&why) => earlier.listing = kept,
            earlier => {
                let (since, confirm_at) = (self.now, self.now + READ_AGAIN);
                *earlier = Some(Doubted { why, since, confirm_at, listing: kept });
            }
        }
    }

    /// The doubt has ended.
    pub(super) fn end_doubt(&mut self) {
        if let Some(listing) = self.doubted.take().and_then(|doubted| doubted.listing) {
            self.effects.push(Effect::Adopted(listing));
        }
    }

    /// The next read to confirm a doubt comes after this one, however that ends.
    pub(super) fn confirm_later(&mut self) {
        let confirm_at = self.now + READ_AGAIN * 5;
        self.doubted.iter_mut().for_each(|doubted| doubted.confirm_at = confirm_at);
    }

    /// A read failed: the next one to confirm a doubt waits longer, and no listing waits for it.
    pub(super) fn postpone_confirmation(&mut self) {
        self.confirm_later();
        if let Some(listing) = self.doubted.as_mut().and_then(|doubted| doubted.listing.take()) {
            self.effects.push(Effect::Adopted(listing));
        }
    }
}
