//! What in a group's settings works against a Cluster Autoscaler.

use super::error::CloudError;
use super::reading::GroupName;

/// What was found of such settings.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// The conflicts.
    pub found: Vec<Conflict>,
    /// Why not all that matters could be read.
    pub unread: Vec<CloudError>,
}

/// A setting that works against a Cluster Autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The group.
    pub group: GroupName,
    /// What it does.
    pub what: String,
    /// What to do about it.
    pub advice: String,
    /// How bad it is.
    pub harm: Harm,
}

/// How bad a conflict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Two decide on the group's size, or nodes go that nobody named.
    Sizes,
    /// Worth knowing.
    Little,
}
