//! Node pools of AKS: what AKS sets on their nodes, and their scale sets do not show.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::arm::{AgentPool, AksCluster, ScaleSet};
use super::{Azure, tags};
use crate::cloud::{CloudError, GroupName};

/// Node pools are read again after this long. A change of their labels or taints applies to new nodes at once.
const POOLS_LIFE: Duration = Duration::from_secs(6 * 60);
/// After a failure, they are read again after this long.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// More clusters than have their nodes in one resource group: one.
const CLUSTERS_MAX: usize = 10;

/// The node pools of AKS clusters, as last read.
#[derive(Debug, Default)]
pub(super) struct NodePools(Mutex<BTreeMap<AksCluster, Read>>);

/// What the last attempts to read a cluster's node pools returned.
#[derive(Clone, Debug)]
struct Read {
    tried: Instant,
    /// The last list.
    pools: Option<Arc<Vec<AgentPool>>>,
    error: Option<CloudError>,
}

/// What is known of a scale set's node pool.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownPool {
    pub(super) pool: Option<AgentPool>,
    /// Whether it could not be read, and may be readable a little later.
    pub(super) is_provisional: bool,
}

impl Azure {
    /// The node pool that the tags of a scale set name. All scale sets of a cluster share one call. Where that fails, the
    /// last list counts, or nothing is known of the pool.
    pub(super) async fn node_pool(&self, group: &GroupName, set: &ScaleSet) -> KnownPool {
        let (Some((resource_group, cluster)), Some(name)) = (tags::aks_cluster(&set.tags), tags::aks_pool(&set.tags))
        else {
            return KnownPool::default();
        };
        let cluster = AksCluster { resource_group: resource_group.to_owned(), name: cluster.to_owned() };
        let read = self.pools_of(&cluster).await;
        if let Some(pools) = read.pools {
            let pool = pools.iter().find(|pool| pool.name.eq_ignore_ascii_case(name)).cloned();
            return KnownPool { pool, is_provisional: false };
        }
        if let Some(error) = read.error.as_ref().filter(|error| !error.may_pass()) {
            tracing::debug!(%group, pool = name, %error, "node pool of AKS cannot be read");
            self.warnings.log_new(group, vec![format!(
                "the node pool {name} of AKS cannot be read, so the node template lacks its labels, taints and pod limit: \
                 grant Microsoft.ContainerService/managedClusters/agentPools/read for the resource group {resource_group}"
            )]);
            return KnownPool::default();
        }
        KnownPool { pool: None, is_provisional: true }
    }

    async fn pools_of(&self, cluster: &AksCluster) -> Read {
        let mut known = self.node_pools.0.lock().await;
        let before = known.get(cluster).cloned();
        let is_fresh = |read: &Read| read.tried.elapsed() < if read.error.is_none() { POOLS_LIFE } else { RETRY_AFTER };
        if let Some(read) = before.clone().filter(is_fresh) {
            return read;
        }
        if known.len() >= CLUSTERS_MAX && before.is_none() {
            known.clear();
        }
        let pools = before.and_then(|read| read.pools);
        // Recorded before the call, because the caller may be cancelled while it waits.
        let late = CloudError::unreachable("agentPools", &cluster.name, "the last call took too long");
        known.insert(cluster.clone(), Read { tried: Instant::now(), pools: pools.clone(), error: Some(late) });
        let tried = Instant::now();
        let read = match self.api.list_agent_pools(cluster).await {
            Ok(listed) => Read { tried, pools: Some(Arc::new(listed)), error: None },
            Err(error) => Read { tried, pools, error: Some(error) },
        };
        known.insert(cluster.clone(), read.clone());
        read
    }
}
