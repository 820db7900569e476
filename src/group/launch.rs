//! Growing the group by launches, where a call launches a number of instances and returns what became of them.
//!
//! Launches run beside the jobs: a call can take longer than its caller waits, and no deletion waits for it. Each is
//! repeated with its token until its outcome is known, so none is done twice and none is lost. Until then, the target
//! includes it. A caller whose time is up gets OK if anything may have been launched, and what fails is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Group;
use super::event::{Effect, Note};
use super::job::Progress;
use super::limits::{ATTEMPT_PAUSE_MIN, LAUNCH_PAUSE_MAX, OPERATION_LIFE};
use super::operation::OperationId;
use super::refusal::WriteError;
use super::request::{Mutation, Request, RequestKey, Stage};
use super::time::Time;
use crate::cloud::{CloudError, Failure, FailureClass, GroupReading, GrowsBy, LAUNCH_MAX, LaunchResult, ZoneName};

/// Scale-ups that are carried out with the same launches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Launching {
    /// Those that have no response yet.
    requests: Vec<Request>,
    /// The zone to launch in, where each is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<ZoneName>,
    /// How many instances they asked for, without those that take the place of cancelled placeholders.
    asked: u32,
    /// As many cancelled placeholders are put back into the target with the first OK.
    reinstated: u32,
    calls: Vec<LaunchCall>,
    /// Whether anything was launched, or a caller has its OK.
    is_granted: bool,
    /// What was not launched and is not listed yet, with the reasons.
    failed: Vec<(u32, Vec<Failure>)>,
    /// Why the last call failed.
    error: Option<WriteError>,
}

/// Launches that the cloud does not offer for the group, or not to us.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Withheld {
    pub(super) why: CloudError,
    /// Until when none is tried.
    until: Time,
}

/// One launch whose outcome is not known.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LaunchCall {
    operation: OperationId,
    basis: Box<GroupReading>,
    number: u32,
    sent: Time,
    /// When it is sent again; `None` while it is being carried out.
    again_at: Option<Time>,
    pause: Duration,
    /// Whether an earlier attempt may have launched something.
    may_have_begun: bool,
    /// Why the last attempt has no outcome.
    error: Option<CloudError>,
}

impl LaunchCall {
    /// Whether something may have been launched, or is being launched.
    fn may_launch(&self) -> bool {
        self.may_have_begun || self.again_at.is_none()
    }
}

impl Launching {
    /// Whether a caller waits for it, or a call is being carried out.
    pub(super) fn is_under_way(&self) -> bool {
        !self.requests.is_empty() || self.calls.iter().any(|call| call.again_at.is_none())
    }

    /// The requests that have no response yet.
    pub(super) fn requests(&self) -> impl Iterator<Item = RequestKey> {
        self.requests.iter().map(|request| request.key)
    }

    fn may_launch(&self) -> bool {
        self.is_granted || self.calls.iter().any(LaunchCall::may_launch)
    }

    /// Whether it is still for the requests that it was begun for, or some of them have their OK.
    fn is_for_all(&self) -> bool {
        self.is_granted || self.requests.iter().map(growth).sum::<u32>() == self.asked + self.reinstated
    }

    /// Whether a call is sent again when its time comes: it may have launched something, or all still wait for it.
    fn is_repeated(&self, call: &LaunchCall) -> bool {
        call.may_have_begun || self.is_for_all()
    }

    /// When something is to be done next.
    pub(super) fn wake_at(&self) -> Option<Time> {
        let responses = self.requests.iter().map(|request| request.send_by);
        // Without a caller, what was not sent is given up.
        let tended = self.calls.iter().filter(|call| self.requests.is_empty() || self.is_repeated(call));
        responses.chain(tended.filter_map(|call| call.again_at)).min()
    }
}

fn growth(request: &Request) -> u32 {
    if let Mutation::Increase(delta) = request.mutation { delta } else { 0 }
}

