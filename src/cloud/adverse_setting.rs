//! Settings of node groups that work against the Cluster Autoscaler, such as a scaling policy that also sets the size.

use super::error::CloudError;
use super::ids::GroupName;

/// The settings of a cloud's groups that work against the Cluster Autoscaler.
#[derive(Debug, Default)]
pub struct AdverseSettings {
    /// The settings found.
    pub found: Vec<AdverseSetting>,
    /// Calls that failed, so that some settings are unknown.
    pub unread: Vec<CloudError>,
}

/// A setting that works against the Cluster Autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdverseSetting {
    /// The group that has the setting.
    pub group: GroupName,
    /// What it means for the Cluster Autoscaler.
    pub kind: AdverseKind,
    /// What the setting is, what it does, and what the Cluster Autoscaler sees of that.
    pub effect: String,
    /// What to do about it.
    pub advice: String,
}

/// What a setting means for the Cluster Autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdverseKind {
    /// Something else sets the size, or replaces instances on request.
    Resizes,
    /// The cloud replaces, adds or removes instances by itself, for good.
    Replaces,
    /// Launches wait for a zone that has no capacity.
    StaysInZone,
    /// Only another service may change the group.
    Operated,
    /// Instances stay after their deletion.
    Retains,
    /// Nothing in the cloud keeps another client from removing instances. No conflict by itself.
    Unprotected,
}
