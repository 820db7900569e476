//! A write that was sent and that has not visibly finished.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::observation::is_zero;
use super::time::Time;

use crate::cloud::{Failure, Identity, OperationHandle, ProviderId};

/// Names an operation in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct OperationId(pub u64);

impl fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "op-{}", self.0)
    }
}

/// A write that the cloud accepted, or may have accepted, and that has not visibly finished.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Operation {
    /// Its name.
    pub id: OperationId,
    /// What was requested.
    pub request: OperationRequest,
    /// When it was sent, by the cloud's clock.
    pub sent: SystemTime,
    /// When the cloud accepted it, or when Headcount stopped waiting for a response.
    pub accepted: Time,
    /// Its phase.
    pub phase: Phase,
}

/// What an operation requested.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum OperationRequest {
    /// A new capacity: higher (a scale-up) or lower (a reduction by instances that never came).
    Capacity {
        /// The capacity it was computed from.
        from: u32,
        /// The capacity it set.
        to: u32,
        /// Whether a read has shown something other than `from` since.
        is_visible: bool,
        /// The etags that reads showed before it was sent: a read with one of these is older. Empty where the group has
        /// none.
        outdated: BTreeSet<String>,
        /// The capacity without instances being deleted, as it should be if the cloud takes nothing back.
        expected: u32,
        /// How many instances it launches besides: those of scale-ups that it preempted.
        #[serde(default, skip_serializing_if = "is_zero")]
        carried: u32,
    },
    /// The deletion of named instances.
    Deletion {
        /// The instances.
        ids: BTreeSet<ProviderId>,
        /// What the list showed of them: others may have their IDs later.
        #[serde(default)]
        identities: BTreeMap<ProviderId, Identity>,
        /// How it came to be in flight.
        attempt: Attempt,
        /// How many instances are still to be launched in the place of some of these. The target includes them.
        #[serde(default)]
        owed: u32,
    },
}

/// How a deletion came to be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Attempt {
    /// The cloud accepted it.
    First,
    /// The cloud accepted it once more, after another operation preempted it.
    Second,
    /// No response came. It may lower the capacity late, also where a read shows that its instances are going: they may be
    /// going for another reason.
    Unanswered,
    /// The cloud reported that the instances were gone or being deleted already. It lowers nothing.
    Needless,
}

/// How far an operation is. ARCHITECTURE.md has the diagram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// The cloud is carrying it out and reports its progress when polled.
    Running(OperationHandle),
    /// The cloud accepted it and has nothing to poll: only observations show what became of it.
    Unpolled,
    /// The cloud reported success at this moment. Reads may lag behind for a while.
    Succeeded(Time),
    /// The cloud reported a failure. A list that is younger than the report shows what it left behind.
    Failed(Box<Failed>),
    /// No response came, so the outcome is unknown (law 7). What was requested counts as done until a read settles it.
    Unsettled,
}

/// What the cloud reported of an operation that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// Why it failed.
    pub failure: Failure,
    /// When that was reported.
    pub reported: Time,
    /// What is deleted once more after that list: another operation preempted it.
    pub resend: BTreeSet<ProviderId>,
}

impl Phase {
    /// The phase of an operation that was accepted with or without a handle.
    pub(crate) fn accepted(handle: Option<OperationHandle>) -> Self {
        handle.map_or(Self::Unpolled, Self::Running)
    }
}

impl Operation {
    /// The instances it deletes.
    pub(crate) fn deletes(&self) -> Option<&BTreeSet<ProviderId>> {
        match &self.request {
            OperationRequest::Deletion { ids, .. } => Some(ids),
            OperationRequest::Capacity { .. } => None,
        }
    }

    /// What the instances that it deletes were, where the list showed it.
    pub(crate) fn identities(&self) -> Option<&BTreeMap<ProviderId, Identity>> {
        match &self.request {
            OperationRequest::Deletion { identities, .. } => Some(identities),
            OperationRequest::Capacity { .. } => None,
        }
    }

    /// Whether it deletes instances in this zone.
    pub(crate) fn deletes_in(&self, zone: &str) -> bool {
        self.deletes().is_some_and(|ids| ids.iter().any(|id| id.is_in(zone)))
    }

