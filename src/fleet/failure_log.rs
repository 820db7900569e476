//! Failures that repeat, logged once.

use std::fmt::Display;

/// Something that may fail again and again, and is logged once.
pub(super) struct FailureLog {
    failing: &'static str,
    over: &'static str,
    made: bool,
}

impl FailureLog {
    pub(super) fn of(failing: &'static str, over: &'static str) -> Self {
        Self { failing, over, made: false }
    }

    /// Returns the value of a success. A failure is logged, unless the last outcome was one too.
    pub(super) fn unless<T, E: Display>(&mut self, outcome: Result<T, E>) -> Option<T> {
        let changed = self.turn(outcome.is_err());
        match outcome {
            Ok(outcome) => {
                if changed {
                    tracing::info!("{}", self.over);
                }
                Some(outcome)
            }
            Err(error) => {
                if changed {
                    tracing::warn!(%error, "{}", self.failing);
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
