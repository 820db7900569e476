//! Everything that decides about one node group, as one pure state machine: [`Group::step`] takes an event and returns
//! effects.
//!
//! No async, no clock, no I/O and no lock: `fleet/keeper` carries the effects out and returns their results as events.
//! What is known of the group is in `state/`; a piece of work that writes is a [`job::Job`], and there is one at a
//! time.

mod accounting;
mod batch;
mod beside;
mod census;
mod cluster_nodes;
mod delete;
mod doubt;
mod event;
mod grow;
mod held;
mod in_flight;
mod job;
mod launch;
mod limits;
mod lower;
mod observation;
mod operation;
mod operations;
mod placeholder;
mod plan;
mod reading;
mod refusal;
mod removal;
mod replace;
mod request;
mod room;
mod served;
mod state;
mod status;
mod surplus;
#[cfg(test)]
mod tests;
mod time;
mod undo;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub(crate) use cluster_nodes::{ClusterNodes, WatchedNodes};
pub(crate) use doubt::{Doubt, doubt_first};
pub(crate) use event::{Effect, Event, ListingKey, Note, PollEnd, ReadResult, Scope};
pub(crate) use in_flight::InFlight;
pub(crate) use limits::{CALLER_WAITS, OPERATION_LIFE, READ_AGAIN, REFUSAL_MAX, WATCH_EVERY};
pub(crate) use observation::Observation;
pub(crate) use operation::{Operation, OperationId, OperationRequest, Phase};
pub use refusal::Refusal;
pub(crate) use refusal::WriteError;
pub(crate) use request::{Foreign, Request, RequestKey};
pub use request::{Mutation, NamedNode, NodeKind};
pub(crate) use state::GroupState;
pub use status::{GroupStatus, ReportedInstance};
pub(crate) use time::Time;

use crate::cloud::{CloudError, GroupReading, GrowsBy, Instance, InstanceState, ProviderId, differ};
use beside::Beside;
use held::Held;
use job::Job;
use launch::{Launching, Withheld};
use reading::Doubted;
use undo::Duty;

/// One node group, from its first good observation on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Whether every write is refused.
    is_read_only: bool,
    /// What is known of the group.
    state: GroupState,
    /// An observation that is neither published nor used until a second one confirms it.
    doubted: Option<Doubted>,
    /// Responses to deletions that wait for the outcome.
    held: Vec<Held>,
    /// Instances that a preempted deletion named, until they are deleted once more, and until when that is attempted.
    to_resend: BTreeMap<ProviderId, Time>,
    /// When the last write ended. A read that began before that does not show it.
    written: Option<Time>,
    /// When the last read beside the writes that was adopted began and ended.
    read_beside: Option<(Time, Time)>,
    /// When the group is to be read next without a request.
    read_at: Option<Time>,
    /// Until when the outcome of a capacity write may still show.
    unsettled_until: Option<Time>,
    /// What is being read beside the writes.
    beside: Beside,
    /// Launches whose outcome is not known.
    launching: Vec<Launching>,
    /// Why the cloud does not offer launches for the group, and until when capacities are written instead.
    withheld: Option<Withheld>,
    /// Requests that wait, in the order of arrival.
    queue: Vec<Request>,
    /// Requests of the last batch that name unknown instances: they come next.
    second: Vec<Request>,
    /// What is being done that writes.
    job: Option<Job>,
    /// What happened beside the writes during the job.
    later: VecDeque<Event>,
    /// What may have to be done because of what was observed or done since.
    duties: Vec<Duty>,
    /// Since when nothing allows a scale-up.
    blocked: Option<Blocked>,
    /// The number of the last operation.
    last_operation: u64,
    /// Whether the group no longer exists.
    is_gone: bool,
    /// The moment of the event that is being handled.
    now: Time,
    /// The same moment by the cloud's clock.
    cloud_time: SystemTime,
    /// What is to be done, in this order.
    #[serde(skip)]
    effects: Vec<Effect>,
}

/// A state in which nothing allows a scale-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Blocked {
    since: Time,
    reason: String,
    /// Whether the group is served as one that cannot grow.
    is_served: bool,
}

impl Blocked {
    fn served_from(&self) -> Time {
        self.since + limits::REFUSAL_MAX
    }
}

impl Group {
    /// A group that was observed for the first time. [`Event::Started`] comes next.
    pub(crate) fn new(observation: Observation, is_read_only: bool) -> Self {
        let (now, cloud_time) = (observation.begun, observation.at);
        let state = GroupState::new(observation);
        Self {
            is_read_only,
            state,
            doubted: None,
            held: Vec::new(),
            to_resend: BTreeMap::new(),
            written: None,
            read_beside: None,
            read_at: None,
            unsettled_until: None,
            beside: Beside::default(),
            launching: Vec::new(),
            withheld: None,
            queue: Vec::new(),
            second: Vec::new(),
            job: None,
            later: VecDeque::new(),
            duties: Vec::new(),
            blocked: None,
            last_operation: 0,
            is_gone: false,
            now,
            cloud_time,
            effects: Vec::new(),
        }
    }

