//! What the Cluster Autoscaler does by itself for the providers that are built into it, and leaves to flags for others.

use super::Family;

/// The labels that the in-tree AWS provider ignores when it compares node groups (kubernetes/autoscaler,
/// `processors/nodegroupset/aws_nodegroups.go`).
const AWS_LABELS: [&str; 7] = [
    "alpha.eksctl.io/instance-id",
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
];

/// The same for Azure (`azure_nodegroups.go`).
const AZURE_LABELS: [&str; 9] = [
    "agentpool",
    "aksEngineVersion",
    "creationSource",
    "kubernetes.azure.com/agentpool",
    "kubernetes.azure.com/consolidated-additional-properties",
    "kubernetes.azure.com/node-image-version",
    "poolName",
    "resourceNameSuffix",
    "topology.disk.csi.azure.com/zone",
];

/// The flags that only in-tree providers read. External gRPC ignores them.
pub const IN_TREE_FLAGS: [&str; 3] = ["nodes", "node-group-auto-discovery", "aws-use-static-instance-list"];

/// From this release on, --balancing-ignore-label has no effect with external gRPC (upstream commit 74e9a647fd).
pub const IGNORE_LABEL_GONE: (u32, u32) = (1, 37);

/// The labels to compare instead, each with `--balancing-label`. A release that gets one compares nothing else, so the
/// labels that pods select nodes by have to be added.
pub const LABELS_TO_COMPARE: [&str; 2] = ["node.kubernetes.io/instance-type", "kubernetes.io/arch"];

impl Family {
    /// The labels that the in-tree provider of this cloud ignores when it compares node groups. With external gRPC, the
    /// Cluster Autoscaler ignores none of them unless a flag says so.
    pub fn labels_ignored_in_tree(self) -> &'static [&'static str] {
        match self {
            Self::Aws => &AWS_LABELS,
            Self::Azure => &AZURE_LABELS,
        }
    }
}
