//! Watching one source: listing its groups at an interval, at once on request, and not before the cloud allows it when it asks
//! for a pause. Pages are handed out as they arrive; the source counts as listed when its last page is. A source that cannot
//! be read changes no response for another one, and keeps serving what it has.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::cadence::{Cadence, Pace, Pulse};
use super::contact::Contact;
use super::keeper::{self, KeeperContext};
use super::limits::{ADOPTION_LIMIT, BACKOFF_MAX, BUDGETS_SHOWN, PAGE_LIMIT, RETRY_AFTER_MAX, STALE_AFTER};
use super::mailbox::{Adoption, Message};
use super::snapshot::GroupKey;
use crate::cloud::{CloudError, GroupName, Listing};
use crate::tasks::TaskKind;

/// How a source is doing.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// When the page of the source was requested that is oldest. `None` before the source was listed once.
    pub good: Option<Instant>,
    /// How long the last good listing took.
    pub took: Option<Duration>,
    /// The groups that the running listing has found so far.
    pub found: usize,
    /// What is wrong since.
    pub problem: Option<String>,
    /// The same in one word.
    pub why: Option<&'static str>,
    /// Until when it is left alone, because the cloud asked for a pause or does not respond.
    pub paused_until: Option<Instant>,
    /// Listings finished, good or not.
    pub listings: u64,
    /// Whether a listing runs.
    pub is_listing: bool,
    /// How far apart listings are at the moment.
    pub interval: Duration,
}

/// A watched source, as the fleet has it.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name.
    pub name: Arc<str>,
    /// How it is doing.
    pub watched: watch::Receiver<Health>,
    wanted: watch::Sender<u64>,
    rhythm: Rhythm,
}

/// How often a source is listed, and what decides it.
#[derive(Clone, Debug)]
struct Rhythm {
    cadence: Cadence,
    pulse: Arc<Pulse>,
    contact: Arc<Contact>,
}

impl Rhythm {
    fn interval(&self) -> Duration {
        let pace = match (self.contact.is_standby(), self.pulse.is_idle()) {
            (true, _) => Pace::Standby,
            (false, true) => Pace::Idle,
            (false, false) => Pace::Busy,
        };
        self.cadence.interval(pace)
    }
}

impl Source {
    /// Starts watching.
    pub(super) fn start(name: Arc<str>, context: KeeperContext, cadence: Cadence, contact: Arc<Contact>) -> Self {
        let rhythm = Rhythm { cadence, pulse: Arc::clone(&context.pulse), contact };
        let (health, watched) = watch::channel(Health::default());
        let (wanted, wishes) = watch::channel(0);
        let mut watcher = Watcher {
            name: Arc::clone(&name),
            context,
            rhythm: rhythm.clone(),
            health,
            wishes,
            keepers: BTreeMap::new(),
            complained: HashSet::new(),
            page_ages: Vec::new(),
            is_slow: false,
            failures: 0,
        };
        let mut restarts = watcher.context.tasks.supervise(TaskKind::Source, &watcher.name);
        tokio::spawn(async move {
            while restarts.run(watcher.run()).await {
                watcher.report(|health| {
                    health.problem = Some("the source's task panicked".to_owned());
                    health.why = Some("panicked");
                });
            }
        });
        Self { name, watched, wanted, rhythm }
    }

    /// How it is doing.
    pub(super) fn health(&self) -> Health {
        Health { interval: self.rhythm.interval(), ..self.watched.borrow().clone() }
    }

    /// How old its oldest page is. `None` before it was listed once.
    pub(super) fn age(&self) -> Option<Duration> {
        self.watched.borrow().good.map(|good| good.elapsed())
    }

    /// Whether it is due for a listing. It is also due if another replica may have led since its oldest page was requested:
    /// what that one is deleting is not known here.
    pub(super) fn is_old(&self) -> bool {
        let good = self.watched.borrow().good;
        let resumed = self.rhythm.contact.resumed();
        let is_before = |good: Instant| resumed.is_some_and(|resumed| good < resumed);
        good.is_none_or(|good| good.elapsed() > self.rhythm.interval() || is_before(good))
    }

    /// How old it may be before `Refresh` fails. A source that cannot be read is not at rest.
    pub(super) fn stale_after(&self) -> Duration {
        let is_failing = self.watched.borrow().problem.is_some();
        let interval = if is_failing { self.rhythm.cadence.busy() } else { self.rhythm.interval() };
        STALE_AFTER.max(interval * 3)
    }

    /// Whether it is left alone until after this moment.
    pub(super) fn is_paused(&self, until: Instant) -> bool {
        self.watched.borrow().paused_until.is_some_and(|paused| paused > until)
    }

    /// Asks for a listing now, unless one runs.
    pub(super) fn ask_unless_listing(&self) {
        if !self.watched.borrow().is_listing {
            self.ask();
        }
    }

    /// Asks for a listing that begins from now on.
    pub(super) fn ask(&self) {
        self.wanted.send_modify(|wishes| *wishes += 1);
    }

    /// Waits until the listing that runs, or the next one, is done.
    pub(super) async fn listed_again(&self) {
        let mut health = self.watched.clone();
        let before = health.borrow_and_update().listings;
        let _watcher_gone = health.wait_for(|health| health.listings > before).await;
    }
}

