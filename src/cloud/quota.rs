//! Limits of the account that new nodes count against.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::GroupName;

/// The quotas of a source, and which of them each group counts against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// The quotas, by name.
    pub by_name: BTreeMap<Arc<str>, Quota>,
    /// What a new node takes, by group. A group is left out if that is not known.
    pub groups: BTreeMap<GroupName, QuotaUse>,
}

/// One quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How much of it is used, in vCPUs.
    pub used: u64,
    /// How much there is, in vCPUs.
    pub limit: u64,
}

impl Quota {
    /// How much is left.
    pub fn left(self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// What a new node of a group takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    /// The quotas that it counts against.
    pub names: Vec<Arc<str>>,
    /// How much it takes of each, in vCPUs. Never 0.
    pub per_node: u32,
}
