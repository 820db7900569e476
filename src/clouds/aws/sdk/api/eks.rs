//! The call to EKS.

use async_trait::async_trait;
use aws_sdk_eks::types::Nodegroup;

use crate::cloud::CloudError;
use crate::clouds::aws::sdk::errors::cloud_error;

/// EKS.
#[async_trait]
pub(in crate::clouds::aws) trait EksApi: Send + Sync {
    /// One managed node group.
    async fn describe_nodegroup(&self, cluster: &str, nodegroup: &str) -> Result<Option<Nodegroup>, CloudError>;
}

/// EKS through the SDK.
pub(in crate::clouds::aws) struct Eks(pub(in crate::clouds::aws) aws_sdk_eks::Client);

#[async_trait]
impl EksApi for Eks {
    async fn describe_nodegroup(&self, cluster: &str, nodegroup: &str) -> Result<Option<Nodegroup>, CloudError> {
        let sent = self.0.describe_nodegroup().cluster_name(cluster).nodegroup_name(nodegroup).send().await;
        let output = sent.map_err(|error| cloud_error("DescribeNodegroup", nodegroup, error))?;
        Ok(output.nodegroup)
    }
}