    /// Takes what happened, decides, and returns what is to be done, in this order. `at` is the same moment as `now`
    /// by the cloud's clock, which stamps its launch activities.
    pub(crate) fn step(&mut self, now: Time, at: SystemTime, event: Event) -> Vec<Effect> {
        self.now = self.now.max(now);
        self.cloud_time = at;
        self.take(event);
        self.run();
        self.note_blocked();
        mem::take(&mut self.effects)
    }

    /// When [`Event::Woke`] is due, if anything waits for time to pass.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        let held = self.held.iter().map(|held| held.until).min();
        let work = match &self.job {
            Some(job) if job.progress.call.is_some() => None,
            Some(job) => job.progress.paused_until(),
            None => {
                let confirm = self.doubted.as_ref().map(|doubted| doubted.confirm_at);
                [confirm, self.read_at, self.batch_closes()].into_iter().flatten().min()
            }
        };
        let blocked = self.blocked.as_ref().filter(|blocked| !blocked.is_served).map(Blocked::served_from);
        let launches = self.launching.iter().filter_map(Launching::wake_at).min();
        held.into_iter().chain(work).chain(blocked).chain(launches).min()
    }

    /// What is known of the group.
    pub(crate) fn state(&self) -> &GroupState {
        &self.state
    }

    /// Why the last reading is not used until another one confirms it.
    pub(crate) fn doubt(&self) -> Option<&Doubt> {
        self.doubted.as_ref().map(|doubted| &doubted.why)
    }

    /// Why the cloud refused the last launch, if it does not offer launches for the group, or not to us.
    pub(crate) fn launches_withheld(&self) -> Option<&CloudError> {
        let grows_by_launch = self.state.observation().reading.consistency.grows_by != GrowsBy::Capacity;
        self.withheld.as_ref().filter(|_| grows_by_launch).map(|withheld| &withheld.why)
    }

    /// Whether the group no longer exists.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether every request has its response, and nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        let is_launching = self.launching.iter().any(Launching::is_under_way);
        self.queue.is_empty() && self.second.is_empty() && self.job.is_none() && self.later.is_empty() && !is_launching
    }

    /// The requests that the current job carries out.
    pub(crate) fn requests_in_work(&self) -> impl Iterator<Item = RequestKey> {
        self.job.iter().flat_map(Job::requests).chain(self.launching.iter().flat_map(Launching::requests))
    }

    /// Whether a preempted deletion of this instance is to be sent again. Until then it is reported as being deleted.
    pub(crate) fn is_to_be_resent(&self, id: &ProviderId) -> bool {
        self.to_resend.contains_key(id)
    }

    /// Whether something is under way that a listing is to show soon.
    pub(crate) fn is_restless(&self) -> bool {
        let is_moving = |instance: &Instance| instance.state != InstanceState::Running;
        self.doubted.is_some()
            || !self.state.in_flight().operations().is_empty()
            || self.state.in_flight().is_launching()
            || self.state.is_settling_placeholders()
            || self.state.observation().instances.iter().any(is_moving)
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Started => self.start(),
            Event::Requested(requests) => requests.into_iter().for_each(|request| self.arrive(request)),
            Event::Withdrawn(requests) => self.withdraw(&requests),
            Event::Read(read) => self.read_for_write(read),
            Event::Activity(activity) => self.activity_for_write(activity),
            Event::CapacityWritten(outcome) => self.capacity_written(outcome),
            Event::Launched(operation, outcome) => self.launched(operation, outcome),
            Event::Deleted(outcome) => self.deleted(outcome),
            // At once: a write that is being prepared may count on this deletion.
            Event::Polled(operation, end) => self.polled(operation, end),
            Event::PolledForWrite { ended, error } => self.polled_for_write(ended, error),
            Event::Woke => self.wake(),
            beside => self.later.push_back(beside),
        }
    }

    /// Goes on with the job, and begins the next one, until something has to be waited for.
    fn run(&mut self) {
        let is_waiting = |job: &Job| job.progress.call.is_some();
        while !self.is_gone && !self.job.as_ref().is_some_and(is_waiting) {
            if let Some(mut job) = self.job.take() {
                if job.progress.paused_until().is_some_and(|until| self.now < until) {
                    self.job = Some(job);
                    return;
                }
                job.progress.resume();
                self.advance(job);
            } else if let Some(event) = self.later.pop_front() {
                self.take_beside(event);
            } else if let Some(job) = self.next_job() {
                self.job = Some(job);
            } else {
                return;
            }
        }
    }

    /// Notes whether anything allows a scale-up. If nothing has for [`limits::REFUSAL_MAX`], the group is served as one
    /// that cannot grow, so that CA turns to another one (law 13).
    fn note_blocked(&mut self) {
        let reason = if self.is_read_only || self.is_gone { None } else { self.why_blocked() };
        let was_served = self.blocked.as_ref().is_some_and(|blocked| blocked.is_served);
        let Some(reason) = reason else {
            self.blocked = None;
            if was_served {
                self.publish();
            }
            return;
        };
        let now = self.now;
        let blocked =
            self.blocked.get_or_insert_with(|| Blocked { since: now, reason: String::new(), is_served: false });
        blocked.reason.clone_from(&reason);
        blocked.is_served |= blocked.served_from() <= now;
        if blocked.is_served && !was_served {
            self.log(Note::GrowthBlocked(reason));
            self.publish();
        }
    }

    /// Why no scale-up would be written at the moment, however often it is requested.
    fn why_blocked(&self) -> Option<String> {
        if let Some(reason) = &self.beside.unlisted {
            return Some(format!("it cannot be read: {reason}"));
        }
        match &self.doubted {
            Some(doubted) => Some(format!("its readings contradict each other: {}", doubted.why)),
            // A launch undoes no other write, whatever the capacity is.
            None if self.grows_by_launch() => None,
            None if self.state.in_flight().is_launching() => {
                Some("a launch has no outcome yet, and a capacity write could undo it".to_owned())
            }
            None if self.has_failed() => {
                Some("an operation has failed, and its instances could not be listed since".to_owned())
            }
            None if self.lacks_list_to_grow() => Some(
                "nodes are being deleted, and no list shows how that ends, so a new capacity could be too low"
                    .to_owned(),
            ),
            None if plan::has_revived(&self.state) => Some(grow::reason_of_revival()),
            None if plan::may_exceed_max(&self.state) => Some(grow::reason_of_unsettled()),
            None => plan::blocks_growth(&self.state).then(|| self.why_not_raised()),
        }
    }

    fn start(&mut self) {
        self.publish();
        self.read_activity_beside();
    }

    fn wake(&mut self) {
        self.release_held();
        self.tend_launches();
        if self.job.is_some() {
            return;
        }
        if self.doubted.as_ref().is_some_and(|doubted| doubted.confirm_at <= self.now) {
            self.confirm_later();
            self.read_beside(None);
        }
        if self.read_at.is_some_and(|at| at <= self.now) {
            self.read_at = None;
            self.read_beside(None);
            self.plan_read();
        }
    }

    fn retire(&mut self) {
        self.log(Note::Gone);
        self.end_launches(&WriteError::Gone);
        self.release_all_held();
        self.effects.push(Effect::Retire);
        self.is_gone = true;
    }

    fn adopt(&mut self, observation: Observation) {
        self.beside.unlisted = None;
        if self.is_another(&observation.reading) {
            return self.start_anew(observation);
        }
        let was_awaited = self.state.awaits_lost_write();
        let replaced = self.state.replaced_by(&observation);
        self.to_resend.retain(|id, _| !replaced.contains(id));
        // A failed deletion leaves the state before the observation enters it.
        self.state.forget(&replaced);
        let failures = self.failures_before(&observation);
        if failures.is_empty() {
            let _lost = self.state.observe(observation);
        } else {
            self.fail(&failures, &observation);
        }
        self.end_held_of_replaced();
        if was_awaited && !self.state.awaits_lost_write() {
            self.log(Note::LostWriteSettled(self.state.is_lost_write_shown()));
        }
        self.publish();
    }

    /// Whether this is a reading of another group than the last one, under the same name.
    fn is_another(&self, reading: &GroupReading) -> bool {
        differ(self.state.observation().reading.identity, reading.identity)
    }

    /// The group was deleted and created again: nothing that was known of the old one applies to the new one, and
    /// nothing that was requested from the old one is sent to it.
    fn start_anew(&mut self, observation: Observation) {
        self.log(Note::Recreated);
        self.state = GroupState::new(observation);
        let reason = "the node group was deleted and created again under its name";
        self.end_launches(&WriteError::OutcomeUnknown(reason.to_owned()));
        self.release_all_held();
        self.to_resend.clear();
        self.unsettled_until = None;
        self.publish();
    }

    fn publish(&mut self) {
        if !self.is_gone && !self.effects.iter().any(|effect| matches!(effect, Effect::Publish)) {
            self.effects.push(Effect::Publish);
        }
    }

    fn log(&mut self, note: Note) {
        self.effects.push(Effect::Log(note));
    }

    fn next_operation(&mut self) -> OperationId {
        self.last_operation += 1;
        OperationId(self.last_operation)
    }
}
