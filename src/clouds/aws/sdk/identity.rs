//! The identity that a source's credentials belong to, from STS. The call needs no permission.

use async_trait::async_trait;

use super::errors::cloud_error;
use crate::cloud::CloudError;

/// STS.
#[async_trait]
pub(in crate::clouds::aws) trait StsApi: Send + Sync {
    /// The ARN of the user or the assumed role that calls.
    async fn caller(&self) -> Result<Option<String>, CloudError>;
}

/// STS by the SDK.
pub(in crate::clouds::aws) struct Sts(pub(super) aws_sdk_sts::Client);

#[async_trait]
impl StsApi for Sts {
    async fn caller(&self) -> Result<Option<String>, CloudError> {
        let sent = self.0.get_caller_identity().send().await;
        let output = sent.map_err(|error| cloud_error("GetCallerIdentity", "", error))?;
        Ok(output.arn)
    }
}
