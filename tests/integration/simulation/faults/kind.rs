//! The kinds of faults and changes, by the names that replay a run without them.

/// A kind of fault or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::simulation) enum FaultKind {
    /// Running instances are evicted.
    Evict,
    /// Another client changes the capacity.
    Resize,
    /// The next calls meet a fault.
    Call,
    /// The next read is wrong, stale or cannot be decoded.
    Read,
    /// Launches fail from now on.
    Launches,
    /// Deletions fail from now on.
    Deletions,
    /// Launches and deletions succeed from now on.
    Recover,
    /// Calls are slow, lose their responses, are throttled or meet conflicts.
    Degraded,
    /// A group is hidden, or shown again.
    Vanish,
    /// The process crashes.
    Crash,
    /// Of two processes, the other one becomes the leader's.
    Handover,
    /// The cloud launches instances of its own beyond the capacity, and removes them later.
    Surplus,
    /// A write takes effect after its client gave up.
    Late,
    /// After a write without a response, reads show the group as it was before.
    Lag,
    /// Instances of a scale set cannot be listed, or slowly.
    View,
    /// Polls, launch activity or templates are refused or hang.
    Side,
    /// Instances are listed without an ID.
    Nameless,
}

impl FaultKind {
    pub(in crate::simulation) const ALL: [Self; 17] = [
        Self::Evict,
        Self::Resize,
        Self::Call,
        Self::Read,
        Self::Launches,
        Self::Deletions,
        Self::Recover,
        Self::Degraded,
        Self::Vanish,
        Self::Crash,
        Self::Handover,
        Self::Surplus,
        Self::Late,
        Self::Lag,
        Self::View,
        Self::Side,
        Self::Nameless,
    ];

    /// Those that only runs with one process meet; the README beside the simulation says why.
    pub(in crate::simulation) const OF_ONE_PROCESS: [Self; 6] =
        [Self::Surplus, Self::Late, Self::Lag, Self::View, Self::Side, Self::Nameless];

    pub(in crate::simulation) fn name(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Resize => "resize",
            Self::Call => "call",
            Self::Read => "read",
            Self::Launches => "launches",
            Self::Deletions => "deletions",
            Self::Recover => "recover",
            Self::Degraded => "degraded",
            Self::Vanish => "vanish",
            Self::Crash => "crash",
            Self::Handover => "handover",
            Self::Surplus => "surplus",
            Self::Late => "late",
            Self::Lag => "lag",
            Self::View => "view",
            Self::Side => "side",
            Self::Nameless => "nameless",
        }
    }

    pub(in crate::simulation) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
