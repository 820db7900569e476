//! Growing the group.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Group;
use super::event::{Effect, Note, Scope};
use super::job::{Answer, Call, CapacityOutcome, Progress};
use super::limits::DETAIL_LIMIT;
use super::plan;
use super::refusal::WriteError;
use super::request::{Request, RequestKey};
use super::room::Room;
use super::state::WriteReason;
use crate::cloud::{CloudError, Missing, Permit, Shortfall, ZoneName};

/// Why a capacity is not written that live instances could exceed.
pub(super) fn reason_of_revival() -> String {
    "nodes whose deletion may have failed are more than the new capacity has room for".to_owned()
}

/// Why no capacity is written that may take the group above its maximum.
pub(super) fn reason_of_unsettled() -> String {
    "nodes whose deletion may have failed leave too little room below its maximum".to_owned()
}

/// The error where [`reason_of_revival`] is the reason.
pub(super) fn may_exceed() -> WriteError {
    WriteError::Contended(reason_of_revival())
}

/// By how much these requests grow the group, if only one of them is granted.
fn least_growth_of(requests: &[Request]) -> u32 {
    requests.iter().map(|request| request.mutation.growth()).min().unwrap_or_default()
}

/// Scale-ups that are carried out with one write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Growing {
    requests: Vec<Request>,
    step: Step,
    /// Whether recent launches were read. They show which of our writes the last read includes.
    is_dated: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Step {
    /// The group is being read.
    Read(Scope),
    /// Recent launches are being read.
    Activity,
    /// The new capacity was sent. As many cancelled placeholders are put back into the target once the cloud accepts
    /// it.
    Sent { reinstated: u32 },
}

impl Growing {
    pub(super) fn new(requests: Vec<Request>) -> Self {
        Self { requests, step: Step::Read(Scope::Capacity), is_dated: false }
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter()
    }

    pub(super) fn withdraw(&mut self, withdrawn: &BTreeSet<RequestKey>) {
        self.requests.retain(|request| !withdrawn.contains(&request.key));
    }
}

impl Group {
    /// Grows the group by all that is requested and allowed. Returns what waits.
    pub(super) fn grow(&mut self, job: &mut Progress, growing: Growing) -> Option<Growing> {
        let Growing { mut requests, step, is_dated } = growing;
        if requests.is_empty() {
            return None;
        }
        match step {
            Step::Read(scope) => match self.room_to_raise(job, scope, least_growth_of(&requests)) {
                Room::Waiting => Some(Growing { requests, step, is_dated }),
                Room::Failed(error) => {
                    self.respond_all(requests, &error);
                    None
                }
                Room::TooLittle => {
                    self.log(Note::GrowthBlockedByDeletions(least_growth_of(&requests)));
                    let requests = self.wait_to_grow(job, requests, None, may_exceed())?;
                    Some(Growing { requests, step, is_dated })
                }
                Room::Enough => match self.date(job, is_dated) {
                    Some(step) => Some(Growing { requests, step, is_dated: true }),
                    None => self.raise(job, requests, is_dated),
                },
            },
            Step::Activity => {
                let Answer::Activity(activity) = job.take_answer() else {
                    return Some(Growing { requests, step, is_dated });
                };
                match activity {
                    Ok(activity) => self.state.learn_activity(activity),
                    Err(error) => self.activity_failed(error),
                }
                // They show how old the last read is. The group is read again, and that read is judged with them.
                if self.state.is_dated_by_launches() {
                    job.take_fresh();
                }
                Some(Growing { requests, step: Step::Read(Scope::Capacity), is_dated })
            }
            Step::Sent { reinstated } => match self.capacity_outcome(job) {
                None => Some(Growing { requests, step, is_dated }),
                Some(CapacityOutcome::Accepted) => {
                    self.reinstate(reinstated, None);
                    self.respond_grown(requests);
                    None
                }
                Some(CapacityOutcome::Retry(error)) => {
                    let refused = WriteError::Cloud(error.clone());
                    requests = self.wait_to_grow(job, requests, Some(&error), refused)?;
                    Some(Growing { requests, step: Step::Read(Scope::Capacity), is_dated })
                }
                Some(CapacityOutcome::Failed(error)) => {
                    self.respond_all(requests, &error);
                    None
                }
            },
        }
    }

    /// Reads recent launches, once, where the last read may be too old to show our last write: an instance that was
    /// launched since shows that it is not (law 2).
    fn date(&mut self, job: &mut Progress, is_dated: bool) -> Option<Step> {
        let since = self.state.undated_since().filter(|_| !is_dated)?;
        let shortfall = Shortfall::of_every_launch(since);
        self.effects.push(Effect::ReadActivity { shortfall, limit: DETAIL_LIMIT });
        job.call = Some(Call::Activity);
        Some(Step::Activity)
    }

