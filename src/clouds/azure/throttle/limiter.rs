//! Whether a call may be sent now. One limiter for each subscription and location, shared by all sources in it.
//!
//! After a refusal for too many calls, no call is sent on that budget until the time that Azure named has passed: calls
//! sent before it count too and make it longer. And what is left is kept for writes: reads that can wait do so when a
//! budget they share is almost spent.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::call_budgets::{CallBudgets, Scope, ThrottleEvent};
use super::info::{Bucket, ThrottleInfo};
use crate::cloud::Budget;

/// Which budgets are one: endpoint, subscription and location.
type Key = (String, String, String);

static LIMITERS: LazyLock<Mutex<HashMap<Key, Weak<CallLimiter>>>> = LazyLock::new(Mutex::default);

/// The limiter of one subscription and location.
#[derive(Debug, Default)]
pub(in crate::clouds::azure) struct CallLimiter {
    subscription: String,
    budgets: Mutex<CallBudgets>,
}

impl CallLimiter {
    /// The limiter that everybody with this key shares.
    pub(in crate::clouds::azure) fn shared(endpoint: &str, subscription: &str, location: &str) -> Arc<Self> {
        let key = (endpoint.to_owned(), subscription.to_ascii_lowercase(), location.to_ascii_lowercase());
        let mut limiters = LIMITERS.lock().unwrap_or_else(PoisonError::into_inner);
        limiters.retain(|_, limiter| limiter.strong_count() > 0);
        if let Some(limiter) = limiters.get(&key).and_then(Weak::upgrade) {
            return limiter;
        }
        let limiter = Arc::new(Self { subscription: subscription.to_owned(), budgets: Mutex::default() });
        limiters.insert(key, Arc::downgrade(&limiter));
        limiter
    }

    /// Whether a call may be sent, or how long it has to wait.
    pub(in crate::clouds::azure) fn admit(&self, bucket: Bucket, target: &str) -> Result<(), Duration> {
        let (admitted, events) = self.budgets().admit(bucket, target, Instant::now());
        self.tell(events);
        admitted
    }

    /// Takes in what a response said.
    pub(in crate::clouds::azure) fn record(&self, bucket: Bucket, target: &str, info: ThrottleInfo) {
        let events = self.budgets().record(bucket, target, info, Instant::now());
        self.tell(events);
    }

    /// The budgets known, by policy.
    pub(in crate::clouds::azure) fn remaining(&self) -> Vec<Budget> {
        self.budgets().remaining(Instant::now())
    }

    fn budgets(&self) -> MutexGuard<'_, CallBudgets> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs what has changed, once, and not at every call it concerns.
    fn tell(&self, events: Vec<ThrottleEvent>) {
        let subscription = self.subscription.as_str();
        for event in events {
            match event {
                ThrottleEvent::Suspended { scopes, wait, left } => {
                    let until = humantime::format_rfc3339_seconds(SystemTime::now() + wait);
                    let calls = listed(&scopes);
                    tracing::warn!(
                        subscription, calls, seconds = wait.as_secs(), %until, remaining = left,
                        "azure asks for a pause; none of these calls is made until then"
                    );
                }
                ThrottleEvent::Resumed { scopes } => {
                    let calls = listed(&scopes);
                    tracing::info!(subscription, calls, "the pause that azure asked for is over");
                }
                ThrottleEvent::Low { key: (policy, scale_set), level } => tracing::warn!(
                    subscription,
                    policy,
                    scale_set,
                    remaining = level.remaining,
                    most = level.most,
                    "a budget of azure's is almost spent; what is left of it is for writes"
                ),
                ThrottleEvent::Recovered { key: (policy, scale_set), level } => tracing::info!(
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
