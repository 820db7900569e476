//! Surplus: live instances beyond the capacity. Clouds make it themselves (instance refresh, maintenance, rebalancing,
//! overprovisioning, upgrade surge), and it comes of a capacity that somebody lowered. What a scale-up may do depends on which.

/// How live instances came to exceed the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surplus {
    /// The instances grew at an unchanged or higher capacity: the cloud launched them itself, and removes them itself.
    Launched,
    /// The first observation showed it; its cause is unknown.
    FoundAtStart,
    /// The capacity fell, and nothing of ours explains it: the cloud is about to delete instances, or the read is wrong.
    CapacityFell,
}

impl Surplus {
    /// Whether a scale-up from `capacity` to `to` may be written while `live` instances live.
    pub(super) fn permits_growth(self, capacity: u32, to: u32, live: u32) -> bool {
        match self {
            Self::Launched => true,
            Self::FoundAtStart => live <= capacity.saturating_mul(2) || live <= to,
            Self::CapacityFell => live <= to,
        }
    }
}
