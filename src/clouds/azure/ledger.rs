//! What is left of Azure's budgets of calls, and which of them are closed. Pure: the time comes in.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Bucket, Notice, is_per_set};
use crate::cloud::Budget;

/// How long to wait where the refusal does not say: half of Compute's shortest refill.
pub(super) const PAUSE_UNTOLD: Duration = Duration::from_secs(30);
/// Reads that can wait do so below this part of a budget.
const RESERVE_SHARE: u64 = 10;
/// And below this many calls, for the small budgets of single scale sets.
const RESERVE_LEAST: u64 = 2;
/// Compute refills its budgets every minute, so what an answer said of one is worth nothing after that.
pub(super) const REFILL: Duration = Duration::from_secs(60);
/// Budgets that are remembered. Each scale set and each operation can have some of its own.
const BUDGETS_MAX: usize = 1_000;

/// What a pause is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// All calls of a kind.
    Bucket(Bucket),
    /// The calls of a kind about one scale set.
    Set(Bucket, String),
    /// All calls that are charged to a policy.
    Policy(String),
    /// All reads, or all writes.
    Kind { write: bool },
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(bucket) => bucket.fmt(formatter),
            Self::Set(bucket, scale_set) => write!(formatter, "{bucket} of {scale_set}"),
            Self::Policy(policy) => formatter.write_str(policy),
            Self::Kind { write: true } => formatter.write_str("all writes"),
            Self::Kind { write: false } => formatter.write_str("all reads"),
        }
    }
}

/// Something the operator should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// No call is made for so long. `left` is what remains of the budgets these calls are charged to.
    Closed { scopes: Vec<Scope>, wait: Duration, left: String },
    /// Calls are made again.
    Opened { scopes: Vec<Scope> },
    /// What is left is kept for writes.
    Low { account: Account, level: Level },
    /// There is enough for all.
    Ample { account: Account, level: Level },
}

/// What a budget is of: the policy, and the scale set where each has its own.
pub(super) type Account = (String, Option<String>);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    closed: HashMap<Scope, Instant>,
    budgets: HashMap<Account, Level>,
    /// Which policies the calls of a kind turned out to be charged to.
    charged: HashMap<Bucket, BTreeSet<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) remaining: u64,
    pub(super) most: u64,
    seen: Instant,
}

impl Level {
    fn is_low(self) -> bool {
        self.remaining < (self.most / RESERVE_SHARE).max(RESERVE_LEAST)
    }
}

impl Ledger {
    pub(super) fn admit(&mut self, bucket: Bucket, subject: &str, now: Instant) -> (Result<(), Duration>, Vec<Change>) {
        let scopes: Vec<Scope> = self.closed.extract_if(|_, until| *until <= now).map(|(scope, _)| scope).collect();
        let changes = if scopes.is_empty() { Vec::new() } else { vec![Change::Opened { scopes }] };
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
        (closed.chain(reserved).max().map_or(Ok(()), Err), changes)
    }

    pub(super) fn record(&mut self, bucket: Bucket, subject: &str, notice: Notice, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        for (policy, remaining) in notice.remaining {
            changes.extend(self.level(account(&policy, subject), remaining, now));
            self.charged.entry(bucket).or_default().insert(policy);
        }
        let Some(pause) = notice.pause else {
            return changes;
        };
        let wait = pause.wait.unwrap_or(PAUSE_UNTOLD);
        let scopes = match pause.policy {
            Some(policy) if is_per_set(&policy) => vec![Scope::Set(bucket, subject.to_owned())],
            Some(policy) => {
                self.charged.entry(bucket).or_default().insert(policy.clone());
                vec![Scope::Bucket(bucket), Scope::Policy(policy)]
            }
            None if pause.whole_subscription => vec![Scope::Kind { write: bucket.is_write() }],
            None => vec![Scope::Bucket(bucket)],
        };
        let left = self.left(bucket, subject);
        let until = now + wait;
        let mut closed = Vec::new();
        for scope in scopes {
            match self.closed.get_mut(&scope).filter(|earlier| **earlier > now) {
                Some(earlier) => *earlier = until.max(*earlier),
                None => {
                    self.closed.insert(scope.clone(), until);
                    closed.push(scope);
                }
            }
        }
        if !closed.is_empty() {
            changes.push(Change::Closed { scopes: closed, wait, left });
        }
        changes
    }

