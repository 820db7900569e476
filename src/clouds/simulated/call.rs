//! The calls that a simulated cloud accepts, and the faults that they can meet.

use std::time::Duration;

use super::chance::Span;

/// The calls that a cloud accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// `Cloud::list`
    List,
    /// `Cloud::observe`
    Observe,
    /// `Cloud::launch_activity`
    LaunchActivity,
    /// `Cloud::set_capacity`
    SetCapacity,
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
    pub const ALL: [Self; 8] = [
        Self::List,
        Self::Observe,
        Self::LaunchActivity,
        Self::SetCapacity,
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
            Self::LaunchActivity => "LaunchActivity",
            Self::SetCapacity => "SetCapacity",
            Self::DeleteInstances => "DeleteInstances",
            Self::Follow => "Follow",
            Self::LaunchSpec => "LaunchSpec",
            Self::InstanceTypes => "InstanceTypes",
        }
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        matches!(self, Self::SetCapacity | Self::DeleteInstances)
    }
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it arrived, since the beginning of the world.
    pub at: Duration,
    /// Which call.
    pub kind: CallKind,
    /// Its group.
    pub group: Option<String>,
    /// Its arguments.
    pub detail: String,
    /// The fault that it met.
    pub call_fault: Option<CallFault>,
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
}

/// A fault in what a response shows of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// Its capacity is wrong.
    Capacity(u32),
    /// Its list of instances is empty.
    NoInstances,
    /// It is missing.
    Missing,
    /// It is shown as it was this long ago.
    Stale(Duration),
    /// It cannot be decoded.
    Broken,
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
    /// The probability that a response shows a group as it was some time ago.
    pub stale: f64,
    /// How long ago.
    pub stale_by: Span,
    /// How long a request takes, and how long its response takes.
    pub latency: Span,
}

impl Default for FaultRates {
    fn default() -> Self {
        let none = Duration::ZERO..=Duration::ZERO;
        Self {
            throttled: 0.0,
            retry_after: None,
            unreachable: 0.0,
            lost_response: 0.0,
            conflict: 0.0,
            stale: 0.0,
            stale_by: none.clone(),
            latency: none,
        }
    }
}
