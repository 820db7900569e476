//! The call to Application Recovery Controller, which moves traffic away from a zone.

use async_trait::async_trait;

use crate::cloud::CloudError;
use crate::clouds::aws::sdk::errors::cloud_error;

/// Application Recovery Controller.
#[async_trait]
pub(in crate::clouds::aws) trait ZonalShiftApi: Send + Sync {
    /// The IDs of the zones that zonal shifts and autoshifts move a resource away from.
    async fn shifted_zones(&self, arn: &str) -> Result<Vec<String>, CloudError>;
}

/// Application Recovery Controller through the SDK.
pub(in crate::clouds::aws) struct ZonalShift(pub(in crate::clouds::aws) aws_sdk_arczonalshift::Client);

#[async_trait]
impl ZonalShiftApi for ZonalShift {
    async fn shifted_zones(&self, arn: &str) -> Result<Vec<String>, CloudError> {
        let sent = self.0.get_managed_resource().resource_identifier(arn).send().await;
        let output = sent.map_err(|error| cloud_error("GetManagedResource", arn, error))?;
        // A weight is 1, or 0 where the resource is moved away.
        let shifted = output.applied_weights.into_iter().filter(|(_, weight)| *weight <= 0.0);
        Ok(shifted.map(|(zone, _)| zone).collect())
    }
}
