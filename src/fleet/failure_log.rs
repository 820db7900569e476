//! Failures that repeat, logged once.

use std::fmt::Display;
use std::sync::Arc;

/// Something that may fail again and again, and is logged once.
pub(super) struct FailureLog {
    /// The source that it concerns, if it is one of several.
    source: Option<Arc<str>>,
    failing: &'static str,
    over: &'static str,
    made: bool,
}

impl FailureLog {
    pub(super) fn of(failing: &'static str, over: &'static str) -> Self {
        Self { source: None, failing, over, made: false }
    }

    /// The same, about one of the sources.
    pub(super) fn in_source(source: &Arc<str>, failing: &'static str, over: &'static str) -> Self {
        Self { source: Some(Arc::clone(source)), ..Self::of(failing, over) }
    }

    /// Returns the value of a success. A failure is logged, unless the last outcome was one too.
    pub(super) fn unless<T, E: Display>(&mut self, outcome: Result<T, E>) -> Option<T> {
        let changed = self.turn(outcome.is_err());
        let source = self.source.as_deref();
        match outcome {
            Ok(outcome) => {
                if changed {
                    tracing::info!(source, "{}", self.over);
                }
                Some(outcome)
            }
            Err(error) => {
                if changed {
                    tracing::warn!(source, %error, "{}", self.failing);
                }
                None
            }
        }
    }

    /// Notes an outcome. Returns whether it differs from the last one.
    fn turn(&mut self, failed: bool) -> bool {
        std::mem::replace(&mut self.made, failed) != failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_is_worth_a_line() {
        let mut failure_log = FailureLog::of("something failed", "it works again");
        let turns = [false, true, true, true, false, false, true].map(|failed| failure_log.turn(failed));
        assert_eq!(turns, [false, true, false, false, true, false, true]);
    }
}
