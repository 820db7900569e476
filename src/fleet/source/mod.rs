//! Watches one source: lists its groups at an interval, or at once on request. If the cloud asks for a pause, nothing
//! is listed until it is over. A source that cannot be read does not affect the others, and its last readings are still
//! served.
//!
//! `watcher.rs` decides when to list; `pages.rs` hands out the pages as they arrive.

mod pages;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::cadence::{Cadence, Pace, Pulse};
use super::contact::Contact;
use super::keeper::KeeperContext;
use super::limits::STALE_AFTER;
use crate::group::REFUSAL_MAX;
use crate::tasks::TaskKind;
use watcher::Watcher;

/// How a source is doing.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// When the oldest of the source's pages was requested. `None` before the first successful listing.
    pub good: Option<Instant>,
    /// How long the last good listing took.
    pub took: Option<Duration>,
    /// The groups that the running listing has found so far.
    pub found: usize,
    /// What has been wrong since then.
    pub problem: Option<String>,
    /// The same in one word.
    pub why: Option<&'static str>,
    /// Until when it is not called, because the cloud asked for a pause or does not respond.
    pub paused_until: Option<Instant>,
    /// Listings finished, good or not.
    pub listings: u64,
    /// Whether a listing runs.
    pub is_listing: bool,
    /// The current interval between listings.
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
        let mut watcher = Watcher::new(Arc::clone(&name), context, rhythm.clone(), health, wishes);
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

    /// The age of its oldest page. `None` before the first successful listing.
    pub(super) fn age(&self) -> Option<Duration> {
        self.watched.borrow().good.map(|good| good.elapsed())
    }

    /// Whether it is due for a listing. It is also due if another replica may have led since its oldest page was
    /// requested, because this process does not know what that replica is deleting.
    pub(super) fn is_old(&self) -> bool {
        let good = self.watched.borrow().good;
        let resumed = self.rhythm.contact.resumed();
        let is_before = |good: Instant| resumed.is_some_and(|resumed| good < resumed);
        good.is_none_or(|good| good.elapsed() > self.rhythm.interval() || is_before(good))
    }

    /// How old it may be before `Refresh` fails. A source that cannot be read is no longer at rest: once its next listing
    /// was due, it counts as a busy one.
    pub(super) fn stale_after(&self) -> Duration {
        let (interval, busy) = (self.rhythm.interval(), self.rhythm.cadence.busy());
        let is_failing = self.watched.borrow().problem.is_some();
        STALE_AFTER.max(if is_failing { interval + busy * 2 } else { interval * 3 })
    }

    /// Why it could not be listed, if that has been so for a minute or more.
    pub(super) fn lost(&self) -> Option<String> {
        let problem = self.watched.borrow().problem.clone()?;
        self.age().filter(|age| *age > self.rhythm.interval() + REFUSAL_MAX).map(|_| problem)
    }

    /// Whether it has been listed recently enough for `Refresh`.
    pub(super) fn is_recent(&self) -> bool {
        self.age().is_some_and(|age| age <= self.stale_after())
    }

    /// Whether it is paused until after this moment.
    pub(super) fn is_paused(&self, until: Instant) -> bool {
        self.watched.borrow().paused_until.is_some_and(|paused| paused > until)
    }

    /// Requests a listing now, unless one is running.
    pub(super) fn ask_unless_listing(&self) {
        if !self.watched.borrow().is_listing {
            self.ask();
        }
    }

    /// Requests a listing that begins after this call.
    pub(super) fn ask(&self) {
        self.wanted.send_modify(|wishes| *wishes += 1);
    }

    /// Waits for the end of the listing that is running at this call, or else of the next one.
    pub(super) fn listed_again(&self) -> impl Future<Output = ()> + use<> {
        let mut health = self.watched.clone();
        let before = health.borrow_and_update().listings;
        async move {
            let _watcher_gone = health.wait_for(|health| health.listings > before).await;
        }
    }
}
