//! What the configuration says of a simulated source.

/// A simulated source.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Settings {
    /// Seeds everything that happens by chance, so that it happens again.
    pub seed: u64,
    /// How many groups there are, half of them like Auto Scaling groups and half like scale sets; 0 for the demo's.
    pub groups: u32,
    /// How many instances run in these groups at the start.
    pub instances: u32,
    /// The share of calls that go wrong, 0 to 1: throttled, not arriving, taking effect without an answer, in conflict.
    pub error_rate: f64,
}
