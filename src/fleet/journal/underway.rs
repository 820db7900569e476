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
    /// How many instances run once an increase is done; `None` for a deletion.
    done_at: Option<u32>,
    /// Whether the cloud is polled for its outcome.
    is_polled: bool,
    /// Whether its end was returned. The group may follow it for longer.
    has_ended: bool,
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
    /// Whether no operation is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn operations(&self) -> Vec<UnfinishedOperation> {
        self.0.values().filter(|entry| !entry.has_ended).map(|entry| entry.operation.clone()).collect()
    }

    /// Adds new operations, and returns those that have ended.
    pub(super) fn update(&mut self, operations: &[&Operation], status: &GroupStatus, clock: Clock) -> Vec<Finished> {
        for operation in operations.iter().filter(|operation| !matches!(operation.phase, Phase::Succeeded(_))) {
            let is_polled = operation.is_polled();
            let running = status.in_state(InstanceState::Running);
            let entry = self.0.entry(operation.id.0).or_insert_with(|| entry_of(operation, running, clock));
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
            // Where no poll tells, a launch that fails has a line and a count of its own.
            let is_reported = |succeeded: &bool| *succeeded || entry.is_polled;
            if let Some(succeeded) = outcome.filter(is_reported).filter(|_| !entry.has_ended) {
                let (kind, what) = (entry.operation.kind, entry.operation.what.clone());
                ended.push(Finished { kind, what, took: succeeded.then_some(age) });
            }
            entry.has_ended |= outcome.is_some();
            (known.is_some() || !entry.has_ended) && age <= OPERATION_LIFE
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
            RequestKind::Increase
                if self.done_at.is_some_and(|done| status.in_state(InstanceState::Running) >= done) =>
            {
                Some(true)
            }
            RequestKind::Increase => (creating == 0).then_some(status.failed() == 0),
            RequestKind::Decrease => Some(true),
        }
    }
}

/// `running`: how many instances ran when the operation was accepted. There may be more than the capacity counts.
fn entry_of(operation: &Operation, running: u32, clock: Clock) -> Entry {
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
        done_at: match &operation.request {
            OperationRequest::Capacity { from, to, .. } => {
                Some(running.saturating_add(to.saturating_sub(*from)).max(*to))
            }
            OperationRequest::Deletion { .. } => None,
        },
        is_polled: operation.is_polled(),
        has_ended: false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::SystemTime;

    use super::*;
    use crate::group::{OperationId, ReportedInstance};

    fn increase(from: u32, to: u32) -> Operation {
        let clock = Clock::started(Instant::now());
        Operation {
            id: OperationId(1),
            request: OperationRequest::Capacity {
                from,
                to,
                is_visible: false,
                outdated: BTreeSet::new(),
                expected: to,
                carried: 0,
            },
            sent: SystemTime::UNIX_EPOCH,
            accepted: clock.now(),
            phase: Phase::Unpolled,
        }
    }

    fn status(running: u32, creating: u32) -> GroupStatus {
        let instance = |(number, state)| ReportedInstance {
            id: ProviderId::from(format!("aws:///a/i-{number}").as_str()),
            state,
            failure: None,
            exists: true,
        };
        let states = (0..running).map(|_| InstanceState::Running).chain((0..creating).map(|_| InstanceState::Creating));
        let instances = (0..).zip(states).map(instance).collect();
        GroupStatus { target: 0, capacity: 0, live: running + creating, unfilled: 0, instances }
    }

    #[tokio::test(start_paused = true)]
    async fn an_increase_ends_once_when_its_instances_run() {
        let clock = Clock::started(Instant::now());
        let (mut underway, operation) = (Underway::default(), increase(10, 11));
        // One instance is beyond the capacity: 11 run before the new one does.
        assert!(underway.update(&[&operation], &status(11, 1), clock).is_empty());
        assert_eq!(underway.operations().len(), 1);
        let ended = underway.update(&[&operation], &status(12, 0), clock);
        assert!(matches!(ended.as_slice(), [Finished { kind: RequestKind::Increase, took: Some(_), .. }]), "{ended:?}");
        // The core follows it for longer.
        assert!(underway.update(&[&operation], &status(12, 0), clock).is_empty());
        assert!(underway.operations().is_empty() && !underway.is_empty());
        assert!(underway.update(&[], &status(12, 0), clock).is_empty() && underway.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_increase_ends_although_a_later_one_still_creates() {
        let clock = Clock::started(Instant::now());
        let (mut underway, operation) = (Underway::default(), increase(2, 3));
        assert!(underway.update(&[&operation], &status(2, 1), clock).is_empty());
        assert_eq!(underway.update(&[&operation], &status(3, 2), clock).len(), 1);
    }
}
