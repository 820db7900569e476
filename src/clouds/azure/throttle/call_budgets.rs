//! What is left of Azure's call budgets, and which calls are suspended. Does no I/O and reads no clock.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::info::{Bucket, ThrottleInfo, is_per_set};
use crate::cloud::Budget;

/// How long to wait if the response does not specify it: half of the shortest interval at which Compute refills its
/// budgets.
pub(super) const DEFAULT_PAUSE: Duration = Duration::from_secs(30);
/// Reads that can wait do so when less than one part in this many of a budget is left.
const RESERVE_SHARE: u64 = 10;
/// They also wait when fewer calls than this are left. Matters for the small budgets of single scale sets.
const RESERVE_CALLS_MIN: u64 = 2;
/// Compute refills its budgets every minute, so a level is outdated after that.
pub(super) const REFILL: Duration = Duration::from_secs(60);
/// Most budgets that are kept. Each scale set and each operation can have its own.
const BUDGETS_MAX: usize = 1_000;
/// The most policies that one kind of call can be charged to.
const POLICIES_MAX: usize = 100;

/// The calls that are suspended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// All calls of a kind.
    Bucket(Bucket),
    /// All calls of a kind for one scale set.
    Set(Bucket, String),
    /// All calls that are charged to a policy.
    Policy(String),
    /// All reads, or all writes.
    AllCalls { write: bool },
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(bucket) => bucket.fmt(formatter),
            Self::Set(bucket, scale_set) => write!(formatter, "{bucket} of {scale_set}"),
            Self::Policy(policy) => formatter.write_str(policy),
            Self::AllCalls { write: true } => formatter.write_str("all writes"),
            Self::AllCalls { write: false } => formatter.write_str("all reads"),
        }
    }
}

/// A change that is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ThrottleEvent {
    /// No such call is sent for this long. `left` is what remains of the budgets that these calls are charged to.
    Suspended { scopes: Vec<Scope>, wait: Duration, left: String },
    /// Calls are sent again.
    Resumed { scopes: Vec<Scope> },
    /// The rest of the budget is kept for writes.
    Low { key: BudgetKey, level: BudgetLevel },
    /// The budget is large enough for all calls again.
    Recovered { key: BudgetKey, level: BudgetLevel },
}

/// The policy, and the scale set if the policy has one budget per scale set.
pub(super) type BudgetKey = (String, Option<String>);

#[derive(Debug, Default)]
pub(super) struct CallBudgets {
    suspended: HashMap<Scope, Instant>,
    budgets: HashMap<BudgetKey, BudgetLevel>,
    /// The policies that the calls of a kind have been charged to so far.
    charged: HashMap<Bucket, BTreeSet<String>>,
    /// Since when the reserve holds back calls of a kind for a scale set.
    held_back: HashMap<(Bucket, String), Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BudgetLevel {
    pub(super) remaining: u64,
    pub(super) most: u64,
    read_at: Instant,
}

impl BudgetLevel {
    fn is_low(self) -> bool {
        self.remaining < (self.most / RESERVE_SHARE).max(RESERVE_CALLS_MIN)
    }
}

impl CallBudgets {
    pub(super) fn admit(
        &mut self,
        bucket: Bucket,
        target: &str,
        can_wait: bool,
        now: Instant,
    ) -> (Result<(), Duration>, Vec<ThrottleEvent>) {
        let scopes: Vec<Scope> = self.suspended.extract_if(|_, until| *until <= now).map(|(scope, _)| scope).collect();
        let events = if scopes.is_empty() { Vec::new() } else { vec![ThrottleEvent::Resumed { scopes }] };
        let policies = self.charged.get(&bucket).into_iter().flatten();
        let reserved = policies.filter(|_| can_wait).filter_map(|policy| {
            let level = self.budgets.get(&key(policy, target))?;
            let stale_in = REFILL.checked_sub(now.saturating_duration_since(level.read_at))?;
            (level.is_low() && !stale_in.is_zero()).then_some(stale_in)
        });
        let (closed, reserved) = (self.closed_for(bucket, target, now), reserved.max());
        let reserved = self.hold_back((bucket, target.to_owned()), reserved, now);
        (closed.max(reserved).map_or(Ok(()), Err), events)
    }

    /// How long no such call is sent, because Azure has asked for a pause.
    pub(super) fn closed_for(&self, bucket: Bucket, target: &str, now: Instant) -> Option<Duration> {
        let scopes = [
            Scope::Bucket(bucket),
            Scope::Set(bucket, target.to_owned()),
            Scope::AllCalls { write: bucket.is_write() },
        ];
        let policies = self.charged.get(&bucket).into_iter().flatten();
        let scopes = scopes.into_iter().chain(policies.cloned().map(Scope::Policy));
        let until = scopes.filter_map(|scope| self.suspended.get(&scope)).max()?;
        Some(*until - now).filter(|left| !left.is_zero())
    }

