//! Node pools of AKS: what AKS sets on their nodes, and their scale sets do not show.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::arm::operations::LIST_AGENT_POOLS;
use super::arm::{AgentPool, AksCluster, ScaleSet};
use super::{Azure, tags};
use crate::cloud::{CloudError, GroupName};

/// Node pools are read again after this long.
const POOLS_LIFE: Duration = Duration::from_secs(6 * 60);
/// After a failure that may pass, and where the list lacks a pool, they are read again after this long. A template that
/// waits for them is built again every 10 s.
const RETRY_SOON: Duration = Duration::from_secs(5);
/// After any other failure, they are read again after this long.
const RETRY_LATER: Duration = Duration::from_secs(60);
/// The most clusters whose pools are kept. A resource group holds the nodes of one; tags may be wrong.
pub(super) const CLUSTERS_MAX: usize = 10;

/// A list may take this long. It is short, and templates wait for it, a few at a time.
const LIST_LIMIT: Duration = Duration::from_secs(10);

/// The node pools of AKS clusters, as last read. A caller that needs those of a cluster that are being read waits for
/// them, and for no other ones.
#[derive(Debug, Default)]
pub(super) struct NodePools(std::sync::Mutex<BTreeMap<AksCluster, Arc<Mutex<Option<Read>>>>>);

impl NodePools {
    fn of(&self, cluster: &AksCluster) -> Arc<Mutex<Option<Read>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CLUSTERS_MAX && !known.contains_key(cluster) {
            known.clear();
        }
        Arc::clone(known.entry(cluster.clone()).or_default())
    }
}

/// What the last attempts to read a cluster's node pools returned.
#[derive(Clone, Debug)]
struct Read {
    tried: Instant,
    /// The last list.
    pools: Option<Arc<Vec<AgentPool>>>,
    error: Option<CloudError>,
}

impl Azure {
    /// The node pool that the tags of a scale set name. All scale sets of a cluster share one call. Where that fails, the
    /// last list counts. `None` if it may not be read, or does not exist. An error that may pass stays one: without the
    /// pool's taints, the group would be scaled up for pods that its nodes reject.
    pub(super) async fn node_pool(&self, group: &GroupName, set: &ScaleSet) -> Result<Option<AgentPool>, CloudError> {
        let Some((cluster, name)) = named_by(set) else { return Ok(None) };
        let Read { pools, error, .. } = self.pools_of(&cluster, name).await;
        if let Some(error) = error.as_ref().filter(|error| !error.may_pass()) {
            self.warnings.log_new(group, vec![warning(name, &cluster, error)]);
        }
        match (pools, error) {
            (Some(pools), _) => Ok(pool_named(&pools, name).cloned()),
            (None, Some(error)) if error.may_pass() => Err(error),
            (None, _) => Ok(None),
        }
    }

    async fn pools_of(&self, cluster: &AksCluster, wanted: &str) -> Read {
        let pools = self.node_pools.of(cluster);
        let mut known = pools.lock().await;
        if let Some(read) = known.clone().filter(|read| read.tried.elapsed() < read.life(wanted)) {
            return read;
        }
        let (tried, before) = (Instant::now(), known.take().and_then(|read| read.pools));
        // Recorded before the call, because the caller may be cancelled while it waits.
        let late = || CloudError::unreachable(LIST_AGENT_POOLS, &cluster.name, "the last call took too long");
        *known = Some(Read { tried, pools: before.clone(), error: Some(late()) });
        let listed = timeout(LIST_LIMIT, self.api.list_agent_pools(cluster)).await;
        let read = match listed.unwrap_or_else(|_elapsed| Err(late())) {
            Ok(listed) => Read { tried: Instant::now(), pools: Some(Arc::new(listed)), error: None },
            // Those who waited for this call do not repeat it.
            Err(error) => Read { tried: Instant::now(), pools: before, error: Some(error) },
        };
        *known = Some(read.clone());
        read
    }
}

impl Read {
    /// How long it counts for those who want this pool.
    fn life(&self, wanted: &str) -> Duration {
        let is_listed = self.pools.as_ref().is_some_and(|pools| pool_named(pools, wanted).is_some());
        match &self.error {
            None if is_listed => POOLS_LIFE,
            Some(error) if !error.may_pass() => RETRY_LATER,
            _ => RETRY_SOON,
        }
    }
}

/// The cluster and the node pool that the tags of a scale set name.
pub(super) fn named_by(set: &ScaleSet) -> Option<(AksCluster, &str)> {
    let (resource_group, name) = tags::aks_cluster(&set.tags)?;
    let cluster = AksCluster { resource_group: resource_group.to_owned(), name: name.to_owned() };
    Some((cluster, tags::aks_pool(&set.tags)?))
}

pub(super) fn pool_named<'a>(pools: &'a [AgentPool], name: &str) -> Option<&'a AgentPool> {
    pools.iter().find(|pool| pool.name.eq_ignore_ascii_case(name))
}

fn warning(pool: &str, cluster: &AksCluster, error: &CloudError) -> String {
    let AksCluster { resource_group, name } = cluster;
    let why = match error {
        CloudError::Denied(_) => format!(
            "grant Microsoft.ContainerService/managedClusters/agentPools/read for the resource group {resource_group}"
        ),
        error => format!(
            "the scale set's tags name the cluster {name} in the resource group {resource_group}, and reading it returned \
             {}",
            error.fault().code.as_deref().unwrap_or("an error without a code")
        ),
    };
    format!(
        "the node pool {pool} of AKS cannot be read; its labels, taints and pod limit do not reach the node template: {why}"
    )
}
