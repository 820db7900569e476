//! Counts rejected clients. A flood of them costs one log line in ten seconds.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{field, warn};

/// The time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Counts the rejected clients, and logs them.
#[derive(Debug, Default)]
pub struct Refusals {
    total: AtomicU64,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    logged: Option<Instant>,
    clients: u64,
    last: Option<(Option<SocketAddr>, String)>,
}

impl Refusals {
    /// How many clients have been rejected since the start.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts a rejected client, and keeps the reason for the log.
    pub(super) fn count(&self, client: Option<SocketAddr>, reason: impl Display) {
        self.total.fetch_add(1, Ordering::Relaxed);
        {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.clients += 1;
            pending.last = Some((client, reason.to_string()));
        }
        self.log();
    }

    /// Logs what has not been logged yet, unless the last line is too recent.
    pub(super) fn log(&self) {
        let Some((clients, (client, reason))) = self.due(Instant::now()) else { return };
        let client = client.map(field::display);
        warn!(client, reason = ?reason, clients, "clients were rejected on the gRPC port; this line has their number, and the last one with its reason");
    }

    fn due(&self, now: Instant) -> Option<(u64, (Option<SocketAddr>, String))> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.logged.is_some_and(|logged| now.saturating_duration_since(logged) < LINE_EVERY) {
            return None;
        }
        let last = pending.last.take()?;
        pending.logged = Some(now);
        Some((std::mem::take(&mut pending.clients), last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_costs_one_line_in_ten_seconds_with_a_count() {
        let refusals = Refusals::default();
        let mut lines = Vec::new();
        for second in 0..25 {
            for _ in 0..100 {
                let mut pending = refusals.pending.lock().expect("no panic");
                pending.clients += 1;
                pending.last = Some((None, second.to_string()));
                drop(pending);
                lines.extend(refusals.due(Instant::now()).map(|(clients, (_, reason))| (clients, reason)));
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, [(1, "0".to_owned()), (1000, "10".to_owned()), (1000, "20".to_owned())]);
        tokio::time::advance(LINE_EVERY).await;
        assert_eq!(refusals.due(Instant::now()).expect("the rest").0, 499);
        assert!(refusals.due(Instant::now() + LINE_EVERY).is_none());
    }
}
