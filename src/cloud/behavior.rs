//! What a node group was seen to do, in figures. `headcount verify` measures it, and the simulated cloud can do the
//! same.

use serde::{Deserialize, Serialize};

use super::consistency::CapacityIs;

/// What a node group was seen to do. `None` where it was not seen. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Behavior {
    /// When a deletion lowers the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub falls: Option<Falls>,
    /// What a new capacity is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_is: Option<CapacityIs>,
    /// Whether its instances are protected from scale-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_protected: Option<bool>,
    /// How long it kept an instance beyond a lower capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_in_after: Option<f64>,
    /// How long after a higher capacity the launch showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_begins_after: Option<f64>,
    /// How long after a higher capacity the instance ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_takes: Option<f64>,
    /// How long after an accepted deletion the instance was gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_takes: Option<f64>,
    /// The oldest state that a read returned after a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_lag: Option<f64>,
    /// When a launch by a call raises the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raises: Option<Raises>,
    /// The code of a launch that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_failure: Option<String>,
}

/// When a deletion lowers the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Falls {
    /// When it is accepted.
    WhenAccepted,
    /// When the instance is gone.
    WhenGone,
}

/// When a launch by a call raises the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Raises {
    /// Before the response.
    BeforeResponse,
    /// After it.
    AfterResponse,
}
