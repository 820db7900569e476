//! The operations of one group that the cloud accepted and has not finished: their instances are not running yet, or
//! not gone yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::RequestKind;
use crate::cloud::{InstanceState, ProviderId};
use crate::fleet::clock::Clock;
use crate::group::{GroupStatus, OPERATION_LIFE, Operation, OperationRequest, Phase};

/// An operation that the cloud has not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedOperation {
    /// Its name in the log.
    pub id: String,
    /// Which kind.
    pub kind: RequestKind,
    /// What it changes, in a few words.
    pub what: String,
    /// When the cloud accepted it.
    pub accepted: Instant,
}

/// The unfinished operations of one group.
#[derive(Debug, Default)]
pub(super) struct Underway(BTreeMap<u64, Entry>);

#[derive(Debug)]
struct Entry {
    operation: UnfinishedOperation,
    deletes: BTreeSet<ProviderId>,
    /// The capacity that an increase leads to; `None` for a deletion.
    to: Option<u32>,
    /// Whether the cloud is polled for its outcome.
    is_polled: bool,
}

/// An operation that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) kind: RequestKind,
    pub(super) what: String,
    /// How long it took; `None` if it failed.
    pub(super) took: Option<Duration>,
}

impl Underway {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn operations(&self) -> Vec<UnfinishedOperation> {
        self.0.values().map(|entry| entry.operation.clone()).collect()
    }

    /// Adds new operations, and returns those that have ended.
    pub(super) fn update(&mut self, operations: &[&Operation], status: &GroupStatus, clock: Clock) -> Vec<Finished> {
        for operation in operations.iter().filter(|operation| !matches!(operation.phase, Phase::Succeeded(_))) {
            let is_polled = matches!(operation.phase, Phase::Running(_));
            let entry = self.0.entry(operation.id.0).or_insert_with(|| entry_of(operation, clock));
            entry.is_polled |= is_polled;
            // An operation that can no longer be polled is followed by observations alone.
            entry.is_polled &= is_polled || matches!(operation.phase, Phase::Succeeded(_));
        }
        let creating = status.in_state(InstanceState::Creating).saturating_sub(status.failed());
        let mut ended = Vec::new();
        self.0.retain(|id, entry| {
            let known = operations.iter().find(|operation| operation.id.0 == *id);
            let outcome = match known.map(|operation| &operation.phase) {
                Some(Phase::Succeeded(_)) => Some(true),
                Some(_) => entry.outcome(status, creating).filter(|_| !entry.is_polled),
                None if entry.is_polled => Some(false),
                None => entry.outcome(status, creating),
            };
            let age = entry.operation.accepted.elapsed();
            // A launch that fails has a line and a count of its own.
            if let Some(succeeded) = outcome.filter(|succeeded| *succeeded || entry.is_polled) {
                let (kind, what) = (entry.operation.kind, entry.operation.what.clone());
                ended.push(Finished { kind, what, took: succeeded.then_some(age) });
            }
            outcome.is_none() && age <= OPERATION_LIFE
        });
        ended
    }
}

impl Entry {
    /// Whether it has succeeded or failed, as the published instances show; `None` before that.
    fn outcome(&self, status: &GroupStatus, creating: u32) -> Option<bool> {
        match self.operation.kind {
            RequestKind::Delete => {
                status.instances.iter().all(|listed| !self.deletes.contains(&listed.id)).then_some(true)
            }
            // Later increases may still be creating instances.
            RequestKind::Increase if self.to.is_some_and(|to| status.in_state(InstanceState::Running) >= to) => {
                Some(true)
            }
            RequestKind::Increase => (creating == 0).then_some(status.failed() == 0),
            RequestKind::Decrease => Some(true),
        }
    }
}

fn entry_of(operation: &Operation, clock: Clock) -> Entry {
    let (kind, what) = match &operation.request {
        OperationRequest::Capacity { from, to, .. } if to < from => {
            (RequestKind::Decrease, format!("capacity {from} → {to}"))
        }
        OperationRequest::Capacity { from, to, .. } => (RequestKind::Increase, format!("capacity {from} → {to}")),
        OperationRequest::Deletion { ids, .. } => (RequestKind::Delete, format!("deletion of {} instances", ids.len())),
    };
    let id = operation.id.to_string();
    Entry {
        operation: UnfinishedOperation { id, kind, what, accepted: clock.instant(operation.accepted) },
        deletes: operation.deletes().cloned().unwrap_or_default(),
        to: match &operation.request {
            OperationRequest::Capacity { to, .. } => Some(*to),
            OperationRequest::Deletion { .. } => None,
        },
        is_polled: matches!(operation.phase, Phase::Running(_)),
    }
}
