//! What the configuration says of an AWS source.

use super::super::NodeGroupSpec;

/// One AWS account and region.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// The region; the SDK's default chain decides where it is absent.
    pub region: Option<String>,
    /// One endpoint for all AWS services, for tests; `AWS_ENDPOINT_URL*` work as everywhere where it is absent.
    pub endpoint: Option<String>,
    /// Groups named one by one.
    pub node_groups: Vec<NodeGroupSpec>,
    /// Groups found by tags. Each entry is one specification whose tags must all be there; several are a union.
    pub auto_discovery: Vec<TagQuery>,
}

/// The tags of one `asg:tag=…` specification; all must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagQuery {
    /// Key, and the value it must have; any value where there is none.
    pub tags: Vec<(String, Option<String>)>,
}
