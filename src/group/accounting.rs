//! Accounting: whether a capacity still counts an instance being deleted.
//!
//! Some clouds take an instance out of the capacity when they accept its deletion, others when it is gone. The first
//! observation after the acceptance shows which. Headcount did not start every deletion: another client may have, or an
//! earlier process. For those, it assumes that the capacity still counts the instance, until live instances alone
//! account for all of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::time::Time;

use super::observation::{Observation, count};
use super::operation::{Operation, OperationId};
use crate::cloud::{Instance, ProviderId};

/// Whether the capacity still counts an instance being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Accounting {
    /// No observation has shown it. The instance is assumed to be counted if the capacity has room for it.
    Unknown,
    /// An observation after the acceptance still counted it.
    Counted,
    /// The capacity counted it and has fallen by it. A read that shows it live is older than the one that showed this.
    /// It does not change again while the instance is being deleted.
    GivenUp,
    /// The capacity does not count it, and did not fall by it. This does not change either.
    NotCounted,
}

impl Accounting {
    /// Whether the capacity is known not to count it.
    pub(crate) fn is_uncounted(self) -> bool {
        matches!(self, Self::GivenUp | Self::NotCounted)
    }

    /// Starts over, because a new deletion names the instance. What was observed during an earlier deletion does not
    /// apply to it.
    pub(crate) fn restart(&mut self) {
        if *self == Self::Counted {
            *self = Self::Unknown;
        }
    }
}

/// The state that a deletion was computed from. The next observation is compared with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// The deletion.
    pub operation: OperationId,
    /// When it was accepted.
    pub accepted: Time,
    /// The instances it named.
    pub named: BTreeSet<ProviderId>,
    desired: u32,
    /// The other instances that were listed and that the capacity may have counted.
    others: BTreeSet<ProviderId>,
}

impl Baseline {
    /// The baseline of a deletion of `named` that was computed from `before`, with the instances that its capacity did
    /// not count.
    pub(crate) fn new(
        operation: &Operation,
        before: &Observation,
        named: BTreeSet<ProviderId>,
        is_uncounted: impl Fn(&Instance) -> bool,
    ) -> Self {
        let others = before.instances.iter().filter(|other| !named.contains(&other.id) && !is_uncounted(other));
        let others = others.map(|other| other.id.clone()).collect();
        Self { operation: operation.id, accepted: operation.accepted, named, desired: before.reading.desired, others }
    }

    /// Whether the capacity still counts the named instances. It is unknown if other instances left in between, because
    /// the capacity may have fallen by those instead.
    pub(crate) fn accounting(&self, after: &Observation) -> Accounting {
        let listed: BTreeSet<&ProviderId> = after.instances.iter().map(|instance| &instance.id).collect();
        let left = |ids: &BTreeSet<ProviderId>| count(ids.iter().filter(|id| !listed.contains(id)).count());
        let (named, named_left, others_left) = (count(self.named.len()), left(&self.named), left(&self.others));
        let fits = |capacity: u32| (capacity.saturating_sub(others_left)..=capacity).contains(&after.reading.desired);
        let if_counted = fits(self.desired.saturating_sub(named_left));
        let if_not_counted = fits(self.desired.saturating_sub(named));
        match (if_counted, if_not_counted) {
            (true, false) => Accounting::Counted,
            (false, true) => Accounting::GivenUp,
            _ => Accounting::Unknown,
        }
    }
}
