//! What the Kubernetes API says about the cluster's nodes, as far as it affects the status of a node group.

use std::collections::BTreeSet;

use crate::cloud::ProviderId;

/// What the Kubernetes API says about the cluster's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClusterNodes {
    /// They are not watched, or cannot be.
    #[default]
    Unwatched,
    /// They are being listed for the first time.
    Awaited,
    /// As last seen.
    Watched(WatchedNodes),
}

/// The cluster's nodes as last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedNodes {
    /// All of them.
    pub all: BTreeSet<ProviderId>,
    /// Those that CA has tainted for deletion, if Headcount follows CA's taints.
    pub tainted: BTreeSet<ProviderId>,
}

impl ClusterNodes {
    /// Whether an instance is a node, or may be one because the nodes are not listed yet.
    pub(crate) fn may_have(&self, id: &ProviderId) -> bool {
        match self {
            Self::Unwatched => false,
            Self::Awaited => true,
            Self::Watched(nodes) => nodes.all.contains(id),
        }
    }

    /// Whether an instance is known to be a node.
    pub(crate) fn has(&self, id: &ProviderId) -> bool {
        matches!(self, Self::Watched(nodes) if nodes.all.contains(id))
    }

    /// Whether CA has tainted an instance's node for deletion.
    pub(crate) fn has_tainted(&self, id: &ProviderId) -> bool {
        matches!(self, Self::Watched(nodes) if nodes.tainted.contains(id))
    }

    /// The instances for which these nodes differ from the earlier ones.
    pub(crate) fn changed_since<'a>(&'a self, before: &'a Self) -> BTreeSet<&'a ProviderId> {
        let (now, before) = (self.watched(), before.watched());
        let sets = [(&now.all, &before.all), (&now.tainted, &before.tainted)];
        sets.into_iter().flat_map(|(now, before)| now.symmetric_difference(before)).collect()
    }

    fn watched(&self) -> &WatchedNodes {
        static NONE: WatchedNodes = WatchedNodes { all: BTreeSet::new(), tainted: BTreeSet::new() };
        match self {
            Self::Watched(nodes) => nodes,
            Self::Unwatched | Self::Awaited => &NONE,
        }
    }
}