impl Group {
    /// Whether the group grows by launches.
    pub(super) fn grows_by_launch(&self) -> bool {
        match self.state.observation().reading.consistency.grows_by {
            GrowsBy::Capacity => false,
            GrowsBy::Launch => self.withheld.as_ref().is_none_or(|withheld| withheld.until <= self.now),
            GrowsBy::LaunchInZone => true,
        }
    }

    /// Whether the group can also grow by a new capacity.
    fn may_write_capacities(&self) -> bool {
        self.state.observation().reading.consistency.grows_by != GrowsBy::LaunchInZone
    }

    /// Launches what these requests ask for, in each zone that they are for. The group was read for it.
    pub(super) fn launch_by_zone(&mut self, job: &mut Progress, requests: Vec<Request>) {
        let Some(fresh) = job.take_fresh() else {
            debug_assert!(false, "a write without a fresh read (law 2)");
            return;
        };
        let mut by_zone: BTreeMap<Option<ZoneName>, Vec<Request>> = BTreeMap::new();
        for request in requests {
            by_zone.entry(request.zone.clone()).or_default().push(request);
        }
        for (zone, requests) in by_zone {
            self.launch(&fresh.basis, zone, requests);
        }
    }

    /// Launches what these requests ask for, in calls of [`LAUNCH_MAX`] at most.
    fn launch(&mut self, basis: &GroupReading, zone: Option<ZoneName>, requests: Vec<Request>) {
        let delta: u32 = requests.iter().map(growth).sum();
        let reinstated = self.reinstatable(delta, zone.as_ref());
        let number = delta - reinstated;
        if number == 0 {
            self.reinstate(reinstated, zone.as_ref());
            return self.respond_grown(requests);
        }
        if let Err(error) = self.permit_write(format!("launch {number} instances")) {
            return self.respond_all(requests, &error);
        }
        let (mut calls, mut rest) = (Vec::new(), number);
        while rest > 0 {
            let number = rest.min(LAUNCH_MAX);
            rest -= number;
            let operation = self.next_operation();
            let moment = (self.now, self.cloud_time);
            let launched = (number, zone.clone());
            self.state.start_launch(operation, launched, moment);
            let basis = Box::new(basis.clone());
            let (sent, pause) = (self.now, ATTEMPT_PAUSE_MIN);
            calls.push(LaunchCall {
                operation,
                basis,
                number,
                sent,
                again_at: None,
                pause,
                may_have_begun: false,
                error: None,
            });
        }
        let (is_granted, failed, error) = (false, Vec::new(), None);
        let launching = Launching { requests, zone, asked: number, reinstated, calls, is_granted, failed, error };
        launching.calls.iter().for_each(|call| self.send_launch(call, &launching));
        self.launching.push(launching);
        self.publish();
    }

    fn send_launch(&mut self, call: &LaunchCall, launching: &Launching) {
        let zone = launching.zone.clone();
        self.log(Note::Launching(call.operation, call.number, zone.clone()));
        // A repetition is the same launch: nobody can give it up.
        let requests = if call.may_have_begun { Vec::new() } else { launching.requests().collect() };
        let (operation, basis, number) = (call.operation, call.basis.clone(), call.number);
        self.effects.push(Effect::Launch { operation, basis, number, zone, requests });
    }

    /// The callers of these requests gave up before anything was sent for them.
    pub(super) fn withdraw_from_launches(&mut self, withdrawn: &BTreeSet<RequestKey>) {
        for launching in &mut self.launching {
            launching.requests.retain(|request| !withdrawn.contains(&request.key));
        }
        // What was not sent for them is given up at once: the target includes it.
        self.tend_launches();
    }

