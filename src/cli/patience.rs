//! How long a command waits for the sources, and what it prints meanwhile.

use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::CommandError;
use crate::cloud::text::printable;
use crate::fleet::Fleet;

/// A command that takes longer than this prints what it waits for, and does so again at this interval.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// The longest that a command can wait: longer than anyone does.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads how long to wait.
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(wait) if wait > WAIT_MAX => {
            Err("a command waits for a day at most; write, for example, 90s or 1h".to_owned())
        }
        Ok(wait) => Ok(wait),
        Err(error) => Err(error.to_string()),
    }
}

/// How long a command waits.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Patience {
    /// How long reading the sources may take.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = wait)]
    timeout: Duration,
}

impl Patience {
    /// Waits until the sources have been read, and prints to stderr what it waits for. Returns when the command's time
    /// is up. If only some sources could be read, those are enough.
    pub(super) async fn wait_ready(self, fleet: &Fleet) -> Result<Instant, CommandError> {
        let begun = Instant::now();
        let until = begun + self.timeout;
        let waiting = fleet.wait_ready(until);
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                ready = &mut waiting => {
                    let is_unread = || fleet.sources().all(|(_, health)| health.good.is_none());
                    return match ready {
                        Err(error) if is_unread() => Err(self.timed_out(fleet, &error.to_string())),
                        Ok(()) | Err(_) => Ok(until),
                    };
                }
                () = sleep(PROGRESS_EVERY) => print_progress(fleet, begun.elapsed()),
            }
        }
    }

    /// The result of anything else that is read, or a text for people if it takes longer than the command may wait.
    pub(super) async fn within<T>(self, reading: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let limit = humantime::format_duration(self.timeout);
        let read = tokio::time::timeout(self.timeout, reading).await;
        read.unwrap_or_else(|_elapsed| Err(format!("gave up after {limit}; --timeout sets a longer limit")))
    }

    fn timed_out(self, fleet: &Fleet, reason: &str) -> CommandError {
        let limit = humantime::format_duration(self.timeout);
        // Where every source has failed, more time alone does not help.
        let has_failed = fleet.sources().all(|(_, health)| health.problem.is_some());
        let advice =
            if has_failed { "headcount check says what to do about it" } else { "--timeout sets a longer limit" };
        CommandError::Failed(format!("gave up after {limit}: {reason}; {advice}"))
    }
}

/// Not a log line: it is for the person who waits.
fn print_progress(fleet: &Fleet, elapsed: Duration) {
    let waits =
        fleet.sources().filter(|(_, health)| health.good.is_none()).map(|(name, health)| match health.problem {
            Some(problem) => format!("{name} ({problem})"),
            None => name.to_string(),
        });
    let waits: Vec<String> = waits.collect();
    let _ignored =
        writeln!(io::stderr(), "headcount: reading {} ({} s)", printable(&waits.join(", ")), elapsed.as_secs());
}
