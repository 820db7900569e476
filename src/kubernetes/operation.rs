//! The calls to the API server, as errors name them.

use std::fmt;

/// A call to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Lists the nodes.
    ListNodes,
    /// Watches the nodes.
    WatchNodes,
    /// Lists the ResourceSlices.
    ListResourceSlices,
    /// Watches the ResourceSlices.
    WatchResourceSlices,
    /// Reads what was learned.
    GetConfigMap,
    /// Keeps what was learned, the first time.
    CreateConfigMap,
    /// Keeps what was learned.
    PatchConfigMap,
    /// Reads what the Cluster Autoscaler wrote about its last loop.
    GetAutoscalerStatus,
    /// Looks for the Deployment of the Cluster Autoscaler.
    ListDeployments,
    /// Tells about a failure in the cluster.
    CreateEvent,
    /// Lists the nodes of the demo.
    ListDemoNodes,
    /// Creates a node of the demo.
    CreateDemoNode,
    /// Keeps a node of the demo ready.
    PatchDemoNode,
    /// Deletes a node of the demo.
    DeleteDemoNode,
}

impl Operation {
    /// The manifest that grants it.
    pub(super) fn manifest(self) -> &'static str {
        match self {
            Self::ListDemoNodes | Self::CreateDemoNode | Self::PatchDemoNode | Self::DeleteDemoNode => {
                "deploy/demo/rbac.yaml"
            }
            Self::ListNodes
            | Self::WatchNodes
            | Self::ListResourceSlices
            | Self::WatchResourceSlices
            | Self::GetConfigMap
            | Self::CreateConfigMap
            | Self::PatchConfigMap
            | Self::GetAutoscalerStatus
            | Self::ListDeployments
            | Self::CreateEvent => "deploy/kubernetes-rbac.yaml",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ListNodes => "list nodes",
            Self::WatchNodes => "watch nodes",
            Self::ListResourceSlices => "list ResourceSlices",
            Self::WatchResourceSlices => "watch ResourceSlices",
            Self::GetConfigMap => "get the ConfigMap",
            Self::CreateConfigMap => "create the ConfigMap",
            Self::PatchConfigMap => "patch the ConfigMap",
            Self::GetAutoscalerStatus => "get the Cluster Autoscaler's status",
            Self::ListDeployments => "list Deployments",
            Self::CreateEvent => "create an Event",
            Self::ListDemoNodes => "list the demo's nodes",
            Self::CreateDemoNode => "create a node of the demo",
            Self::PatchDemoNode => "patch the status of a node of the demo",
            Self::DeleteDemoNode => "delete a node of the demo",
        })
    }
}