    /// Takes in what is left of a budget, and says whether that makes a difference.
    fn level(&mut self, account: Account, remaining: u64, now: Instant) -> Option<Change> {
        if self.budgets.len() >= BUDGETS_MAX {
            self.budgets.retain(|_, level| now.saturating_duration_since(level.seen) < REFILL);
        }
        let before = self.budgets.get(&account).copied();
        let most = before.map_or(0, |before| before.most).max(remaining);
        let level = Level { remaining, most, seen: now };
        self.budgets.insert(account.clone(), level);
        match (before.is_some_and(Level::is_low), level.is_low()) {
            (false, true) => Some(Change::Low { account, level }),
            (true, false) => Some(Change::Ample { account, level }),
            _ => None,
        }
    }

    /// What is left of the budgets that such a call is charged to.
    fn left(&self, bucket: Bucket, subject: &str) -> String {
        let policies = self.charged.get(&bucket).into_iter().flatten();
        let levels = policies.filter_map(|policy| Some((policy, self.budgets.get(&account(policy, subject))?)));
        levels.map(|(policy, level)| format!("{policy}: {}", level.remaining)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn remaining(&self, now: Instant) -> Vec<Budget> {
        let wait = |until: &Instant| Some(*until - now).filter(|wait| !wait.is_zero());
        let told = self.budgets.iter().map(|((policy, scale_set), level)| Budget {
            name: policy.clone(),
            group: scale_set.clone(),
            remaining: level.remaining,
            most: level.most,
            closed_for: self.closed.get(&Scope::Policy(policy.clone())).and_then(wait),
        });
        let is_told = |scope: &Scope| matches!(scope, Scope::Policy(policy) if self.budgets.contains_key(&(policy.clone(), None)));
        let closed = self.closed.iter().filter(|(scope, _)| !is_told(scope)).filter_map(|(scope, until)| {
            let closed_for = Some(wait(until)?);
            Some(Budget { name: scope.to_string(), group: None, remaining: 0, most: 0, closed_for })
        });
        let mut budgets: Vec<_> = told.chain(closed).collect();
        budgets.sort_by(|one, other| (&one.name, &one.group).cmp(&(&other.name, &other.group)));
        budgets
    }
}

fn account(policy: &str, subject: &str) -> Account {
    (policy.to_owned(), is_per_set(policy).then(|| subject.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::budget::Pause;
    use super::*;

    fn left(remaining: u64) -> Notice {
        Notice { remaining: vec![("HighCostGet".to_owned(), remaining)], pause: None }
    }

    fn refusal(seconds: u64) -> Notice {
        let wait = Some(Duration::from_secs(seconds));
        Notice { remaining: Vec::new(), pause: Some(Pause { wait, policy: None, whole_subscription: false }) }
    }

    #[test]
    fn a_pause_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        ledger.record(Bucket::SetList, "rg", left(7), now);
        let changes = ledger.record(Bucket::SetList, "rg", refusal(60), now);
        let scopes = vec![Scope::Bucket(Bucket::SetList)];
        let (wait, left) = (Duration::from_secs(60), "HighCostGet: 7".to_owned());
        assert_eq!(changes, [Change::Closed { scopes: scopes.clone(), wait, left }]);
        assert_eq!(ledger.record(Bucket::SetList, "rg", refusal(90), now), [], "a call that was under way");
        assert_eq!(ledger.admit(Bucket::SetList, "rg", after(89)), (Err(Duration::from_secs(1)), vec![]));
        assert_eq!(ledger.admit(Bucket::SetList, "rg", after(90)), (Ok(()), vec![Change::Opened { scopes }]));
        assert_eq!(ledger.admit(Bucket::SetList, "rg", after(91)), (Ok(()), vec![]));
    }

    #[test]
    fn a_budget_that_is_almost_spent_is_told_once_and_so_is_its_recovery() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let mut told = |remaining| match &ledger.record(Bucket::SetList, "rg", left(remaining), now)[..] {
            [] => "nothing",
            [Change::Low { level, .. }] if (level.remaining, level.most) == (remaining, 100) => "low",
            [Change::Ample { .. }] => "ample",
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [100, 10, 9, 8, 10, 50].map(&mut told),
            ["nothing", "nothing", "low", "nothing", "ample", "nothing"]
        );
    }

    #[test]
    fn budgets_of_what_is_long_gone_are_forgotten() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let of_one = Notice { remaining: vec![("GetOperationResource".to_owned(), 44)], pause: None };
        for number in 0..BUDGETS_MAX {
            ledger.record(Bucket::Poll, &number.to_string(), of_one.clone(), now);
        }
        assert_eq!(ledger.remaining(now).len(), BUDGETS_MAX);
        ledger.record(Bucket::Poll, "last", of_one, now + REFILL);
        assert_eq!(ledger.remaining(now).len(), 1);
    }
}
