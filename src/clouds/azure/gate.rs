//! Whether a call may be sent now. One gate for each subscription and location, shared by all sources in it.
//!
//! After a refusal for too many calls, no call is sent on that budget until the time that Azure named has passed: calls
//! sent before it count too and make it longer. And what is left is kept for writes: reads that can wait do so when a
//! budget they share is almost spent.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::budget::{Bucket, Notice};
use super::ledger::{Change, Ledger, Scope};
use crate::cloud::Budget;

/// Which budgets are one: endpoint, subscription and location.
type Key = (String, String, String);

static GATES: LazyLock<Mutex<HashMap<Key, Weak<Gate>>>> = LazyLock::new(Mutex::default);

/// The gate of one subscription and location.
#[derive(Debug, Default)]
pub(super) struct Gate {
    subscription: String,
    ledger: Mutex<Ledger>,
}

impl Gate {
    /// The gate that everybody with this key shares.
    pub(super) fn shared(endpoint: &str, subscription: &str, location: &str) -> Arc<Self> {
        let key = (endpoint.to_owned(), subscription.to_ascii_lowercase(), location.to_ascii_lowercase());
        let mut gates = GATES.lock().unwrap_or_else(PoisonError::into_inner);
        gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(gate) = gates.get(&key).and_then(Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(Self { subscription: subscription.to_owned(), ledger: Mutex::default() });
        gates.insert(key, Arc::downgrade(&gate));
        gate
    }

    /// Whether a call may be sent, or how long it has to wait.
    pub(super) fn admit(&self, bucket: Bucket, subject: &str) -> Result<(), Duration> {
        let (verdict, changes) = self.ledger().admit(bucket, subject, Instant::now());
        self.tell(changes);
        verdict
    }

    /// Takes in what an answer said.
    pub(super) fn record(&self, bucket: Bucket, subject: &str, notice: Notice) {
        let changes = self.ledger().record(bucket, subject, notice, Instant::now());
        self.tell(changes);
    }

    /// The budgets known, by policy.
    pub(super) fn remaining(&self) -> Vec<Budget> {
        self.ledger().remaining(Instant::now())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs what has changed, once, and not at every call it concerns.
    fn tell(&self, changes: Vec<Change>) {
        let subscription = self.subscription.as_str();
        for change in changes {
            match change {
                Change::Closed { scopes, wait, left } => {
                    let until = humantime::format_rfc3339_seconds(SystemTime::now() + wait);
                    let calls = listed(&scopes);
                    tracing::warn!(
                        subscription, calls, seconds = wait.as_secs(), %until, remaining = left,
                        "azure asks for a pause; none of these calls is made until then"
                    );
                }
                Change::Opened { scopes } => {
                    let calls = listed(&scopes);
                    tracing::info!(subscription, calls, "the pause that azure asked for is over");
                }
                Change::Low { account: (policy, scale_set), level } => tracing::warn!(
                    subscription,
                    policy,
                    scale_set,
                    remaining = level.remaining,
                    most = level.most,
                    "a budget of azure's is almost spent; what is left of it is for writes"
                ),
                Change::Ample { account: (policy, scale_set), level } => tracing::info!(
                    subscription,
                    policy,
                    scale_set,
                    remaining = level.remaining,
                    most = level.most,
                    "a budget of azure's has recovered"
                ),
            }
        }
    }
}

fn listed(scopes: &[Scope]) -> String {
    scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
