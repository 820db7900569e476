//! The calls that a simulated cloud takes, and what can befall them.

use std::time::Duration;

use super::chance::Span;

/// The calls that a cloud takes.
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
    /// `Cloud::machine`
    LaunchSpec,
    /// `Cloud::instance_types` and `Cloud::all_instance_types`
    InstanceTypes,
}

impl CallKind {
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
    /// The group it was about.
    pub group: Option<String>,
    /// What it asked.
    pub detail: String,
    /// What was in store for it.
    pub mishap: Option<Mishap>,
}

/// What befalls a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Refused for calling too often.
    Throttled {
        /// How long the cloud asks to wait.
        retry_after: Option<Duration>,
    },
    /// Never arrives.
    Unreachable,
    /// Takes effect, and the answer is lost.
    LostAnswer,
    /// Takes effect, and the answer cannot be understood.
    Garbled,
    /// Refused for want of permission.
    Denied,
    /// Refused because something else is going on.
    Conflict,
    /// Refused for want of quota.
    OutOfResources,
    /// Refused as it was made.
    Refused,
    /// Arrives, after so much longer.
    Slow(Duration),
}

/// What befalls a group in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distortion {
    /// Its capacity is wrong.
    Capacity(u32),
    /// It is said to have no instances.
    NoInstances,
    /// It is said not to exist.
    Missing,
    /// It is as it was so long ago.
    Stale(Duration),
    /// It cannot be understood.
    Broken,
}

/// What goes wrong by chance, and how long calls take.
#[derive(Clone, Debug)]
pub struct Chances {
    /// The probability that a call is throttled.
    pub throttled: f64,
    /// How long a throttled caller is asked to wait.
    pub retry_after: Option<Duration>,
    /// The probability that a call does not arrive.
    pub unreachable: f64,
    /// The probability that a call takes effect and its answer is lost.
    pub lost_answer: f64,
    /// The probability that a write meets a conflict.
    pub conflict: f64,
    /// The probability that a group in an answer is as it was some time ago.
    pub stale: f64,
    /// How long ago.
    pub stale_by: Span,
    /// How long a call takes on its way there, and as long again on its way back.
    pub latency: Span,
}

impl Default for Chances {
    fn default() -> Self {
        let none = Duration::ZERO..=Duration::ZERO;
        Self {
            throttled: 0.0,
            retry_after: None,
            unreachable: 0.0,
            lost_answer: 0.0,
            conflict: 0.0,
            stale: 0.0,
            stale_by: none.clone(),
            latency: none,
        }
    }
}
