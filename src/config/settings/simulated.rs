//! The settings of a simulated source.

/// The settings of a simulated source.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Settings {
    /// The seed of all random events, which makes them reproducible.
    pub seed: u64,
    /// The number of groups: half of them behave like Auto Scaling groups, half like scale sets. 0 for the groups of
    /// the demo.
    pub groups: u32,
    /// The number of instances at the start.
    pub instances: u32,
    /// The fraction of calls that fail, 0 to 1: throttled, lost before or after they took effect, or in conflict.
    pub error_rate: f64,
}
