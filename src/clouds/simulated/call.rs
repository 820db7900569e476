//! The calls that a simulated cloud accepts, and the faults that they can meet.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{Span, draw};

/// The calls that a cloud accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// `Cloud::list`
    List,
    /// `Cloud::observe` and `Cloud::read_capacity`
    Observe,
    /// The part of `Cloud::observe` that lists the instances of a scale set
    ListInstances,
    /// `Cloud::launch_activity`
    LaunchActivity,
    /// `Cloud::set_capacity`
    SetCapacity,
    /// `Cloud::launch`
    Launch,
    /// `Cloud::delete_instances`
    DeleteInstances,
    /// `Cloud::follow`
    Follow,
    /// `Cloud::launch_spec`
    LaunchSpec,
    /// `Cloud::instance_types` and `Cloud::all_instance_types`
    InstanceTypes,
}

impl CallKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::List,
        Self::Observe,
        Self::LaunchActivity,
        Self::SetCapacity,
        Self::Launch,
        Self::DeleteInstances,
        Self::Follow,
        Self::LaunchSpec,
        Self::InstanceTypes,
    ];

    /// Its name in error messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "List",
            Self::Observe => "Observe",
            Self::ListInstances => "ListInstances",
            Self::LaunchActivity => "LaunchActivity",
            Self::SetCapacity => "SetCapacity",
            Self::Launch => "Launch",
            Self::DeleteInstances => "DeleteInstances",
            Self::Follow => "Follow",
            Self::LaunchSpec => "LaunchSpec",
            Self::InstanceTypes => "InstanceTypes",
        }
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        matches!(self, Self::SetCapacity | Self::Launch | Self::DeleteInstances)
    }
}

/// A fault that a call meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// Throttled.
    Throttled {
        /// The `Retry-After` of the cloud.
        retry_after: Option<Duration>,
    },
    /// Never arrives.
    Unreachable,
    /// Takes effect, and the response is lost.
    LostResponse,
    /// Takes effect, and the response cannot be decoded.
    Malformed,
    /// Refused for lack of permission.
    Denied,
    /// Refused because of another operation.
    Conflict,
    /// Refused for lack of quota.
    OutOfResources,
    /// Refused as invalid.
    Refused,
    /// Arrives this much later.
    Slow(Duration),
    /// The client gives up first; a write still takes effect, this much later.
    Late(Duration),
}

/// How often calls fail at random, and how long they take.
#[derive(Clone, Debug)]
pub struct FaultRates {
    /// The probability that a call is throttled.
    pub throttled: f64,
    /// The `Retry-After` of a throttled call.
    pub retry_after: Option<Duration>,
    /// The probability that a call does not arrive.
    pub unreachable: f64,
    /// The probability that a call takes effect and its response is lost.
    pub lost_response: f64,
    /// The probability that a write meets a conflict.
    pub conflict: f64,
    /// How long a request takes, and how long its response takes.
    pub latency: Span,
}

impl Default for FaultRates {
    fn default() -> Self {
        Self {
            throttled: 0.0,
            retry_after: None,
            unreachable: 0.0,
            lost_response: 0.0,
            conflict: 0.0,
            latency: Duration::ZERO..=Duration::ZERO,
        }
    }
}

/// How one call goes.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// How long the request takes.
    pub delay_before: Duration,
    /// The fault that it meets.
    pub call_fault: Option<CallFault>,
    /// How long the response takes.
    pub delay_after: Duration,
}

impl FaultRates {
    /// The random fault of the next call, if it meets one.
    pub(super) fn draw_fault(&self, rng: &mut Rng, kind: CallKind) -> Option<CallFault> {
        let conflict = if kind.writes() { self.conflict } else { 0.0 };
        let mut drawn = rng.f64();
        for (probability, call_fault) in [
            (self.throttled, CallFault::Throttled { retry_after: self.retry_after }),
            (self.unreachable, CallFault::Unreachable),
            (self.lost_response, CallFault::LostResponse),
            (conflict, CallFault::Conflict),
        ] {
            if drawn < probability {
                return Some(call_fault);
            }
            drawn -= probability;
        }
        None
    }

    /// How a call with this fault goes.
    pub(super) fn plan(&self, rng: &mut Rng, call_fault: Option<CallFault>) -> CallPlan {
        let (mut delay_before, delay_after) = (draw(rng, &self.latency), draw(rng, &self.latency));
        if let Some(CallFault::Slow(longer)) = &call_fault {
            delay_before += *longer;
        }
        CallPlan { delay_before, call_fault, delay_after }
    }
}
