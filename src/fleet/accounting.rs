//! Accounting: whether a capacity still counts an instance being deleted.
//!
//! Some clouds take an instance out of the capacity when they accept its deletion, others when it is gone. The first
//! observation after the acceptance shows which. For deletions that Headcount did not start (somebody else's, or those of a
//! process before this one), it assumes that the capacity still counts them, until live instances alone account for all of it.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::observation::{Observation, count};
use super::operation::{Operation, OperationId};
use crate::cloud::{Instance, ProviderId};

/// Whether the capacity still counts an instance being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accounting {
    /// No observation has shown it. It is taken to be counted, as far as the capacity has room for it.
    Unknown,
    /// An observation after the acceptance still counted it.
    Counted,
    /// The capacity no longer counts it. That is final while the instance is being deleted.
    NotCounted,
}

impl Accounting {
    /// A new deletion names the instance: what was seen of an earlier one does not hold for it.
    pub(super) fn restart(&mut self) {
        if *self == Self::Counted {
            *self = Self::Unknown;
        }
    }
}

/// What a deletion was computed on: the observation that follows it is compared with this.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    /// The deletion.
    pub operation: OperationId,
    /// When it was accepted.
    pub accepted: Instant,
    /// The instances it named.
    pub named: BTreeSet<ProviderId>,
    desired: u32,
    /// The other instances that were listed and that the capacity may have counted.
    others: BTreeSet<ProviderId>,
}

impl Baseline {
    /// The baseline of a deletion of `named` that was computed on `before`, with the instances that its capacity did not count.
    pub(super) fn new(
        operation: &Operation,
        before: &Observation,
        named: BTreeSet<ProviderId>,
        is_uncounted: impl Fn(&Instance) -> bool,
    ) -> Self {
        let others = before.instances.iter().filter(|other| !named.contains(&other.id) && !is_uncounted(other));
        let others = others.map(|other| other.id.clone()).collect();
        Self { operation: operation.id, accepted: operation.accepted, named, desired: before.reading.desired, others }
    }

    /// Whether the capacity still counts the named instances. Unknown where it may be either, because other instances left in
    /// between and may have taken some of the capacity with them.
    pub(super) fn accounting(&self, after: &Observation) -> Accounting {
        let listed: BTreeSet<&ProviderId> = after.instances.iter().map(|instance| &instance.id).collect();
        let left = |ids: &BTreeSet<ProviderId>| count(ids.iter().filter(|id| !listed.contains(id)).count());
        let (named, named_left, others_left) = (count(self.named.len()), left(&self.named), left(&self.others));
        let fits = |capacity: u32| (capacity.saturating_sub(others_left)..=capacity).contains(&after.reading.desired);
        let if_counted = fits(self.desired.saturating_sub(named_left));
        let if_not_counted = fits(self.desired.saturating_sub(named));
        match (if_counted, if_not_counted) {
            (true, false) => Accounting::Counted,
            (false, true) => Accounting::NotCounted,
            _ => Accounting::Unknown,
        }
    }
}
