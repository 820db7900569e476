//! When the Cluster Autoscaler last called, which release it looks like, and the nodes it asked about that no group
//! lists.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use super::limits::ID_BYTES_MAX;
use crate::cloud::ProviderId;

/// A process that no Cluster Autoscaler has called for this long is a standby: only the leader calls.
const STANDBY_AFTER: Duration = Duration::from_secs(10 * 60);
/// After a silence of this length, another replica may have led in the meantime and changed the groups. The leader's
/// Lease lasts 15 s, and its loops begin every 10 s.
const TAKEOVER_AFTER: Duration = Duration::from_secs(30);
/// The Cluster Autoscaler asks about every node in every loop. A loop takes 10 s, and rarely more than a minute.
const ASKED_WITHIN: Duration = Duration::from_secs(5 * 60);
/// The most nodes without a group that are remembered.
const UNMATCHED_MAX: usize = 10_000;

/// What is known about the calling Cluster Autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastCall {
    /// When it last called.
    pub at: Option<SystemTime>,
    /// The releases that its requests look like.
    pub dialect: Option<&'static str>,
    /// Whether no call has come for so long that another replica must be the leader.
    pub is_standby: bool,
}

/// Owns what is known about the calls. The times are atomic, because read RPCs note them.
#[derive(Debug)]
pub(super) struct Contact {
    began: Instant,
    /// Milliseconds from `began` to the last call, plus one. 0 before the first call.
    last: AtomicU64,
    /// The same for the first call after the last silence of [`TAKEOVER_AFTER`].
    resumed: AtomicU64,
    dialect: ArcSwapOption<&'static str>,
    unmatched: Mutex<HashMap<ProviderId, (Arc<str>, Instant)>>,
}

impl Contact {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            dialect: ArcSwapOption::empty(),
            unmatched: Mutex::default(),
        }
    }

    /// Notes a call. Returns whether this was a standby until now.
    pub(super) fn called(&self) -> bool {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        let last = self.last.swap(now + 1, Ordering::AcqRel);
        let since = Duration::from_millis(now.saturating_sub(last.saturating_sub(1)));
        if since > TAKEOVER_AFTER {
            self.resumed.store(now + 1, Ordering::Release);
        }
        since > STANDBY_AFTER
    }

    pub(super) fn speaks(&self, dialect: &'static str) {
        if self.dialect.load().as_deref() != Some(&dialect) {
            self.dialect.store(Some(Arc::new(dialect)));
        }
    }

    /// Whether no call has come for so long that another replica must be the leader.
    pub(super) fn is_standby(&self) -> bool {
        self.last_called().unwrap_or(self.began).elapsed() > STANDBY_AFTER
    }

    pub(super) fn last_call(&self) -> LastCall {
        let at = self.last_called().and_then(|last| SystemTime::now().checked_sub(last.elapsed()));
        LastCall { at, dialect: self.dialect.load().as_deref().copied(), is_standby: self.is_standby() }
    }

    /// When calls resumed after a silence in which another replica may have changed the groups. `None` if there was
    /// none.
    pub(super) fn resumed(&self) -> Option<Instant> {
        self.moment(&self.resumed)
    }

    fn last_called(&self) -> Option<Instant> {
        self.moment(&self.last)
    }

    fn moment(&self, milliseconds: &AtomicU64) -> Option<Instant> {
        let after = milliseconds.load(Ordering::Acquire).checked_sub(1)?;
        Some(self.began + Duration::from_millis(after))
    }

    /// Notes a node that looks like one of this source's and that no group lists.
    pub(super) fn unmatched(&self, id: ProviderId, source: &Arc<str>) {
        if id.as_str().len() > ID_BYTES_MAX {
            return;
        }
        let mut unmatched = lock(&self.unmatched);
        if let Some((_, asked)) = unmatched.get_mut(&id) {
            *asked = Instant::now();
            return;
        }
        if unmatched.len() >= UNMATCHED_MAX {
            unmatched.retain(|_, (_, asked)| asked.elapsed() <= ASKED_WITHIN);
        }
        if unmatched.len() < UNMATCHED_MAX {
            unmatched.insert(id, (Arc::clone(source), Instant::now()));
        }
    }

    /// The number of such nodes that CA asked about recently, by source. Nodes that a group lists by now are left out.
    pub(super) fn unmatched_nodes(&self, is_listed: impl Fn(&ProviderId) -> bool) -> HashMap<Arc<str>, u32> {
        let mut nodes = HashMap::new();
        for (id, (source, asked)) in lock(&self.unmatched).iter() {
            if asked.elapsed() <= ASKED_WITHIN && !is_listed(id) {
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
        assert!(contact.called() && !contact.called());
        let last = contact.last_call();
        assert!(!last.is_standby && last.at.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_resume_after_a_silence_that_is_longer_than_a_lease() {
        let contact = Contact::new();
        contact.called();
        tokio::time::advance(TAKEOVER_AFTER).await;
        contact.called();
        assert_eq!(contact.resumed(), None);
        tokio::time::advance(TAKEOVER_AFTER + Duration::from_secs(1)).await;
        let resumed = Instant::now();
        contact.called();
        tokio::time::advance(Duration::from_secs(10)).await;
        contact.called();
        assert_eq!(contact.resumed(), Some(resumed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_without_a_group_counts_until_it_has_one_or_is_no_longer_asked_about() {
        let contact = Contact::new();
        let source: Arc<str> = "us".into();
        let id = |name: &str| ProviderId::from(name);
        contact.unmatched(id("a"), &source);
        contact.unmatched(id("b"), &source);
        contact.unmatched(id("b"), &source);
        contact.unmatched(id(&"c".repeat(ID_BYTES_MAX + 1)), &source);
        assert_eq!(contact.unmatched_nodes(|_| false).get(&source), Some(&2));
        assert_eq!(contact.unmatched_nodes(|listed| *listed == id("a")).get(&source), Some(&1));
        tokio::time::advance(ASKED_WITHIN + Duration::from_secs(1)).await;
        assert_eq!(contact.unmatched_nodes(|_| false).get(&source), None);
        for number in 0..UNMATCHED_MAX {
            contact.unmatched(id(&number.to_string()), &source);
        }
        tokio::time::advance(ASKED_WITHIN).await;
        contact.unmatched(id("0"), &source);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            contact.unmatched_nodes(|_| false).get(&source),
            Some(&1),
            "known ones count however many there are"
        );
    }
}
