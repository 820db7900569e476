//! Raises a capacity back that one of our own writes left too low (law 11), and starts other work that nobody requested.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Group;
use super::event::{Effect, Note, Scope};
use super::job::{Answer, Call, CapacityOutcome, Job, Progress, Read, Work};
use super::limits::{DETAIL_LIMIT, READ_SOON, WATCH_EVERY};
use super::lower::Lowering;
use super::observation::Observation;
use super::operation::{Operation, OperationRequest};
use super::plan;
use super::reading::Need;
use super::state::WriteReason;
use super::time::Time;
use crate::cloud::{Consistency, OwnLaunches, ProviderId, Shortfall};

/// How far raising a capacity back is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Undo {
    /// What the cloud launched for reasons of its own is being read.
    Activity,
    /// The group is being read.
    Read(Option<Own>),
    /// The capacity was sent.
    Sent(u32),
}

/// What the cloud launched for reasons of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Own {
    launches: OwnLaunches,
    /// The instances that were listed before these were read.
    listed: BTreeSet<ProviderId>,
}

impl Own {
    pub(super) fn new(launches: OwnLaunches, observation: &Observation) -> Self {
        Self { launches, listed: observation.instances.iter().map(|one| one.id.clone()).collect() }
    }

    /// Adds the instances that have appeared since. The activities were read too early to explain them; the next ones
    /// do.
    pub(super) fn with_new(&self, observation: &Observation) -> OwnLaunches {
        let new = observation.instances.iter().filter(|one| !self.listed.contains(&one.id));
        let new = new.map(|one| one.id.instance().to_owned());
        let known: BTreeSet<&String> = self.launches.instances.iter().collect();
        let new = new.filter(|instance| !known.contains(instance));
        let instances = new.chain(self.launches.instances.iter().cloned()).collect();
        OwnLaunches { instances, replacing: self.launches.replacing }
    }
}

