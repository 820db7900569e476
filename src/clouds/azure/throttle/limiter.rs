//! Decides whether a call may be sent now. All sources in one subscription and location share a limiter.
//!
//! After Azure has throttled a call, no call is sent on that budget until the time that Azure named has passed: Azure
//! counts earlier calls too and extends the time. When a budget is nearly used up, reads that can wait do so, and the
//! rest is kept for writes.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::call_budgets::{CallBudgets, Scope, ThrottleEvent};
use super::info::{Bucket, ThrottleInfo};
use super::pace::Pace;
use crate::cloud::Budget;

/// Calls with the same endpoint, subscription and location share their budgets.
type Key = (String, String, String);

static LIMITERS: LazyLock<Mutex<HashMap<Key, Weak<CallLimiter>>>> = LazyLock::new(Mutex::default);

/// The limiter of one subscription and location.
#[derive(Debug, Default)]
pub(in crate::clouds::azure) struct CallLimiter {
    subscription: String,
    budgets: Mutex<CallBudgets>,
    pace: Pace,
}

impl CallLimiter {
    /// Returns the limiter that all sources with this key share.
    pub(in crate::clouds::azure) fn shared(endpoint: &str, subscription: &str, location: &str) -> Arc<Self> {
        // `West US` is `westus`.
        let location = location.split_whitespace().collect::<String>().to_ascii_lowercase();
        let key = (endpoint.to_owned(), subscription.to_ascii_lowercase(), location);
        let mut limiters = LIMITERS.lock().unwrap_or_else(PoisonError::into_inner);
        limiters.retain(|_, limiter| limiter.strong_count() > 0);
        if let Some(limiter) = limiters.get(&key).and_then(Weak::upgrade) {
            return limiter;
        }
        let limiter = Arc::new(Self { subscription: subscription.to_owned(), ..Self::default() });
        limiters.insert(key, Arc::downgrade(&limiter));
        limiter
    }

    /// Returns whether a call may be sent, or how long it has to wait. One that can wait does so while a budget is low.
    pub(in crate::clouds::azure) fn admit_call(
        &self,
        bucket: Bucket,
        target: &str,
        can_wait: bool,
    ) -> Result<(), Duration> {
        let (admitted, events) = self.budgets().admit(bucket, &lower(target), can_wait, Instant::now());
        self.log(events);
        admitted
    }

    /// How long no such call is sent, because Azure has asked for a pause.
    pub(in crate::clouds::azure) fn closed_for(&self, bucket: Bucket, target: &str) -> Option<Duration> {
        self.budgets().closed_for(bucket, &lower(target), Instant::now())
    }

    /// Spreads lists of VMs that no write waits for.
    pub(in crate::clouds::azure) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Records what a response said about budgets.
    pub(in crate::clouds::azure) fn record(&self, bucket: Bucket, target: &str, info: ThrottleInfo) {
        let events = self.budgets().record(bucket, &lower(target), info, Instant::now());
        self.log(events);
    }

    /// The known budgets, by policy.
    pub(in crate::clouds::azure) fn remaining(&self) -> Vec<Budget> {
        self.budgets().remaining(Instant::now())
    }

    fn budgets(&self) -> MutexGuard<'_, CallBudgets> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs each change once, not at every call that it affects.
    fn log(&self, events: Vec<ThrottleEvent>) {
        let subscription = self.subscription.as_str();
        for event in events {
            match event {
                ThrottleEvent::Suspended { scopes, wait, left } => {
                    let until = humantime::format_rfc3339_seconds(SystemTime::now() + wait);
                    let calls = listed(&scopes);
                    tracing::warn!(
                        subscription, calls, seconds = wait.as_secs(), %until, remaining = left,
                        "throttled by Azure; calls suspended"
                    );
                }
                ThrottleEvent::Resumed { scopes } => {
                    let calls = listed(&scopes);
                    tracing::info!(subscription, calls, "throttling by Azure has ended; calls resumed");
                }
                ThrottleEvent::Low { key: (policy, scale_set), level } => tracing::warn!(
                    subscription,
                    policy,
                    scale_set,
                    remaining = level.remaining,
                    most = level.most,
                    "Azure call budget is nearly used up; the rest is kept for writes"
                ),
                ThrottleEvent::Recovered { key: (policy, scale_set), level } => tracing::info!(
                    subscription,
                    policy,
                    scale_set,
                    remaining = level.remaining,
                    most = level.most,
                    "Azure call budget has recovered"
                ),
            }
        }
    }
}

/// The configuration and Azure may spell a name differently.
fn lower(target: &str) -> String {
    target.to_ascii_lowercase()
}

fn listed(scopes: &[Scope]) -> String {
    scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
