//! What the fleet did, for people and for metrics: the last decisions, the operations that the cloud has not finished,
//! and counts of requests and failed launches. Nothing here decides anything; what is served never depends on it.

mod counts;
mod request;
mod underway;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::broadcast;

use counts::Counts;
pub use counts::{JOURNAL_FAMILIES, RequestKind, RequestResult};
pub(super) use request::RequestRecord;
use underway::Underway;
pub use underway::UnfinishedOperation;

use super::clock::Clock;
use super::snapshot::GroupView;
use crate::group::{InFlight, Operation};

/// The number of decisions kept: what one screen shows.
const DECISIONS: usize = 20;

/// One decision and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When it was taken.
    #[serde(serialize_with = "rfc3339")]
    pub at: SystemTime,
    /// The group, as served.
    pub group: String,
    /// What was requested, or what Headcount did by itself.
    pub action: String,
    /// What became of it, in one word.
    pub result: &'static str,
    /// Why.
    pub reason: String,
    /// The request that it belongs to, as in the log; `None` for what no request asked for.
    pub request_id: Option<String>,
}

fn rfc3339<S: serde::Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_seconds(*at))
}

/// Something that a person who looks at the cluster should see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What happened, in one word.
    pub reason: &'static str,
    /// To which group or source, and why.
    pub note: String,
}

/// Notices that wait for a subscriber; a slower one misses the oldest.
const NOTICES_WAITING_MAX: usize = 64;

#[derive(Debug)]
struct Notices(broadcast::Sender<Notice>);

impl Default for Notices {
    fn default() -> Self {
        Self(broadcast::channel(NOTICES_WAITING_MAX).0)
    }
}

/// The only owner of what it records.
#[derive(Debug, Default)]
pub struct Journal {
    decisions: Mutex<VecDeque<Decision>>,
    underway: Mutex<BTreeMap<String, Underway>>,
    counts: Counts,
    notices: Notices,
}

impl Journal {
    /// Registers the counts.
    pub fn register(&self, registry: &mut Registry) {
        self.counts.register(registry);
    }

    /// Notices from now on.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.0.subscribe()
    }

    /// Sends a notice to the subscribers, if there are any.
    pub(super) fn notify(&self, reason: &'static str, note: impl FnOnce() -> String) {
        if self.notices.0.receiver_count() > 0 {
            let _all_gone = self.notices.0.send(Notice { reason, note: note() });
        }
    }

    /// The last decisions, newest first.
    pub fn decisions(&self) -> Vec<Decision> {
        lock(&self.decisions).iter().rev().cloned().collect()
    }

    /// The unfinished operations of a group, oldest first.
    pub fn unfinished(&self, group: &str) -> Vec<UnfinishedOperation> {
        lock(&self.underway).get(group).map(Underway::operations).unwrap_or_default()
    }

    /// Records a decision.
    pub(super) fn decide(&self, decision: Decision) {
        if decision.result != RequestResult::Ok.as_str() {
            self.notify("WriteFailed", || {
                let Decision { group, action, result, reason, .. } = &decision;
                format!("node group {group}: {action}: {result}: {reason}")
            });
        }
        let mut decisions = lock(&self.decisions);
        if decisions.len() >= DECISIONS {
            decisions.pop_front();
        }
        decisions.push_back(decision);
    }

    /// Counts a request of the Cluster Autoscaler and its result.
    pub(super) fn count_request(&self, group: &str, kind: RequestKind, result: RequestResult) {
        self.counts.request(group, kind, result);
    }

    /// Records what changed between the previous and the new status of a group.
    pub(super) fn published(
        &self,
        group: &str,
        before: Option<&GroupView>,
        now: &GroupView,
        (in_flight, clock): (&InFlight, Clock),
    ) {
        self.counts.expect(group);
        for failure in self.counts.launches(group, before.map(|view| view.status.as_ref()), &now.status) {
            let (code, reason) = (failure.code.as_str(), failure.message.as_str());
            tracing::warn!(%group, code, reason, "an instance failed to launch; the Cluster Autoscaler is told");
            self.notify("LaunchFailed", || format!("node group {group}: {}: {}", failure.code, failure.message));
        }
        let mut underway = lock(&self.underway);
        // A deletion is shown with the zones of its instances. Nothing else is about one zone.
        let is_here = |operation: &&Operation| now.zone.as_ref().is_none_or(|zone| operation.deletes_in(zone));
        let operations: Vec<&Operation> = in_flight.operations().iter().filter(is_here).collect();
        let is_idle = operations.is_empty();
        if is_idle && !underway.contains_key(group) {
            return;
        }
        let entry = underway.entry(group.to_owned()).or_default();
        for finished in entry.update(&operations, &now.status, clock) {
            match finished.took {
                Some(took) => self.counts.finished(finished.kind, took),
                None => {
                    self.counts.request(group, finished.kind, RequestResult::FailedLater);
                    self.decide(Decision {
                        at: SystemTime::now(),
                        group: group.to_owned(),
                        action: finished.what,
                        result: RequestResult::FailedLater.as_str(),
                        reason: "the cloud accepted the operation and did not carry it out".to_owned(),
                        request_id: None,
                    });
                }
            }
        }
        if entry.is_empty() {
            underway.remove(group);
        }
    }

    /// Forgets a group that is no longer served under this ID.
    pub(super) fn retire(&self, group: &str) {
        lock(&self.underway).remove(group);
        self.counts.retire(group);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_decisions_are_kept_newest_first() {
        let journal = Journal::default();
        for number in 0..DECISIONS + 5 {
            journal.decide(Decision {
                at: SystemTime::UNIX_EPOCH,
                group: "web".to_owned(),
                action: number.to_string(),
                result: "ok",
                reason: String::new(),
                request_id: None,
            });
        }
        let actions: Vec<_> = journal.decisions().into_iter().map(|decision| decision.action).collect();
        assert_eq!(actions.len(), DECISIONS);
        assert_eq!((actions[0].as_str(), actions[DECISIONS - 1].as_str()), ("24", "5"));
    }
}