impl Group {
    /// What is to be done next: what the last observation calls for, then what CA requests.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        while let Some(duty) = self.duties.pop() {
            let job = match duty {
                Duty::Resend => self.resend_job(),
                Duty::Undo => self.undo_job(),
                Duty::Replace => self.replace_job(),
                Duty::Lower => self.lower_job(),
                Duty::Plan => {
                    self.plan_read();
                    None
                }
            };
            if job.is_some() {
                return job;
            }
        }
        self.next_batch()
    }

    /// Something was observed or done that may call for a write of our own.
    pub(super) fn settle(&mut self) {
        self.duties = vec![Duty::Plan, Duty::Lower, Duty::Replace, Duty::Undo, Duty::Resend];
    }

    fn undo_job(&mut self) -> Option<Job> {
        self.state.undone_capacity(Some(&OwnLaunches::default()))?;
        // Instances that the cloud launched for reasons of its own may be why more live than a write of ours left room
        // for.
        let sent = self.state.undone_since()?;
        let ago = self.now.since(sent) + Consistency::OWN_SURPLUS;
        let since = self.cloud_time.checked_sub(ago).unwrap_or(std::time::SystemTime::UNIX_EPOCH);
        let shortfall = Shortfall::of_every_launch(since);
        self.effects.push(Effect::ReadActivity { shortfall, limit: DETAIL_LIMIT });
        let mut job = Job::of_our_own(Work::Undo(Undo::Activity), self.now);
        job.progress.call = Some(Call::Activity);
        Some(job)
    }

    /// Goes on with raising the capacity back.
    pub(super) fn undo(&mut self, mut job: Progress, undo: Undo) {
        let undo = match undo {
            Undo::Activity => {
                let Answer::Activity(activity) = job.take_answer() else { return };
                let own = match activity {
                    Ok(activity) => Some(Own::new(activity.own, self.state.observation())),
                    Err(error) => {
                        self.activity_failed(error);
                        None
                    }
                };
                if self.state.undone_capacity(own.as_ref().map(|own| &own.launches)).is_none() {
                    return;
                }
                Undo::Read(own)
            }
            other => other,
        };
        let next = match undo {
            Undo::Activity => None,
            Undo::Read(own) => match self.need(&mut job, Scope::Capacity) {
                Need::Waiting => Some(Undo::Read(own)),
                Need::Failed(error) => {
                    self.log(Note::UnreadableForUndo(Box::new(error)));
                    None
                }
                Need::Met => self.raise_back(&mut job, own.as_ref()).map(Undo::Sent),
            },
            Undo::Sent(to) => match self.capacity_outcome(&mut job) {
                None => Some(Undo::Sent(to)),
                Some(CapacityOutcome::Accepted) => {
                    self.log(Note::RaisedBack(to));
                    None
                }
                Some(CapacityOutcome::Retry(error)) => {
                    self.log(Note::NotRaisedBackYet(to, error));
                    None
                }
                Some(CapacityOutcome::Failed(error)) => {
                    self.log(Note::NotRaisedBack(to, Box::new(error)));
                    None
                }
            },
        };
        self.job = next.map(|undo| Job { work: Work::Undo(undo), progress: job });
    }

    fn raise_back(&mut self, job: &mut Progress, own: Option<&Own>) -> Option<u32> {
        let own = own.map(|own| own.with_new(self.state.observation()));
        let to = self.state.not_below_lost_write(self.state.undone_capacity(own.as_ref())?);
        if self.has_just_raised_back(to) {
            return None;
        }
        self.log(Note::RaisingBack(to));
        match self.send_capacity(job, to, WriteReason::Undo, Vec::new()) {
            Ok(()) => Some(to),
            Err(error) => {
                self.log(Note::NotRaisedBack(to, Box::new(error)));
                None
            }
        }
    }

    /// Whether the cloud accepted the same capacity a moment ago. Reads that lag do not show it yet, and must not cause
    /// a write each.
    fn has_just_raised_back(&self, to: u32) -> bool {
        let is_recent = |one: &&Operation| self.now.since(one.accepted) < WATCH_EVERY;
        let mut recent = self.state.in_flight().operations().iter().filter(is_recent);
        recent.any(|one| matches!(one.request, OperationRequest::Capacity { to: last, .. } if last == to))
    }

    /// Writes a reduction that was unsafe when it was requested, once it is safe.
    fn lower_job(&mut self) -> Option<Job> {
        if self.state.deferred() == 0 {
            return None;
        }
        let Some(fresh) = self.fresh_from_beside() else {
            // A listing shows that it may be safe by now, but only a read of this group is fresh enough to write on.
            if plan::reduced_capacity(&self.state, 0).is_some() {
                self.read_soon();
            }
            return None;
        };
        let mut job = Job::of_our_own(Work::Lower(Lowering::deferred()), self.now);
        job.progress.read = Read::Met(Box::new(fresh));
        Some(job)
    }

    /// Whether a reduction is deferred that only time stands in the way of. The next listing may be ten minutes away.
    fn is_deferred_for_a_moment(&self) -> bool {
        self.state.deferred() > 0
            && (!self.state.is_steady()
                || self.state.has_just_grown()
                || self.state.may_be_outdated()
                || self.state.in_flight().is_launching())
    }

    /// Reads the group in a moment: something has changed that a read shows.
    pub(super) fn read_soon(&mut self) {
        self.read_by(self.now + READ_SOON);
    }

    pub(super) fn read_by(&mut self, at: Time) {
        self.read_at = Some(self.read_at.map_or(at, |planned| planned.min(at)));
    }

    /// Plans when the group is read next without a request.
    pub(super) fn plan_read(&mut self) {
        let now = self.now;
        let is_unsettled =
            self.unsettled_until.is_some_and(|until| now < until) || self.state.in_flight().has_unsettled();
        let is_owed = self.state.deferred() > 0 || self.state.is_learning_kind_of_capacity();
        let owed_until = self.state.lists_all_from().filter(|_| is_owed && self.state.may_lack_instances());
        if let Some(until) = owed_until {
            // Where reads fail, it is past until one succeeds.
            self.read_by(until.max(now + Consistency::LAUNCH_BEGINS));
        }
        if let Some(at) = self.state.launches_show_at().filter(|at| now < *at) {
            self.read_by(at);
        }
        let pause = if is_unsettled || self.state.is_watched(now) || self.state.in_flight().is_launching() {
            WATCH_EVERY
        } else if self.is_deferred_for_a_moment() {
            Consistency::LAUNCH_BEGINS
        } else {
            return;
        };
        self.read_by(now + pause);
    }
}

/// What may have to be done after an observation, the last one first.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Duty {
    /// Send a preempted deletion again.
    Resend,
    /// Raise the capacity back.
    Undo,
    /// Raise the capacity by what is owed for deleted instances.
    Replace,
    /// Lower the capacity by what CA gave back.
    Lower,
    /// Plan the next read.
    Plan,
}
