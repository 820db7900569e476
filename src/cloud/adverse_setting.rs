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
    /// What the setting does.
    pub effect: String,
    /// What to do about it.
    pub advice: String,
}