    /// The cloud responded to a launch.
    pub(super) fn launched(&mut self, operation: OperationId, outcome: Result<LaunchResult, CloudError>) {
        let has = |launching: &Launching| launching.calls.iter().any(|call| call.operation == operation);
        let Some(position) = self.launching.iter().position(has) else { return };
        let mut launching = self.launching.remove(position);
        let Some(index) = launching.calls.iter().position(|call| call.operation == operation) else { return };
        let mut call = launching.calls.remove(index);
        match outcome {
            Ok(launched) => {
                // One that was sent before the refusal shows nothing, unless the group grows in no other way.
                let is_only_way = !self.may_write_capacities();
                self.withheld.take_if(|withheld| is_only_way || withheld.until <= self.now);
                self.end_call(&mut launching, &call, &launched.instances, launched.failures);
            }
            Err(error) if error.outcome_unknown() || error.may_be_repeated() || is_denied_repetition(&call, &error) => {
                self.log(Note::LaunchUnsettled(operation, error.clone()));
                call.may_have_begun |= error.outcome_unknown();
                launching.error = Some(WriteError::Cloud(error.clone()));
                if self.now.since(call.sent) < OPERATION_LIFE {
                    self.pause_launch(&mut launching, call, &error);
                } else {
                    let failure = self.failure_of(&error);
                    self.end_call(&mut launching, &call, &[], vec![failure]);
                }
            }
            Err(error) if is_not_offered(&error) && !call.may_have_begun && self.may_write_capacities() => {
                if self.withhold_launches(error.clone()) {
                    self.log(Note::LaunchesWithheld(error.clone()));
                }
                launching.error = Some(WriteError::Cloud(error.clone()));
                if !launching.may_launch() {
                    launching.calls.push(call);
                    return self.begin_anew(launching);
                }
                let failure = self.failure_of(&error);
                self.end_call(&mut launching, &call, &[], vec![failure]);
            }
            Err(error) => {
                if is_not_offered(&error) && !call.may_have_begun {
                    self.withhold_launches(error.clone());
                }
                self.log(Note::LaunchRefused(operation, error.clone()));
                let failure = self.failure_of(&error);
                launching.error = Some(WriteError::Cloud(error));
                self.end_call(&mut launching, &call, &[], vec![failure]);
            }
        }
        self.keep_launching(launching);
    }

    /// A launch has ended: with these instances, and these reasons why there are no more.
    fn end_call(
        &mut self,
        launching: &mut Launching,
        call: &LaunchCall,
        instances: &[String],
        mut failures: Vec<Failure>,
    ) {
        self.written = Some(self.now);
        let short = self.state.end_launch(call.operation, instances, self.now);
        launching.is_granted |= !instances.is_empty();
        if short > 0 {
            if failures.is_empty() {
                failures.push(self.failure("LaunchFailed", "the cloud gave no reason", FailureClass::Other));
            }
            self.log(Note::NotLaunched(call.operation, short, failures[0].clone()));
            launching.failed.push((short, failures));
        }
        self.read_soon();
        self.publish();
    }

    /// Sends a launch again after a moment: the cloud was busy, or its outcome is not known.
    fn pause_launch(&mut self, launching: &mut Launching, mut call: LaunchCall, error: &CloudError) {
        let asked =
            if let CloudError::Throttled { retry_after: Some(pause), .. } = error { *pause } else { call.pause };
        call.again_at = Some(self.now + asked.max(call.pause));
        call.pause = (call.pause * 2).min(LAUNCH_PAUSE_MAX);
        call.error = Some(error.clone());
        launching.calls.push(call);
        if !launching.may_launch() {
            for request in launching.requests.iter_mut().filter(|request| request.stage == Stage::Sent) {
                request.stage = Stage::Waiting;
                self.effects.push(Effect::Release(request.key));
            }
        }
    }

