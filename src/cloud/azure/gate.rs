//! Whether a call may be sent now. One gate for each subscription and location, shared by all sources in it.
//!
//! After a refusal for too many calls, no call is sent on that budget until the time that Azure named has passed: calls
//! sent before it count too and make it longer. And what is left is kept for writes: reads that can wait do so when a
//! budget they share is almost spent.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Bucket, Notice, is_per_set};

/// How long to wait where the refusal does not say: half of Compute's shortest refill.
const PAUSE_UNTOLD: Duration = Duration::from_secs(30);
/// Reads that can wait do so below this part of a budget.
const RESERVE_SHARE: u64 = 10;
/// And below this many calls, for the small budgets of single scale sets.
const RESERVE_LEAST: u64 = 2;
/// Compute refills its budgets every minute, so what an answer said of one is worth nothing after that.
const REFILL: Duration = Duration::from_secs(60);

/// Which budgets are one: endpoint, subscription and location.
type Key = (String, String, String);

static GATES: LazyLock<Mutex<HashMap<Key, Weak<Gate>>>> = LazyLock::new(Mutex::default);

/// The gate of one subscription and location.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Ledger>);

/// A budget, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Azure's name of the policy.
    pub policy: String,
    /// The scale set, where each has a budget of its own.
    pub scale_set: Option<String>,
    /// What was left of it, as far as the last answer said.
    pub remaining: u64,
    /// The most there was left ever since.
    pub most: u64,
    /// How long no call will be made on it.
    pub closed_for: Option<Duration>,
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
        let gate = Arc::default();
        gates.insert(key, Arc::downgrade(&gate));
        gate
    }

    /// Whether a call may be sent, or how long it has to wait.
    pub(super) fn admit(&self, bucket: Bucket, subject: &str) -> Result<(), Duration> {
        self.ledger().admit(bucket, subject, Instant::now())
    }

    /// Takes in what an answer said.
    pub(super) fn record(&self, bucket: Bucket, subject: &str, notice: Notice) {
        self.ledger().record(bucket, subject, notice, Instant::now());
    }

    /// The budgets known, by policy.
    pub(super) fn remaining(&self) -> Vec<Budget> {
        self.ledger().remaining(Instant::now())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a pause is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// All calls of a kind.
    Bucket(Bucket),
    /// The calls of a kind about one scale set.
    Set(Bucket, String),
    /// All calls that are charged to a policy.
    Policy(String),
    /// All reads, or all writes.
    Kind { write: bool },
}

/// What a budget is of: the policy, and the scale set where each has its own.
type Account = (String, Option<String>);

#[derive(Debug, Default)]
struct Ledger {
    closed: HashMap<Scope, Instant>,
    budgets: HashMap<Account, Level>,
    /// Which policies the calls of a kind turned out to be charged to.
    charged: HashMap<Bucket, BTreeSet<String>>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    remaining: u64,
    most: u64,
    seen: Instant,
}

impl Level {
    fn is_low(self) -> bool {
        self.remaining < (self.most / RESERVE_SHARE).max(RESERVE_LEAST)
    }
}

impl Ledger {
    fn admit(&mut self, bucket: Bucket, subject: &str, now: Instant) -> Result<(), Duration> {
        self.closed.retain(|_, until| *until > now);
        let policies = self.charged.get(&bucket).into_iter().flatten();
        let scopes =
            [Scope::Bucket(bucket), Scope::Set(bucket, subject.to_owned()), Scope::Kind { write: bucket.is_write() }];
        let scopes = scopes.into_iter().chain(policies.clone().cloned().map(Scope::Policy));
        let closed = scopes.filter_map(|scope| self.closed.get(&scope)).map(|until| *until - now);
        let reserved = policies.filter(|_| bucket.can_wait()).filter_map(|policy| {
            let level = self.budgets.get(&account(policy, subject))?;
            let stale_in = REFILL.checked_sub(now.saturating_duration_since(level.seen))?;
            (level.is_low() && !stale_in.is_zero()).then_some(stale_in)
        });
        closed.chain(reserved).max().map_or(Ok(()), Err)
    }

    fn record(&mut self, bucket: Bucket, subject: &str, notice: Notice, now: Instant) {
        for (policy, remaining) in notice.remaining {
            let level =
                self.budgets.entry(account(&policy, subject)).or_insert(Level { remaining, most: 0, seen: now });
            *level = Level { remaining, most: level.most.max(remaining), seen: now };
            self.charged.entry(bucket).or_default().insert(policy);
        }
        let Some(pause) = notice.pause else {
            return;
        };
        let until = now + pause.wait.unwrap_or(PAUSE_UNTOLD);
        let scopes = match pause.policy {
            Some(policy) if is_per_set(&policy) => vec![Scope::Set(bucket, subject.to_owned())],
            Some(policy) => {
                self.charged.entry(bucket).or_default().insert(policy.clone());
                vec![Scope::Bucket(bucket), Scope::Policy(policy)]
            }
            None if pause.whole_subscription => vec![Scope::Kind { write: bucket.is_write() }],
            None => vec![Scope::Bucket(bucket)],
        };
        for scope in scopes {
            let closed = self.closed.entry(scope).or_insert(until);
            *closed = until.max(*closed);
        }
    }

    fn remaining(&self, now: Instant) -> Vec<Budget> {
        let closed_for = |scope: &Scope| Some(*self.closed.get(scope)?).filter(|until| *until > now);
        let budget = |((policy, scale_set), level): (&Account, &Level)| Budget {
            policy: policy.clone(),
            scale_set: scale_set.clone(),
            remaining: level.remaining,
            most: level.most,
            closed_for: closed_for(&Scope::Policy(policy.clone())).map(|until| until - now),
        };
        let mut budgets: Vec<_> = self.budgets.iter().map(budget).collect();
        budgets.sort_by(|one, other| (&one.policy, &one.scale_set).cmp(&(&other.policy, &other.scale_set)));
        budgets
    }
}

fn account(policy: &str, subject: &str) -> Account {
    (policy.to_owned(), is_per_set(policy).then(|| subject.to_owned()))
}

#[cfg(test)]
mod tests;
