//! The size that a run found, from its first write until the group has it again for certain.

use std::time::Duration;

use super::limits::{LATE_WATCH, SETTLE_LIMIT};
use super::state::{Found, State, StateError};
use super::subject::Subject;
use super::trouble::Trouble;
use super::watch::Event;
use crate::cloud::Consistency;

/// What is to be restored, and since when.
#[derive(Debug)]
pub(super) struct Restoration {
    found: Found,
    state: State,
    /// When this run began, if one was killed before it: that one's last write may still take effect.
    continued: Option<Duration>,
    /// When the last write was sent.
    written: Option<Duration>,
    /// When a write was sent that got no response yet, or never did.
    unanswered: Option<Duration>,
}

impl Restoration {
    /// Of a run that has written nothing yet.
    pub(super) fn new(found: Found, state: State) -> Self {
        Self { found, state, continued: None, written: None, unanswered: None }
    }

    /// Of a run that goes on after one that was killed.
    pub(super) fn continued(found: Found, state: State, now: Duration) -> Self {
        Self { continued: Some(now), ..Self::new(found, state) }
    }

    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// Before a write. What was found is on disk before the first one.
    pub(super) fn before_write(&mut self, at: Duration) -> Result<(), StateError> {
        if !self.is_due() {
            self.state.keep(&self.found)?;
        }
        (self.written, self.unanswered) = (Some(at), Some(at));
        Ok(())
    }

    /// The outcome of the last write is known.
    pub(super) fn answered(&mut self) {
        self.unanswered = None;
    }

    /// Whether anything was written, by this run or by the one before it.
    fn is_due(&self) -> bool {
        self.written.or(self.continued).is_some()
    }

    /// From when on every read shows what was written, and nothing that was sent can take effect any more.
    fn certain_at(&self) -> Duration {
        let shown = self.written.map(|at| at + Consistency::LAG);
        let late = self.unanswered.max(self.continued).map(|at| at + LATE_WATCH);
        shown.max(late).unwrap_or_default()
    }
}

/// Brings the group to the size that was found, and waits until nothing that was sent can change it any more.
pub(super) async fn restore(subject: &mut Subject<'_>) -> Result<(), Trouble> {
    if !subject.restoration.is_due() {
        return Ok(());
    }
    subject.watch.happened(Event::Restoring(subject.size()));
    let until = subject.clock.now() + SETTLE_LIMIT;
    loop {
        match subject.bring_to(0).await {
            Ok(_) => {}
            Err(Trouble::Cloud(error)) if error.may_pass() && subject.clock.now() < until => continue,
            Err(trouble) => return Err(trouble),
        }
        let wait = subject.restoration.certain_at().saturating_sub(subject.clock.now());
        if wait == Duration::ZERO {
            break;
        }
        subject.clock.sleep(wait).await;
    }
    Ok(subject.restoration.state.forget()?)
}

/// What is left to do by hand.
pub(super) fn left(subject: &Subject<'_>, trouble: &Trouble) -> String {
    let size = subject.size();
    let own = subject.last.as_ref().map(|reading| subject.own(reading)).unwrap_or_default();
    let names: Vec<&str> = own.iter().map(|id| id.instance()).collect();
    let instances = if names.is_empty() {
        String::new()
    } else {
        format!(", once these instances, which the probes launched, are deleted: {}", names.join(", "))
    };
    format!(
        "the group may not have its size again: {trouble}. Run the same command again, which first restores it, or set the \
         capacity of {} to {size}{instances}",
        subject.restoration.found.group
    )
}