    /// Raises the target, computed on the last read. Cancelled placeholders are capacity that exists already and only
    /// has to be reinstated, if the cloud launches what is missing by itself.
    fn raise(&mut self, job: &mut Progress, requests: Vec<Request>, is_dated: bool) -> Option<Growing> {
        // Another client may have used the room meanwhile, and a caller's time may be up.
        let granted = self.judge_growth(requests);
        let requests = self.committed(granted);
        let delta: u32 = requests.iter().map(|request| request.mutation.growth()).sum();
        if requests.is_empty() {
            return None;
        }
        // Another write would be computed on a capacity that may change (law 7).
        if self.state.awaits_lost_write() {
            self.log(Note::GrowthBlockedByLostWrite(delta));
            let reason = "an earlier capacity write got no response and may still take effect";
            self.respond_all(requests, &WriteError::OutcomeUnknown(reason.to_owned()));
            return None;
        }
        if self.grows_by_launch() {
            self.launch_by_zone(job, requests);
            return None;
        }
        let reinstated = self.reinstatable(delta, None);
        if self.state.in_flight().has_unread() || self.state.in_flight().is_launching() {
            self.log(Note::GrowthAwaitsRead(delta));
            let reason = "its reads do not yet show our last write that the cloud accepted";
            let requests = self.wait_to_grow(job, requests, None, WriteError::Contended(reason.to_owned()))?;
            return Some(Growing { requests, step: Step::Read(Scope::Capacity), is_dated });
        }
        if reinstated == delta {
            self.reinstate(reinstated, None);
            self.respond_grown(requests);
            return None;
        }
        let Some(to) = plan::raised_capacity(&self.state, delta - reinstated) else {
            self.log(Note::GrowthNotAllowed(delta));
            let error = WriteError::Contended(self.why_not_raised());
            let requests = self.wait_to_grow(job, requests, None, error)?;
            return Some(Growing { requests, step: Step::Read(Scope::Instances), is_dated });
        };
        let keys = requests.iter().map(|request| request.key).collect();
        match self.send_capacity(job, to, WriteReason::Requested, keys) {
            Ok(()) => Some(Growing { requests, step: Step::Sent { reinstated }, is_dated }),
            Err(error) => {
                self.respond_all(requests, &error);
                None
            }
        }
    }

    fn judge_growth(&mut self, requests: Vec<Request>) -> Vec<Request> {
        let (mut claimed, mut granted) = (0, Vec::new());
        for request in requests {
            let delta = request.mutation.growth();
            let zone = request.zone.as_ref();
            match plan::increase(&self.state, delta, zone, claimed) {
                // Instances whose deletion has an unknown outcome may live on, and would then take the group above its
                // maximum (law 6).
                Ok(()) if plan::increase(&self.state, delta, zone, claimed + self.state.may_live_on()).is_err() => {
                    self.log(Note::GrowthBlockedByDeletions(delta));
                    self.respond(&request, Err(WriteError::Contended(reason_of_unsettled())));
                }
                Ok(()) => {
                    claimed += delta;
                    granted.push(request);
                }
                Err(refusal) => {
                    self.log(Note::GrowthRefused(delta, refusal.clone()));
                    self.respond(&request, Err(refusal.into()));
                }
            }
        }
        granted
    }

    /// Waits before the next attempt. Those that have no time for it get the error. `None` where none has.
    fn wait_to_grow(
        &mut self,
        job: &mut Progress,
        requests: Vec<Request>,
        refusal: Option<&CloudError>,
        error: WriteError,
    ) -> Option<Vec<Request>> {
        let next = job.attempts.next(self.now, refusal);
        let requests = self.respond_out_of_time(requests, next, &error);
        job.take_fresh();
        if requests.is_empty() {
            return None;
        }
        if !job.attempts.again(self.now, refusal) {
            self.respond_all(requests, &error);
            return None;
        }
        Some(requests)
    }

    /// Why the observation allows no scale-up.
    pub(super) fn why_not_raised(&self) -> String {
        let census = self.state.census();
        if census.live <= census.capacity {
            return "its capacity reads lower than our last write set it: another client may have lowered it"
                .to_owned();
        }
        let surplus = format!("its live instances ({}) exceed its capacity ({})", census.live, census.capacity);
        match &self.state.observation().reading.removal {
            Permit::Granted => format!("{surplus}: the cloud may be about to delete some"),
            Permit::Withheld(reason) => format!("{surplus}; none is deleted: {reason}"),
        }
    }

    /// How many cancelled placeholders a scale-up by `delta` puts back: the cloud launches what is missing by itself.
    pub(super) fn reinstatable(&self, delta: u32, zone: Option<&ZoneName>) -> u32 {
        let is_retried = self.state.observation().reading.consistency.missing == Missing::Retried;
        if is_retried { delta.min(self.state.cancelled_in(zone)) } else { 0 }
    }

    pub(super) fn reinstate(&mut self, number: u32, zone: Option<&ZoneName>) {
        if number == 0 {
            return;
        }
        self.state.reinstate(number, zone, self.cloud_time);
        self.publish();
    }

    pub(super) fn respond_grown(&mut self, requests: Vec<Request>) {
        for request in requests {
            self.respond(&request, Ok(()));
        }
    }
}
