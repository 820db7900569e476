//! Launches: instances that one call requests and returns.

use serde::{Deserialize, Serialize};

use super::reading::Failure;

/// The most instances of one launch (AWS: LaunchInstances).
pub const LAUNCH_MAX: u32 = 100;

/// One launch. The same token again is the same launch: the cloud launches nothing more, and returns what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRequest {
    /// How many instances; 1 to [`LAUNCH_MAX`].
    pub number: u32,
    /// What the cloud tells this launch from others by: 1 to 64 letters, digits and hyphens.
    pub token: String,
    /// Where. `None` for a group of one zone.
    pub zone: Option<String>,
}

/// What became of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchResult {
    /// The instances, by [`super::ProviderId::instance`]. Never empty: a launch of nothing is an error.
    pub instances: Vec<String>,
    /// Why the others were not launched. May be fewer than they are.
    pub failures: Vec<Failure>,
}
