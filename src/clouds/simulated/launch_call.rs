//! Launches on request, as LaunchInstances makes them: synchronous, in part, and once for each token.

use std::time::Duration;

use super::agenda::Due;
use super::chance::draw;
use super::group::Group;
use super::lifecycle::instances;
use super::member::{Phase, Transition};
use super::outcome::PlannedFailure;
use super::plan::GroupStyle;
use super::record::{ActivityKind, ActivityStatus, Author, Refusal, RefusalKind};
use super::world::World;
use crate::cloud::{LAUNCH_MAX, LaunchRequest, Permit};

/// How long a token names its launch.
const TOKEN_LIFE: Duration = Duration::from_secs(8 * 60 * 60);

/// When a launch raises the capacity. The documentation does not say which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raise {
    /// With its instances, before the response.
    BeforeResponse,
    /// This long after its instances and the response.
    After(Duration),
}

/// What a launch returns once it has ended: the instances, and why the others were not launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchAnswer {
    /// The cloud's IDs.
    pub instances: Vec<String>,
    /// A reason for each of the others.
    pub failures: Vec<PlannedFailure>,
}

/// A launch that was requested.
#[derive(Clone, Debug)]
pub(super) struct LaunchCall {
    token: String,
    number: u32,
    zone: Option<String>,
    sent: Duration,
    /// When it ends.
    ends: Duration,
    /// What it returns, once it has ended.
    answer: Option<LaunchAnswer>,
}

impl World {
    /// Begins a launch. Returns when it ends. With the token of an earlier one, nothing more is launched.
    pub fn launch(&mut self, now: Duration, group: &str, launch: &LaunchRequest) -> Result<Duration, Refusal> {
        self.edit(now, group, |group, at| group.begin_launch(at, launch))?
    }

    /// Whether a launch with this token was requested and has not ended.
    pub fn is_launching(&self, group: &str, token: &str) -> bool {
        let calls = self.groups.get(group).map(|group| &group.launch_calls);
        calls.is_some_and(|calls| calls.iter().any(|call| call.token == token && call.answer.is_none()))
    }

    /// What a launch returned that has ended; `None` while it goes on.
    pub fn launch_answer(&self, group: &str, token: &str) -> Option<LaunchAnswer> {
        let calls = &self.groups.get(group)?.launch_calls;
        calls.iter().find(|call| call.token == token)?.answer.clone()
    }
}

impl Group {
    /// `LaunchInstances`, with the retry strategy `none`.
    fn begin_launch(&mut self, at: Duration, launch: &LaunchRequest) -> Result<Duration, Refusal> {
        let LaunchRequest { number, token, zone } = launch.clone();
        self.launch_calls.retain(|call| at.saturating_sub(call.sent) < TOKEN_LIFE);
        if let Some(known) = self.launch_calls.iter().find(|call| call.token == token) {
            if known.number != number || known.zone != zone {
                let message = "The parameters do not match those of the earlier request with this token.";
                return Err(Refusal::new(RefusalKind::Refused, "IdempotentParameterMismatch", message.to_owned()));
            }
            return Ok(known.ends);
        }
        self.check_launch(number, zone.as_ref())?;
        let ends = at + draw(&mut self.rng, &self.plan.launch_call_time);
        self.launch_calls.push(LaunchCall { token, number, zone, sent: at, ends, answer: None });
        self.schedule(ends, Due::LaunchEnds);
        Ok(ends)
    }

    fn check_launch(&mut self, number: u32, zone: Option<&String>) -> Result<(), Refusal> {
        let refused = |code: &str, message: String| Err(Refusal::new(RefusalKind::Refused, code, message));
        let is_in_one = zone.map_or(self.plan.zones.len() == 1, |zone| self.plan.zones.contains(zone));
        if self.plan.style != GroupStyle::AutoScaling || !is_in_one {
            return refused("ValidationError", "Exactly one Availability Zone must be specified.".to_owned());
        }
        if number == 0 || number > LAUNCH_MAX {
            let message = format!("Value {number} at 'requestedCapacity' is not between 1 and {LAUNCH_MAX}.");
            return refused("ValidationError", message);
        }
        if let Permit::Withheld(reason) = &self.plan.growth {
            return refused("ValidationError", reason.clone());
        }
        let most = self.capacity.max(self.live_without_surplus()).saturating_add(self.launching_on_request());
        if most.saturating_add(number) > self.plan.max {
            let message = format!("The launch of {number} instances would exceed max size {}.", self.plan.max);
            return refused("ValidationError", message);
        }
        match self.launch_refusal() {
            Some(failure) => Err(Refusal::planned(&failure)),
            None => Ok(()),
        }
    }

    fn launching_on_request(&self) -> u32 {
        self.launch_calls.iter().filter(|call| call.answer.is_none()).map(|call| call.number).sum()
    }

    /// Ends the launches that end now.
    pub(super) fn end_launch_calls(&mut self, at: Duration) {
        let ended = |call: &LaunchCall| call.answer.is_none() && call.ends <= at;
        while let Some(position) = self.launch_calls.iter().position(ended) {
            let (number, zone) = (self.launch_calls[position].number, self.launch_calls[position].zone.clone());
            let answer = self.launch_on_request(at, number, zone.as_ref());
            self.launch_calls[position].answer = Some(answer);
        }
    }

    fn launch_on_request(&mut self, at: Duration, number: u32, zone: Option<&String>) -> LaunchAnswer {
        let mut answer = LaunchAnswer { instances: Vec::new(), failures: Vec::new() };
        for _ in 0..number {
            let activity = self.open_activity(at, ActivityKind::Launch, None);
            let (after, mut transition) = self.draw_launch();
            if let Some(failure) = zone.and_then(|zone| self.plan.zones_without_capacity.get(zone)) {
                transition = Transition::ZoneFails(failure.clone());
            }
            if let Transition::LaunchFails { failure, .. } | Transition::ZoneFails(failure) = transition {
                self.close_activity(Some(activity), at, ActivityStatus::Failed(failure.clone()));
                answer.failures.push(failure);
                continue;
            }
            let serial = self.add_member_in(at, Phase::Creating, zone.cloned());
            if let Some(member) = self.members.get_mut(&serial) {
                member.activity = Some(activity);
                answer.instances.push(member.id.clone());
            }
            self.schedule_transition(serial, at + after, transition);
        }
        let launched = u32::try_from(answer.instances.len()).unwrap_or(u32::MAX);
        self.narrate(at, format!("{} launched on request, of {number}", instances(launched)));
        match self.plan.raise {
            Raise::BeforeResponse => self.raise_for_launch(at, launched),
            Raise::After(lag) => self.schedule(at + lag, Due::LaunchRaises(launched)),
        }
        self.watch_surplus(at);
        answer
    }

    /// A launch raises the capacity by what it launched.
    pub(super) fn raise_for_launch(&mut self, at: Duration, launched: u32) {
        if launched > 0 {
            self.take_capacity(at, self.capacity.saturating_add(launched), Author::Caller);
            self.reconcile_no_later_than(at + Duration::from_secs(1));
        }
    }
}
