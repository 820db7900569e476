//! Surplus: live instances beyond the capacity. Either the cloud launched them itself (instance refresh, maintenance,
//! rebalancing, overprovisioning, upgrade surge), or a client lowered the capacity. Whether a scale-up is permitted
//! depends on the cause.

use serde::{Deserialize, Serialize};

/// How live instances came to exceed the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Surplus {
    /// The instances grew at an unchanged or higher capacity: the cloud launched them itself, and removes them itself.
    Launched,
    /// The first observation showed it; its cause is unknown.
    FoundAtStart,
    /// The instances stay: they are protected from scale-in, a deletion of ours lowered the capacity of a scale set and
    /// failed, or a start found them in one in which nothing runs. The target has them, and the next scale-up makes room
    /// for them.
    Lasting,
    /// The capacity fell, and no write of ours explains it: the cloud is about to delete instances, or the read is
    /// wrong.
    CapacityFell,
}

impl Surplus {
    /// Whether a scale-up from `capacity` to `to` may be written with this many live instances.
    pub(crate) fn permits_growth(self, capacity: u32, to: u32, live: u32) -> bool {
        match self {
            Self::Launched | Self::Lasting => true,
            Self::FoundAtStart => live <= capacity.saturating_mul(2) || live <= to,
            Self::CapacityFell => live <= to,
        }
    }
}