    /// How many instances are still to be launched in the place of those it deletes.
    pub(crate) fn owed(&self) -> u32 {
        match &self.request {
            OperationRequest::Deletion { owed, .. } => *owed,
            OperationRequest::Capacity { .. } => 0,
        }
    }

    /// For a scale-up or a reduction, the capacity that it leads to by itself.
    pub(crate) fn expected_mut(&mut self) -> Option<&mut u32> {
        match &mut self.request {
            OperationRequest::Capacity { expected, .. } => Some(expected),
            OperationRequest::Deletion { .. } => None,
        }
    }

    /// The cloud's handle, while the operation is running.
    pub(crate) fn running(&self) -> Option<&OperationHandle> {
        match &self.phase {
            Phase::Running(handle) => Some(handle),
            Phase::Unpolled | Phase::Succeeded(_) | Phase::Failed(_) | Phase::Unsettled => None,
        }
    }

    /// What the cloud reported of it, if it failed.
    pub(crate) fn failed(&self) -> Option<&Failed> {
        if let Phase::Failed(failed) = &self.phase { Some(failed) } else { None }
    }

    /// Whether polls tell what becomes of it, or have told that it failed. Until a list shows what it left, it counts as
    /// running.
    pub(crate) fn is_polled(&self) -> bool {
        matches!(self.phase, Phase::Running(_) | Phase::Failed(_))
    }

    /// The actual capacity, if a read of `desired` may be too old to show this operation.
    ///
    /// Reads lag: neither cloud promises read-after-write. A scale-up that cannot be polled (AWS) explains such a read
    /// even after another read has shown the new capacity: this read may come from a replica that is behind, and a
    /// write computed from it would lower the capacity. A reduction does not: the read may show another client's raise,
    /// and a write would undo it.
    ///
    /// Where the group has an etag, nothing has to be guessed. Azure changes it when it accepts a capacity write, so a
    /// read with another one shows the write, and whatever happened since.
    pub(crate) fn explains(&self, desired: u32, etag: Option<&str>) -> Option<u32> {
        match &self.request {
            OperationRequest::Capacity { from, to, is_visible, outdated, .. } if desired == *from => {
                let is_older = match etag {
                    Some(etag) => outdated.contains(etag),
                    None => !is_visible || self.is_unpolled_growth(),
                };
                is_older.then_some(*to)
            }
            _ => None,
        }
    }

    /// Whether it is a scale-up that succeeded before the instances were last listed: that list has what it made.
    pub(crate) fn is_listed(&self, detailed: Time) -> bool {
        self.is_growth() && matches!(self.phase, Phase::Succeeded(at) if at <= detailed)
    }

    /// Whether it set a capacity, and a read has shown something other than what that was computed from.
    pub(crate) fn is_visible(&self) -> bool {
        matches!(self.request, OperationRequest::Capacity { is_visible: true, .. })
    }

    /// How many instances a scale-up launches.
    pub(crate) fn launches(&self) -> u32 {
        match self.request {
            OperationRequest::Capacity { from, to, carried, .. } => to.saturating_sub(from).saturating_add(carried),
            OperationRequest::Deletion { .. } => 0,
        }
    }

    /// Whether it raises the capacity.
    pub(crate) fn is_growth(&self) -> bool {
        matches!(self.request, OperationRequest::Capacity { from, to, .. } if to > from)
    }

    /// Whether it is a scale-up that cannot be polled.
    pub(crate) fn is_unpolled_growth(&self) -> bool {
        self.phase == Phase::Unpolled && self.is_growth()
    }

    /// Whether it is a scale-up that cannot be polled and that a read has shown.
    pub(crate) fn is_visible_unpolled_growth(&self) -> bool {
        self.is_unpolled_growth() && matches!(self.request, OperationRequest::Capacity { is_visible: true, .. })
    }

    /// Whether it lowered the capacity.
    pub(crate) fn is_reduction(&self) -> bool {
        matches!(self.request, OperationRequest::Capacity { from, to, .. } if to < from)
    }
}
