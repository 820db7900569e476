//! Watching one source: listing its groups on its cadence, at once on request, and not before the cloud allows it when
//! it asks for a pause. A source that cannot be read changes no other one's answers, and keeps serving what it has.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::keeper::{self, KeeperContext};
use super::limits::{ADOPTION_LIMIT, BACKOFF_MAX, BUDGETS_SHOWN, LIST_LIMIT, RETRY_AFTER_MAX};
use super::mailbox::{Adoption, Message};
use super::snapshot::GroupKey;
use crate::cloud::{CloudError, GroupName, Listing};

/// How a source is doing.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// When the last good listing began.
    pub good: Option<Instant>,
    /// What is wrong since.
    pub problem: Option<String>,
    /// Until when it is left alone, because the cloud asked for a pause or does not respond.
    pub paused_until: Option<Instant>,
    /// Listings finished, good or not.
    pub listings: u64,
}

/// A watched source, as the fleet has it.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name.
    pub name: Arc<str>,
    /// How it is doing.
    pub health: watch::Receiver<Health>,
    wanted: watch::Sender<u64>,
}

impl Source {
    /// Starts watching.
    pub(super) fn start(name: Arc<str>, context: KeeperContext, interval: Duration) -> Self {
        let (health, health_seen) = watch::channel(Health::default());
        let (wanted, wishes) = watch::channel(0);
        let watcher = Watcher {
            name: Arc::clone(&name),
            context,
            interval,
            health,
            wishes,
            keepers: BTreeMap::new(),
            complained: HashSet::new(),
            failures: 0,
        };
        tokio::spawn(watcher.run());
        Self { name, health: health_seen, wanted }
    }

    /// Whether it is left alone until after this moment.
    pub(super) fn is_paused(&self, until: Instant) -> bool {
        self.health.borrow().paused_until.is_some_and(|paused| paused > until)
    }

    /// Asks for a listing now.
    pub(super) fn ask(&self) {
        self.wanted.send_modify(|wishes| *wishes += 1);
    }

    /// Waits until the listing that runs, or the next one, is done.
    pub(super) async fn listed_again(&self) {
        let mut health = self.health.clone();
        let before = health.borrow_and_update().listings;
        let _watcher_gone = health.wait_for(|health| health.listings > before).await;
    }
}

struct Watcher {
    name: Arc<str>,
    context: KeeperContext,
    interval: Duration,
    health: watch::Sender<Health>,
    wishes: watch::Receiver<u64>,
    keepers: BTreeMap<GroupName, mpsc::Sender<Message>>,
    /// Groups that were complained of in the log already.
    complained: HashSet<GroupName>,
    failures: u32,
}

impl Watcher {
    async fn run(mut self) {
        // Ends when the fleet is dropped: then no more requests come.
        loop {
            let pause = self.list().await;
            let due = Instant::now() + pause.unwrap_or(self.interval);
            tokio::select! {
                biased; // so that a seed decides what a simulation does
                () = sleep_until(due) => {}
                wish = self.wishes.changed() => match (wish, pause) {
                    (Err(_fleet_gone), _) => return,
                    (Ok(()), None) => {}
                    // The cloud asked for a pause, or does not respond: requests do not shorten it.
                    (Ok(()), Some(_)) => sleep_until(due).await,
                },
            }
        }
    }

    /// Lists once. Answers how long to pause if it went wrong.
    async fn list(&mut self) -> Option<Duration> {
        let begun = Instant::now();
        let outcome = match timeout(LIST_LIMIT, self.context.cloud.list()).await {
            Ok(outcome) => outcome.map_err(|error| (error.to_string(), retry_after(&error))),
            Err(_elapsed) => Err(("the listing took too long".to_owned(), None)),
        };
        self.show_budgets();
        match outcome {
            Ok(listing) => {
                if self.failures > 0 {
                    tracing::info!(source = %self.name, "source can be listed again");
                }
                self.failures = 0;
                self.hand_out(listing, begun).await;
                self.report(|health| {
                    health.good = Some(begun);
                    health.problem = None;
                    health.paused_until = None;
                });
                None
            }
            Err((problem, wait)) => {
                self.failures = self.failures.saturating_add(1);
                let pause = wait.unwrap_or_else(|| self.backoff());
                tracing::warn!(
                    source = %self.name, error = %problem, retry_in_seconds = pause.as_secs_f64(),
                    "source cannot be listed; serving the last readings"
                );
                self.report(|health| {
                    health.problem = Some(problem);
                    health.paused_until = Some(Instant::now() + pause);
                });
                Some(pause)
            }
        }
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

    fn report(&self, change: impl FnOnce(&mut Health)) {
        self.health.send_modify(|health| {
            change(health);
            health.listings += 1;
        });
    }

    /// Doubling pauses, from a fifth of the interval.
    fn backoff(&self) -> Duration {
        let doubled = (self.interval / 5).saturating_mul(1 << self.failures.min(10));
        doubled.clamp(Duration::from_millis(200), BACKOFF_MAX.min(self.interval * 4))
    }

    /// Gives each keeper its group's reading, and waits until they have taken it in.
    async fn hand_out(&mut self, listing: Listing, begun: Instant) {
        let (adoption, mut all_adopted) = mpsc::channel::<()>(1);
        let mut seen: HashSet<GroupName> = HashSet::with_capacity(listing.groups.len());
        for reading in listing.groups {
            let name = reading.name.clone();
            self.complained.remove(&name);
            seen.insert(name.clone());
            let message = Message::Listed { reading: Box::new(reading), begun, adoption: adoption.clone() };
            self.tell(name, message);
        }
        for (name, reason) in listing.broken {
            if self.complained.insert(name.clone()) {
                tracing::warn!(source = %self.name, group = %name, %reason, "node group cannot be understood; serving the last reading");
            }
            seen.insert(name);
        }
        for name in listing.absent {
            if self.complained.insert(name.clone()) {
                tracing::warn!(source = %self.name, group = %name, "node group is in the configuration but does not exist");
            }
        }
        self.ask_for_missing(&seen, begun, &adoption);
        drop(adoption);
        if timeout(ADOPTION_LIMIT, all_adopted.recv()).await.is_err() {
            tracing::warn!(source = %self.name, "some node groups are still being read; not waiting for them");
        }
    }

    fn ask_for_missing(&mut self, seen: &HashSet<GroupName>, begun: Instant, adoption: &Adoption) {
        self.keepers.retain(|_, keeper| !keeper.is_closed());
        for (name, keeper) in &self.keepers {
            if !seen.contains(name) {
                let message = Message::NotListed { begun, adoption: adoption.clone() };
                let _busy_keepers_get_the_next_listing = keeper.try_send(message);
            }
        }
    }

    fn tell(&mut self, name: GroupName, message: Message) {
        let keeper = match self.keepers.get(&name).filter(|keeper| !keeper.is_closed()) {
            Some(keeper) => keeper.clone(),
            None => {
                let key = GroupKey { source: Arc::clone(&self.name), name: name.clone() };
                let keeper = keeper::start(key, self.context.clone());
                self.keepers.insert(name, keeper.clone());
                keeper
            }
        };
        let _busy_keepers_read_again_themselves = keeper.try_send(message);
    }
}

fn retry_after(error: &CloudError) -> Option<Duration> {
    match error {
        CloudError::Throttled { retry_after, .. } => retry_after.map(|wish| wish.min(RETRY_AFTER_MAX)),
        _ => None,
    }
}
