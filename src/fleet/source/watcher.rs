//! Lists a source repeatedly: decides when the next listing is due and how long to pause after a failure, and reports
//! both.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::pages::{Listed, Reported};
use super::{Health, Rhythm};
use crate::cloud::{CloudError, GroupName, RETRY_AFTER_MAX};
use crate::fleet::keeper::KeeperContext;
use crate::fleet::limits::{BACKOFF_MAX, BUDGETS_SHOWN, RETRY_AFTER_MIN};
use crate::fleet::mailbox::Message;

/// The task that lists a source.
pub(super) struct Watcher {
    pub(super) name: Arc<str>,
    pub(super) context: KeeperContext,
    rhythm: Rhythm,
    pub(super) health: watch::Sender<Health>,
    wishes: watch::Receiver<u64>,
    pub(super) keepers: BTreeMap<GroupName, mpsc::Sender<Message>>,
    /// What the log says is wrong with a group, as long as listings show it.
    pub(super) reported: HashMap<GroupName, Reported>,
    /// For each page number, when the last page of that number was requested.
    pub(super) page_ages: Vec<Instant>,
    /// Whether the last listing took longer than the refresh interval.
    is_slow: bool,
    failures: u32,
}

impl Watcher {
    pub(super) fn new(
        name: Arc<str>,
        context: KeeperContext,
        rhythm: Rhythm,
        health: watch::Sender<Health>,
        wishes: watch::Receiver<u64>,
    ) -> Self {
        Self {
            name,
            context,
            rhythm,
            health,
            wishes,
            keepers: BTreeMap::new(),
            reported: HashMap::new(),
            page_ages: Vec::new(),
            is_slow: false,
            failures: 0,
        }
    }

    pub(super) async fn run(&mut self) {
        // Ends when the fleet is dropped: then no more requests come.
        loop {
            self.health.send_modify(|health| health.is_listing = true);
            let pause = self.list().await;
            if self.wait(pause).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the next listing is due or requested. An error means that the fleet is gone.
    async fn wait(&mut self, pause: Option<Duration>) -> Result<(), RecvError> {
        let listed = Instant::now();
        loop {
            let due = listed + pause.unwrap_or_else(|| self.rhythm.interval());
            tokio::select! {
                biased; // so that a seed decides what a simulation does
                () = sleep_until(due) => return Ok(()),
                // The source was idle: the next listing is due earlier now.
                () = self.rhythm.pulse.quickened() => {}
                wish = self.wishes.changed() => {
                    wish?;
                    if pause.is_some() {
                        // The cloud asked for a pause, or does not respond: requests do not shorten it.
                        sleep_until(due).await;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Lists once. Returns how long to pause if it failed.
    async fn list(&mut self) -> Option<Duration> {
        let begun = Instant::now();
        let (adoption, all_adopted) = mpsc::channel::<()>(1);
        let mut listed = Listed::begin(begun, adoption);
        let outcome = self.receive_pages(&mut listed).await;
        self.show_budgets();
        match outcome {
            Ok(()) => {
                self.context.reach.regain();
                if self.failures > 0 {
                    tracing::info!(source = %self.name, "source can be listed again");
                }
                self.failures = 0;
                let took = begun.elapsed();
                self.note_pace(took);
                self.finish(listed, all_adopted).await;
                let oldest = self.page_ages.iter().min().copied();
                self.report(|health| {
                    health.good = oldest;
                    health.took = Some(took);
                    health.problem = None;
                    health.why = None;
                    health.paused_until = None;
                });
                None
            }
            Err((problem, why, wait)) => {
                if why == CloudError::UNREACHABLE {
                    self.context.reach.lose();
                }
                self.failures = self.failures.saturating_add(1);
                let pause = wait.unwrap_or_else(|| self.backoff());
                if self.page_ages.is_empty() {
                    tracing::warn!(
                        source = %self.name, error = %problem, retry_in_seconds = pause.as_secs_f64(),
                        "source cannot be listed; none of its node groups is served yet"
                    );
                } else {
                    tracing::warn!(
                        source = %self.name, error = %problem, retry_in_seconds = pause.as_secs_f64(),
                        "source cannot be listed; serving the last readings"
                    );
                }
                if self.failures == 1 {
                    self.context.journal.notify("SourcePaused", || {
                        format!("source {}: not called for {} s: {problem}", self.name, pause.as_secs())
                    });
                }
                self.report(|health| {
                    health.problem = Some(problem);
                    health.why = Some(why);
                    health.paused_until = Some(Instant::now() + pause);
                });
                Some(pause)
            }
        }
    }

    /// Logs once when listings begin to take longer than the interval.
    fn note_pace(&mut self, took: Duration) {
        let interval = self.rhythm.cadence.busy();
        let is_slow = took > interval;
        if is_slow && !self.is_slow {
            tracing::warn!(
                source = %self.name, listing_seconds = took.as_secs_f64(), interval_seconds = interval.as_secs_f64(),
                "a listing takes longer than the refresh interval; groups are read less often"
            );
        }
        self.is_slow = is_slow;
    }

    /// What remains of the cloud's budgets, the scarcest first.
    fn show_budgets(&self) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let mut budgets = self.context.cloud.budgets();
        budgets.sort_by_key(|budget| (budget.closed_for.is_none(), budget.remaining));
        let more = budgets.len().saturating_sub(BUDGETS_SHOWN);
        let budgets: Vec<String> = budgets.iter().take(BUDGETS_SHOWN).map(ToString::to_string).collect();
        if !budgets.is_empty() {
            tracing::debug!(source = %self.name, budgets = budgets.join("; "), more, "budgets of calls");
        }
    }

    pub(super) fn report(&self, change: impl FnOnce(&mut Health)) {
        self.health.send_modify(|health| {
            change(health);
            health.listings += 1;
            health.is_listing = false;
        });
    }

    /// Doubling pauses, from a fifth of the refresh interval.
    fn backoff(&self) -> Duration {
        let interval = self.rhythm.cadence.busy();
        let doubled = (interval / 5).saturating_mul(1 << self.failures.min(10));
        doubled.clamp(Duration::from_millis(200), BACKOFF_MAX.min(interval * 4))
    }
}

/// How long the cloud wants to be left alone. A date that has passed by our clock, or less than a second, tells nothing:
/// without a pause, every call would count against a limit that is reached already.
pub(super) fn retry_after(error: &CloudError) -> Option<Duration> {
    match error {
        CloudError::Throttled { retry_after, .. } => {
            retry_after.filter(|wish| *wish >= RETRY_AFTER_MIN).map(|wish| wish.min(RETRY_AFTER_MAX))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Fault;

    #[test]
    fn a_wish_for_no_pause_is_none() {
        let wished = |seconds: Option<u64>| {
            let fault = Fault {
                operation: "list".into(),
                subject: String::new(),
                code: None,
                message: String::new(),
                source: None,
            };
            let retry_after = seconds.map(Duration::from_secs);
            super::retry_after(&CloudError::Throttled { retry_after, fault: Box::new(fault) })
        };
        assert_eq!((wished(None), wished(Some(0))), (None, None), "the pauses between attempts double");
        assert_eq!((wished(Some(7)), wished(Some(9_999))), (Some(Duration::from_secs(7)), Some(RETRY_AFTER_MAX)));
    }
}
