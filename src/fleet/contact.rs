//! When the Cluster Autoscaler last called, which release it looks like, and the nodes it asked about that no group lists.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::cloud::ProviderId;

/// A process that no Cluster Autoscaler has called for this long is a standby: only the leader calls.
const STANDBY_AFTER: Duration = Duration::from_secs(10 * 60);
/// The Cluster Autoscaler asks about every node in every loop, which takes 10 s and seldom more than a minute.
const ASKED_WITHIN: Duration = Duration::from_secs(5 * 60);
/// The most nodes without a group that are remembered.
const UNMATCHED_MAX: usize = 10_000;

/// What is known of the calling Cluster Autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastCall {
    /// When it last called.
    pub at: Option<SystemTime>,
    /// The releases that its requests look like.
    pub dialect: Option<&'static str>,
    /// Whether no call has come for so long that another replica must be the leader.
    pub is_standby: bool,
}

/// The only owner of this.
#[derive(Debug)]
pub(super) struct Contact {
    began: Instant,
    calls: Mutex<Calls>,
    unmatched: Mutex<HashMap<ProviderId, (Arc<str>, Instant)>>,
}

#[derive(Debug, Default)]
struct Calls {
    last: Option<(Instant, SystemTime)>,
    dialect: Option<&'static str>,
}

impl Contact {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), calls: Mutex::default(), unmatched: Mutex::default() }
    }

    pub(super) fn called(&self) {
        lock(&self.calls).last = Some((Instant::now(), SystemTime::now()));
    }

    pub(super) fn speaks(&self, dialect: &'static str) {
        lock(&self.calls).dialect = Some(dialect);
    }

    pub(super) fn last_call(&self) -> LastCall {
        let calls = lock(&self.calls);
        let since = calls.last.map_or(self.began, |(instant, _)| instant);
        LastCall {
            at: calls.last.map(|(_, at)| at),
            dialect: calls.dialect,
            is_standby: since.elapsed() > STANDBY_AFTER,
        }
    }

    /// Notes a node that looks like one of this source's and that no group lists.
    pub(super) fn unmatched(&self, id: ProviderId, source: &Arc<str>) {
        let mut unmatched = lock(&self.unmatched);
        if unmatched.len() >= UNMATCHED_MAX {
            unmatched.retain(|_, (_, asked)| asked.elapsed() <= ASKED_WITHIN);
        }
        if unmatched.len() < UNMATCHED_MAX {
            unmatched.insert(id, (Arc::clone(source), Instant::now()));
        }
    }

    /// Forgets a node that a group lists by now.
    pub(super) fn matched(&self, id: &ProviderId) {
        let mut unmatched = lock(&self.unmatched);
        if !unmatched.is_empty() {
            unmatched.remove(id);
        }
    }

    /// How many such nodes were asked about lately, by source.
    pub(super) fn unmatched_nodes(&self) -> HashMap<Arc<str>, u32> {
        let mut nodes = HashMap::new();
        for (source, asked) in lock(&self.unmatched).values() {
            if asked.elapsed() <= ASKED_WITHIN {
                *nodes.entry(Arc::clone(source)).or_default() += 1;
            }
        }
        nodes
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn without_a_call_for_ten_minutes_it_is_a_standby() {
        let contact = Contact::new();
        assert_eq!(contact.last_call(), LastCall::default());
        tokio::time::advance(STANDBY_AFTER + Duration::from_secs(1)).await;
        assert!(contact.last_call().is_standby);
        contact.called();
        let last = contact.last_call();
        assert!(!last.is_standby && last.at.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_without_a_group_counts_until_it_has_one_or_is_no_longer_asked_about() {
        let contact = Contact::new();
        let source: Arc<str> = "us".into();
        let id = |name: &str| ProviderId::from(name);
        contact.unmatched(id("a"), &source);
        contact.unmatched(id("b"), &source);
        contact.unmatched(id("b"), &source);
        assert_eq!(contact.unmatched_nodes().get(&source), Some(&2));
        contact.matched(&id("a"));
        assert_eq!(contact.unmatched_nodes().get(&source), Some(&1));
        tokio::time::advance(ASKED_WITHIN + Duration::from_secs(1)).await;
        assert_eq!(contact.unmatched_nodes().get(&source), None);
    }
}
