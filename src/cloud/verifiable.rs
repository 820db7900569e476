//! What `headcount verify` needs of a cloud beyond what `serve` may do.

use async_trait::async_trait;

use super::{CloudError, GroupName, GroupReading, ProviderId, WritableCloud};

/// The tag that sets a group aside for `headcount verify`.
pub const SET_ASIDE_TAG: &str = "headcount-verify";

/// The value of [`SET_ASIDE_TAG`] that allows writes.
pub const SET_ASIDE_VALUE: &str = "allowed";

/// What [`VerifiableCloud::kind_of`] says of a source that has an endpoint of its own, so that nobody takes its report
/// for one of the cloud itself.
pub const OWN_ENDPOINT: &str = ", at an endpoint of its own";

/// A cloud on which `headcount verify` may measure, in one group that is set aside for it. `serve` holds a
/// [`WritableCloud`], which has none of these calls (law 11).
#[async_trait]
pub trait VerifiableCloud: WritableCloud {
    /// The kind of a group and the version of the API that reads it, for a report: no name, no ID.
    fn kind_of(&self, reading: &GroupReading) -> String;

    /// Deletes one instance without telling the group, as an eviction or another tool does. Fails with
    /// [`CloudError::Refused`] where Headcount has no call for that.
    async fn delete_behind(&self, _group: &GroupName, id: &ProviderId) -> Result<(), CloudError> {
        let message = "Headcount has no call that deletes an instance of such a group without the group";
        Err(CloudError::refused("DeleteBehind", id.instance(), message))
    }
}
