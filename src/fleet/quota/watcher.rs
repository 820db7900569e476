//! Reads the quotas of one source.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{QuotaBook, QuotaReading};
use crate::cloud::{CloudError, ReadOnlyCloud};
use crate::fleet::contact::Contact;
use crate::fleet::failure_log::FailureLog;
use crate::fleet::limits::{QUOTAS_AGAIN, QUOTAS_EVERY, QUOTAS_LIMIT, QUOTAS_WHILE_FULL};
use crate::fleet::policy::LivePolicies;
use crate::fleet::snapshot::GroupKey;
use crate::fleet::store::Store;
use crate::tasks::{TaskKind, Tasks};

/// Requests a reading of the quotas of one source.
#[derive(Clone, Debug, Default)]
pub(in crate::fleet) struct QuotaWatch(Arc<Notify>);

/// What the task needs.
pub(in crate::fleet) struct QuotaWatcher {
    pub(in crate::fleet) source: Arc<str>,
    pub(in crate::fleet) cloud: ReadOnlyCloud,
    pub(in crate::fleet) store: Arc<Store>,
    pub(in crate::fleet) policies: Arc<LivePolicies>,
    pub(in crate::fleet) book: Arc<QuotaBook>,
    pub(in crate::fleet) contact: Arc<Contact>,
}

impl QuotaWatch {
    /// Reads the quotas from now on, if the cloud has any that can be read.
    pub(in crate::fleet) fn start(&self, watcher: QuotaWatcher, ready: watch::Receiver<bool>, tasks: &Tasks) {
        if !watcher.cloud.has_quotas() {
            return;
        }
        let wanted = Arc::clone(&self.0);
        let mut restarts = tasks.supervise(TaskKind::Quotas, &watcher.source);
        tokio::spawn(async move {
            let mut log = QuotaLog::of(&watcher.source);
            while restarts.run(watcher.run(&wanted, ready.clone(), &mut log)).await {}
        });
    }

    /// Requests a reading: the cloud has refused nodes for lack of a quota, or a standby serves again.
    pub(in crate::fleet) fn ask(&self) {
        self.0.notify_one();
    }
}

impl QuotaWatcher {
    async fn run(&self, wanted: &Notify, mut ready: watch::Receiver<bool>, log: &mut QuotaLog) {
        // Which quotas count is known only once the groups are.
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        loop {
            // Another replica serves the leader, and reads them. What was read before says nothing by the time that this
            // one serves it.
            if self.contact.is_standby() {
                self.book.note(&self.source, None);
            } else {
                self.read(log).await;
            }
            self.until_due(wanted).await;
        }
    }

    /// Waits until they are to be read again: after [`QUOTAS_EVERY`], or earlier where somebody asks or they leave a group
    /// no room.
    async fn until_due(&self, wanted: &Notify) {
        let read = Instant::now();
        let next = read + QUOTAS_EVERY;
        let mut look = read + QUOTAS_WHILE_FULL;
        sleep(QUOTAS_AGAIN).await;
        while look < next {
            let is_asked = timeout_at(look, wanted.notified()).await.is_ok();
            if is_asked || self.leaves_a_group_no_room() {
                return;
            }
            look += QUOTAS_WHILE_FULL;
        }
        let _asked_or_due = timeout_at(next, wanted.notified()).await;
    }

    fn leaves_a_group_no_room(&self) -> bool {
        let snapshot = Arc::clone(&self.store.load());
        let headrooms = self.book.headrooms(&snapshot, &self.policies);
        let mut of_source = snapshot.groups().filter(|(_, view)| view.key.source == self.source);
        of_source.any(|(_, view)| headrooms.limiting(view).is_some_and(|headroom| headroom.nodes == 0))
    }

    async fn read(&self, log: &mut QuotaLog) {
        let snapshot = Arc::clone(&self.store.load());
        let of_source = snapshot.groups().filter(|(_, view)| view.key.source == self.source);
        let targets = of_source.map(|(_, view)| (view.key.name.clone(), view.status.target)).collect();
        let read = timeout(QUOTAS_LIMIT, self.cloud.quotas()).await;
        let read = read
            .unwrap_or_else(|_elapsed| Err(CloudError::unreachable("quotas", &self.source, too_slow(QUOTAS_LIMIT))));
        let quotas = log.failures.unless(read);
        self.book.note(&self.source, quotas.map(|quotas| QuotaReading { quotas, targets }));
        self.log_limits(log);
    }

    /// Logs which groups a quota limits now, each once.
    fn log_limits(&self, log: &mut QuotaLog) {
        let snapshot = Arc::clone(&self.store.load());
        let headrooms = self.book.headrooms(&snapshot, &self.policies);
        let mut limited = HashSet::new();
        for (group, view) in snapshot.groups().filter(|(_, view)| view.key.source == self.source) {
            let Some(headroom) = headrooms.limiting(view) else { continue };
            if !log.limited.contains(&view.key) {
                let (quota, used, limit) = (&*headroom.quota, headroom.used, headroom.limit);
                let (max, own_max) = (headrooms.max(view), view.max);
                tracing::warn!(
                    group = &**group,
                    quota,
                    used,
                    limit,
                    max,
                    own_max,
                    "a quota of the account leaves the node group less room than its maximum; it is offered up to what \
                     is left"
                );
            }
            limited.insert(view.key.clone());
        }
        log.limited = limited;
    }
}

fn too_slow(limit: Duration) -> String {
    format!("no response within {limit:?}")
}

/// What was logged.
struct QuotaLog {
    failures: FailureLog,
    limited: HashSet<GroupKey>,
}

impl QuotaLog {
    fn of(source: &Arc<str>) -> Self {
        let failures = FailureLog::in_source(
            source,
            "quotas of the account cannot be read; node groups are offered up to their own maximum",
            "quotas of the account can be read again",
        );
        Self { failures, limited: HashSet::new() }
    }
}