    /// Does what is due for the launches: sends them again, and responds to callers whose time is up.
    pub(super) fn tend_launches(&mut self) {
        for mut launching in mem::take(&mut self.launching) {
            let (due, waiting): (Vec<_>, Vec<_>) =
                mem::take(&mut launching.requests).into_iter().partition(|request| request.send_by <= self.now);
            launching.requests = waiting;
            if launching.may_launch() {
                if !due.is_empty() {
                    launching.is_granted = true;
                    self.reinstate(mem::take(&mut launching.reinstated), launching.zone.as_ref());
                }
                due.iter().for_each(|request| self.respond(request, Ok(())));
            } else {
                let error = launching.error.clone().unwrap_or(WriteError::NotSent);
                self.respond_all(due, &error);
            }
            let is_over = launching.requests.is_empty();
            for mut call in mem::take(&mut launching.calls) {
                if is_over && !call.may_launch() {
                    // What was not sent in its caller's time is not sent.
                    let reason = call.error.as_ref().map(|error| self.failure_of(error));
                    let unsent = || self.failure("LaunchFailed", "not sent in time", FailureClass::Other);
                    let failure = reason.unwrap_or_else(unsent);
                    self.end_call(&mut launching, &call, &[], vec![failure]);
                    continue;
                }
                if call.again_at.is_some_and(|at| at <= self.now) && launching.is_repeated(&call) {
                    call.again_at = None;
                    self.send_launch(&call, &launching);
                }
                launching.calls.push(call);
            }
            self.keep_launching(launching);
        }
    }

    /// Goes on with launches, or responds to their callers once they have ended.
    fn keep_launching(&mut self, mut launching: Launching) {
        if !launching.is_for_all() && !launching.may_launch() {
            return self.begin_anew(launching);
        }
        if launching.is_granted {
            self.reinstate(mem::take(&mut launching.reinstated), launching.zone.as_ref());
            for (number, failures) in mem::take(&mut launching.failed) {
                let moment = (self.now, self.cloud_time);
                let failed = (number, launching.zone.as_ref());
                self.state.list_failed(failed, &failures, moment);
            }
        }
        self.publish();
        if !launching.calls.is_empty() {
            return self.launching.push(launching);
        }
        let requests = mem::take(&mut launching.requests);
        if launching.is_granted {
            requests.iter().for_each(|request| self.respond(request, Ok(())));
        } else {
            let error = launching.error.unwrap_or(WriteError::NotSent);
            self.respond_all(requests, &error);
        }
        self.settle();
    }

    /// Nothing was launched for these requests, and another write is to be computed for them.
    fn begin_anew(&mut self, mut launching: Launching) {
        for call in mem::take(&mut launching.calls) {
            self.state.end_launch(call.operation, &[], self.now);
        }
        self.publish();
        for mut request in launching.requests {
            if request.stage == Stage::Sent {
                request.stage = Stage::Waiting;
                self.effects.push(Effect::Release(request.key));
            }
            self.arrive(request);
        }
    }

    /// The group is another one, or none: nothing more will be known of its launches.
    pub(super) fn end_launches(&mut self, error: &WriteError) {
        for launching in mem::take(&mut self.launching) {
            self.respond_all(launching.requests, error);
        }
    }

    /// The cloud does not launch instances in this group, or not for us: capacities are written for a while, where a
    /// group grows by them too. Returns whether that is new.
    fn withhold_launches(&mut self, why: CloudError) -> bool {
        self.withheld.replace(Withheld { why, until: self.now + OPERATION_LIFE }).is_none()
    }

    fn failure_of(&self, error: &CloudError) -> Failure {
        let is_short = matches!(error, CloudError::OutOfResources(_));
        let class = if is_short { FailureClass::OutOfResources } else { FailureClass::Other };
        let fault = error.fault();
        self.failure(fault.code.as_deref().unwrap_or("LaunchFailed"), &fault.message, class)
    }

    fn failure(&self, code: &str, message: &str, class: FailureClass) -> Failure {
        Failure {
            class,
            code: code.to_owned(),
            message: message.to_owned(),
            at: self.cloud_time,
            is_explained: true,
            is_eviction: false,
        }
    }
}

/// Whether a repetition was denied. That tells nothing of the launch itself, which may have begun: credentials expire.
fn is_denied_repetition(call: &LaunchCall, error: &CloudError) -> bool {
    call.may_have_begun && matches!(error, CloudError::Denied(_))
}

/// Whether the cloud does not launch instances in the group, or not for us.
fn is_not_offered(error: &CloudError) -> bool {
    matches!(error, CloudError::Denied(_) | CloudError::Unsupported(_))
}