    /// How long the reserve holds back a call. Other clients can keep a budget low without end, and a scale set must be
    /// read now and then all the same, so one call gets through each time that a budget refills.
    fn hold_back(&mut self, call: (Bucket, String), reserved: Option<Duration>, now: Instant) -> Option<Duration> {
        let Some(wait) = reserved else {
            self.held_back.remove(&call);
            return None;
        };
        // Scale sets that no longer exist make no call that would remove their entries.
        if self.held_back.len() >= BUDGETS_MAX {
            self.held_back.retain(|_, since| now.saturating_duration_since(*since) < 60 * REFILL);
        }
        if self.held_back.len() >= BUDGETS_MAX && !self.held_back.contains_key(&call) {
            return None;
        }
        let since = *self.held_back.entry(call.clone()).or_insert(now);
        if now.saturating_duration_since(since) < REFILL {
            return Some(wait);
        }
        self.held_back.remove(&call);
        None
    }

    pub(super) fn record(
        &mut self,
        bucket: Bucket,
        target: &str,
        info: ThrottleInfo,
        now: Instant,
    ) -> Vec<ThrottleEvent> {
        let mut events = Vec::new();
        for (policy, remaining) in info.remaining {
            let key = key(&policy, target);
            events.extend(self.level(key.clone(), remaining, now));
            if self.budgets.contains_key(&key) {
                self.charge(bucket, &policy);
            }
        }
        let Some(pause) = info.pause else {
            return events;
        };
        let wait = pause.wait.unwrap_or(DEFAULT_PAUSE);
        let scopes = match pause.policy {
            Some(policy) if is_per_set(&policy) => vec![Scope::Set(bucket, target.to_owned())],
            Some(policy) => {
                self.charge(bucket, &policy);
                vec![Scope::Bucket(bucket), Scope::Policy(policy)]
            }
            None if pause.is_of_target => vec![Scope::Set(bucket, target.to_owned())],
            None if pause.whole_subscription => vec![Scope::AllCalls { write: bucket.is_write() }],
            // The tightest budgets are those of one scale set. If another one is spent, the other sets' calls show it.
            None if bucket.is_budgeted_per_set() => vec![Scope::Set(bucket, target.to_owned())],
            None => vec![Scope::Bucket(bucket)],
        };
        let left = self.left(bucket, target);
        let until = now + wait;
        let mut closed = Vec::new();
        for scope in scopes {
            match self.suspended.get_mut(&scope).filter(|earlier| **earlier > now) {
                Some(earlier) => *earlier = until.max(*earlier),
                None => {
                    self.suspended.insert(scope.clone(), until);
                    closed.push(scope);
                }
            }
        }
        if !closed.is_empty() {
            events.push(ThrottleEvent::Suspended { scopes: closed, wait, left });
        }
        events
    }

    /// Notes that such calls are charged to a policy. Azure has a few for each kind of call.
    fn charge(&mut self, bucket: Bucket, policy: &str) {
        let policies = self.charged.entry(bucket).or_default();
        if policies.len() < POLICIES_MAX {
            policies.insert(policy.to_owned());
        }
    }

    /// Records what is left of a budget. Returns an event if the budget became low or recovered.
    fn level(&mut self, key: BudgetKey, remaining: u64, now: Instant) -> Option<ThrottleEvent> {
        if self.budgets.len() >= BUDGETS_MAX {
            self.budgets.retain(|_, level| now.saturating_duration_since(level.read_at) < REFILL);
        }
        let before = self.budgets.get(&key).copied();
        if before.is_none() && self.budgets.len() >= BUDGETS_MAX {
            return None;
        }
        let most = before.map_or(0, |before| before.most).max(remaining);
        let level = BudgetLevel { remaining, most, read_at: now };
        self.budgets.insert(key.clone(), level);
        match (before.is_some_and(BudgetLevel::is_low), level.is_low()) {
            (false, true) => Some(ThrottleEvent::Low { key, level }),
            (true, false) => Some(ThrottleEvent::Recovered { key, level }),
            _ => None,
        }
    }

    /// What is left of the budgets that such calls are charged to.
    fn left(&self, bucket: Bucket, target: &str) -> String {
        let policies = self.charged.get(&bucket).into_iter().flatten();
        let levels = policies.filter_map(|policy| Some((policy, self.budgets.get(&key(policy, target))?)));
        levels.map(|(policy, level)| format!("{policy}: {}", level.remaining)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn remaining(&self, now: Instant) -> Vec<Budget> {
        let wait = |until: &Instant| Some(*until - now).filter(|wait| !wait.is_zero());
        let reported = self.budgets.iter().map(|((policy, scale_set), level)| Budget {
            name: policy.clone(),
            group: scale_set.clone(),
            remaining: level.remaining,
            most: level.most,
            closed_for: self.suspended.get(&Scope::Policy(policy.clone())).and_then(wait),
        });
        let is_budget = |policy: &String| self.budgets.contains_key(&(policy.clone(), None));
        let is_reported = |scope: &Scope| matches!(scope, Scope::Policy(policy) if is_budget(policy));
        let suspended = self.suspended.iter().filter(|(scope, _)| !is_reported(scope)).filter_map(|(scope, until)| {
            let closed_for = Some(wait(until)?);
            Some(Budget { name: scope.to_string(), group: None, remaining: 0, most: 0, closed_for })
        });
        let mut budgets: Vec<_> = reported.chain(suspended).collect();
        budgets.sort_by(|one, other| (&one.name, &one.group).cmp(&(&other.name, &other.group)));
        budgets
    }
}

fn key(policy: &str, target: &str) -> BudgetKey {
    (policy.to_owned(), is_per_set(policy).then(|| target.to_owned()))
}

#[cfg(test)]
mod tests;