struct Watcher {
    name: Arc<str>,
    context: KeeperContext,
    rhythm: Rhythm,
    health: watch::Sender<Health>,
    wishes: watch::Receiver<u64>,
    keepers: BTreeMap<GroupName, mpsc::Sender<Message>>,
    /// Groups that were complained of in the log already.
    complained: HashSet<GroupName>,
    /// When each page was requested that arrived last in its place.
    page_ages: Vec<Instant>,
    /// Whether the last listing took longer than the refresh interval.
    is_slow: bool,
    failures: u32,
}

/// One listing, as far as its pages have arrived.
struct Listed {
    begun: Instant,
    /// When the page was requested that arrives next.
    page_begun: Instant,
    pages: usize,
    seen: HashSet<GroupName>,
    /// Given to each keeper with its reading.
    adoption: Adoption,
}

impl Watcher {
    async fn run(&mut self) {
        // Ends when the fleet is dropped: then no more requests come.
        loop {
            self.health.send_modify(|health| health.is_listing = true);
            let pause = self.list().await;
            if self.wait(pause).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the next listing is due or asked for. An error says that the fleet is gone.
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
        let mut listed = Listed { begun, page_begun: begun, pages: 0, seen: HashSet::new(), adoption };
        let outcome = self.receive_pages(&mut listed).await;
        self.show_budgets();
        match outcome {
            Ok(()) => {
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
                self.failures = self.failures.saturating_add(1);
                let pause = wait.unwrap_or_else(|| self.backoff());
                tracing::warn!(
                    source = %self.name, error = %problem, retry_in_seconds = pause.as_secs_f64(),
                    "source cannot be listed; serving the last readings"
                );
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

    /// Hands out the pages of a listing as they arrive. An error also says how long the cloud asked to wait.
    async fn receive_pages(&mut self, listed: &mut Listed) -> Result<(), (String, &'static str, Option<Duration>)> {
        let (sender, mut pages) = mpsc::unbounded_channel();
        let cloud = Arc::clone(&self.context.cloud);
        let mut listing = pin!(cloud.list_pages(sender));
        let rest = loop {
            tokio::select! {
                biased; // so that a seed decides what a simulation does
                Some(page) = pages.recv() => self.hand_out(page, listed),
                rest = &mut listing => break rest,
                () = sleep_until(listed.page_begun + PAGE_LIMIT) => {
                    return Err(("the listing took too long".to_owned(), "slow", None));
                }
            }
        };
        while let Ok(page) = pages.try_recv() {
            self.hand_out(page, listed);
        }
        let rest = rest.map_err(|error| (error.to_string(), word_for(&error), retry_after(&error)))?;
        self.hand_out(rest, listed);
        Ok(())
    }

    /// Reports once that listings take longer than the interval, until they do not.
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

    fn report(&self, change: impl FnOnce(&mut Health)) {
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

    /// Gives each keeper its group's reading from one page.
    fn hand_out(&mut self, page: Listing, listed: &mut Listed) {
        for reading in page.groups {
            let name = reading.name.clone();
            self.complained.remove(&name);
            listed.seen.insert(name.clone());
            let adoption = listed.adoption.clone();
            let message = Message::Listed { reading: Box::new(reading), begun: listed.page_begun, adoption };
            self.tell(name, message);
        }
        for (name, reason) in page.broken {
            if self.complained.insert(name.clone()) {
                tracing::warn!(source = %self.name, group = %name, %reason, "node group cannot be understood; serving the last reading");
            }
            listed.seen.insert(name);
        }
        for name in page.absent {
            if self.complained.insert(name.clone()) {
                tracing::warn!(source = %self.name, group = %name, "node group is in the configuration but does not exist");
            }
        }
        self.note_age(listed);
    }

    /// The source is as old as the oldest of its pages, also while others arrive.
    fn note_age(&mut self, listed: &mut Listed) {
        match self.page_ages.get_mut(listed.pages) {
            Some(age) => *age = listed.page_begun,
            None => self.page_ages.push(listed.page_begun),
        }
        listed.pages += 1;
        listed.page_begun = Instant::now();
        let oldest = self.page_ages.iter().min().copied();
        let found = listed.seen.len();
        self.health.send_if_modified(|health| {
            health.found = found;
            let is_newer = health.good.is_some() && health.good < oldest;
            if is_newer {
                health.good = oldest;
            }
            is_newer
        });
    }

    /// Looks for the groups that no page had, and waits until all keepers have adopted their readings.
    async fn finish(&mut self, listed: Listed, mut all_adopted: mpsc::Receiver<()>) {
        let Listed { begun, pages, seen, adoption, .. } = listed;
        self.page_ages.truncate(pages);
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

/// One word for what went wrong. The probes show it to anyone, so it holds nothing that the cloud wrote.
fn word_for(error: &CloudError) -> &'static str {
    match error {
        CloudError::Throttled { .. } => "throttled",
        CloudError::Unreachable(_) => "unreachable",
        CloudError::Denied(_) => "denied",
        CloudError::Unintelligible(_) => "unintelligible",
        _ => "refused",
    }
}

fn retry_after(error: &CloudError) -> Option<Duration> {
    match error {
        CloudError::Throttled { retry_after, .. } => retry_after.map(|wish| wish.min(RETRY_AFTER_MAX)),
        _ => None,
    }
}
