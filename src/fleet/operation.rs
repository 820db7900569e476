//! A write that the cloud accepted and that has not finished.

use std::collections::BTreeSet;
use std::fmt;

use tokio::time::Instant;

use crate::cloud::{OperationHandle, ProviderId};

/// Names an operation in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct OperationId(pub u64);

impl fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "op-{}", self.0)
    }
}

/// An accepted, unfinished write.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// Its name.
    pub id: OperationId,
    /// What it asked.
    pub kind: Kind,
    /// When the cloud accepted it.
    pub accepted: Instant,
    /// The cloud's own reference, where the cloud can be asked how it is doing.
    pub handle: Option<OperationHandle>,
    /// Whether the cloud has said that it succeeded.
    pub finished: Option<Instant>,
}

/// What an operation asked.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A new capacity, higher (a scale-up) or lower (taking back what never came).
    Capacity {
        /// The capacity it was computed from.
        from: u32,
        /// The capacity it set.
        to: u32,
        /// Whether a read has shown something else than `from` since.
        seen: bool,
        /// The capacity without instances being deleted, as it should be if the cloud takes nothing back.
        expected: u32,
    },
    /// The deletion of named instances.
    Delete {
        /// The instances.
        ids: BTreeSet<ProviderId>,
        /// Whether the capacity still counts them: what the first reading after the acceptance showed. `None`
        /// while unknown.
        counted: Option<bool>,
        /// Whether it has been asked again already, after the cloud preferred another operation.
        resubmitted: bool,
    },
}

impl Operation {
    /// The instances it deletes.
    pub(super) fn deletes(&self) -> Option<&BTreeSet<ProviderId>> {
        match &self.kind {
            Kind::Delete { ids, .. } => Some(ids),
            Kind::Capacity { .. } => None,
        }
    }

    /// The capacity that a read of `desired` means if it may not show this operation yet.
    ///
    /// Reads lag: neither cloud promises read-after-write. A scale-up without a handle (AWS) keeps its shadow even after a
    /// read has shown it, since the next read may come from a replica that is behind, and computing on that would lower
    /// the capacity. A reduction has no such shadow: taking a raise by somebody else for a lag would undo it.
    pub(super) fn shadows(&self, desired: u32) -> Option<u32> {
        match self.kind {
            Kind::Capacity { from, to, seen, .. } if desired == from => {
                (!seen || (to > from && self.handle.is_none())).then_some(to)
            }
            _ => None,
        }
    }

    /// Whether it is a scale-up that nobody can be asked about.
    pub(super) fn is_growth_without_handle(&self) -> bool {
        self.handle.is_none() && matches!(self.kind, Kind::Capacity { from, to, .. } if to > from)
    }

    /// The same, if a read has shown it.
    pub(super) fn is_seen_without_handle(&self) -> bool {
        self.is_growth_without_handle() && matches!(self.kind, Kind::Capacity { seen: true, .. })
    }

    /// Whether it lowered the capacity.
    pub(super) fn is_reduction(&self) -> bool {
        matches!(self.kind, Kind::Capacity { from, to, .. } if to < from)
    }
}
