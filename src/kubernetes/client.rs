//! The implementation of [`KubernetesApi`] on `kube::Client`.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap as ApiConfigMap, Node as ApiNode};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::json;

use super::cluster_config::{ClusterConfig, ClusterConfigError, Credentials, Identity};
use super::endpoint::Endpoint;
use super::node_watch::{NODES_MAX, NodeWatch};
use super::transport::Transport;
use super::{
    ConfigMap, KubernetesApi, KubernetesError, NAMESPACE_DEFAULT, Node, Operation, ResourceSliceWatch, Settings,
};
use crate::limits::{KUBERNETES_RESPONSE, NODE_LIST};
use crate::tasks::Tasks;

/// The one key of the ConfigMap that is Headcount's.
const KEY: &str = "learned.json";

/// Nodes in one page of a list. A page is in memory twice while it is decoded.
const NODES_PAGE: u32 = 250;
/// The most pages of a list.
const PAGES_MAX: usize = NODE_LIST.bytes / KUBERNETES_RESPONSE.bytes;

/// The API server of one cluster.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    client: kube::Client,
    namespace: String,
    config_map: String,
}

impl Client {
    /// A client, which needs a Tokio runtime. Fails if no configuration names the API server, or if it cannot be
    /// used. Does not call the API server, and runs no plugin.
    pub fn new(settings: Settings, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ClusterConfigError> {
        let Settings { kubeconfig, allow_exec, namespace, config_map } = settings;
        let cluster = ClusterConfig::find(kubeconfig, allow_exec, environment)?;
        let read = cluster.read()?;
        let identity = match &read.credentials {
            Credentials::Static(identity) => identity.clone(),
            Credentials::Exec(_) => Identity::default(),
        };
        Endpoint::new(&read, identity)?;
        let namespace = namespace.or_else(|| cluster.namespace()).unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned());
        let transport = Transport::new(cluster);
        let client = kube::Client::new(transport.clone(), namespace.clone());
        Ok(Self { transport, client, namespace, config_map })
    }

    /// For calls that are not part of [`KubernetesApi`].
    pub(super) fn kube(&self) -> kube::Client {
        self.client.clone()
    }

    fn nodes(&self) -> Api<ApiNode> {
        Api::all(self.client.clone())
    }

    /// The nodes of all pages.
    async fn all_nodes(&self) -> Result<Vec<Node>, KubernetesError> {
        let nodes = self.nodes();
        let (mut found, mut token) = (Vec::new(), None::<String>);
        // A page is never longer than one response, so the pages together have a limit of bytes, too.
        for _ in 0..PAGES_MAX {
            let mut parameters = ListParams::default().limit(NODES_PAGE);
            parameters.continue_token = token;
            let page = nodes.list(&parameters).await;
            let page = page.map_err(|error| KubernetesError::of_call(Operation::ListNodes, error))?;
            found.extend(page.items.into_iter().map(Node::from));
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(found);
            }
            if found.len() > NODES_MAX {
                break;
            }
        }
        Err(KubernetesError::too_long(Operation::ListNodes))
    }

    fn config_maps(&self) -> Api<ApiConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// The ConfigMap, or which call for it failed.
fn config_map(operation: Operation, outcome: Result<ApiConfigMap, kube::Error>) -> Result<ConfigMap, KubernetesError> {
    let found = outcome.map_err(|error| KubernetesError::of_call(operation, error))?;
    let text = found.data.and_then(|mut data| data.remove(KEY));
    Ok(ConfigMap { version: found.metadata.resource_version.unwrap_or_default(), text })
}

#[async_trait]
impl KubernetesApi for Client {
    fn watch_nodes(&self, tasks: &Tasks) -> NodeWatch {
        NodeWatch::start(self.nodes(), self.transport.clone(), tasks)
    }

    fn watch_resource_slices(&self, tasks: &Tasks) -> ResourceSliceWatch {
        ResourceSliceWatch::start(self.client.clone(), self.transport.clone(), tasks)
    }

    async fn list_nodes(&self) -> Result<Vec<Node>, KubernetesError> {
        let listing = tokio::time::timeout(NODE_LIST.time(), self.all_nodes()).await;
        listing.unwrap_or(Err(KubernetesError::Slow { operation: Operation::ListNodes, limit: NODE_LIST.time() }))
    }

    async fn check_nodes(&self) -> Result<(), KubernetesError> {
        let nodes = self.nodes();
        let listed = nodes.list_metadata(&ListParams::default().limit(1)).await;
        let listed = listed.map_err(|error| KubernetesError::of_call(Operation::ListNodes, error))?;
        let version = listed.metadata.resource_version.unwrap_or_default();
        let watched = nodes.watch_metadata(&WatchParams::default().timeout(1), &version).await;
        watched.map(drop).map_err(|error| KubernetesError::of_call(Operation::WatchNodes, error))
    }

    async fn get_config_map(&self) -> Result<Option<ConfigMap>, KubernetesError> {
        match config_map(Operation::GetConfigMap, self.config_maps().get(&self.config_map).await) {
            Err(error) if error.is_gone() => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    async fn create_config_map(&self, text: &str) -> Result<ConfigMap, KubernetesError> {
        let mut created = ApiConfigMap::default();
        created.metadata.name = Some(self.config_map.clone());
        created.metadata.labels = Some([("app.kubernetes.io/managed-by".to_owned(), "headcount".to_owned())].into());
        created.data = Some([(KEY.to_owned(), text.to_owned())].into());
        config_map(Operation::CreateConfigMap, self.config_maps().create(&PostParams::default(), &created).await)
    }

    /// A merge patch: other keys stay as they are, and the version makes the API server refuse it if another client
    /// wrote first.
    async fn patch_config_map(&self, version: &str, text: &str) -> Result<ConfigMap, KubernetesError> {
        let patch = json!({"metadata": {"resourceVersion": version}, "data": {KEY: text}});
        let patched = self.config_maps().patch(&self.config_map, &PatchParams::default(), &Patch::Merge(patch)).await;
        config_map(Operation::PatchConfigMap, patched)
    }
}
