//! The score of the Cluster Autoscaler's price expander (expander/price/price.go): the option with the lowest score
//! wins.

use k8s_pb::api::core::v1 as pb;
use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use prost::Message as _;

use super::{HOUR, node, node_price, pod_price};
use crate::peers::headcount::Client;

/// The cores of the node that CA prefers by default.
const PREFERRED_CORES: f64 = 4.0;
/// What CA uses as the unfitness of nodes with GPUs.
const GPU_UNFITNESS: f64 = 1000.0;

/// A pod with one container, in bytes.
pub(super) fn pod(cpu: &str, memory: &str) -> Vec<u8> {
    let requests = [("cpu", cpu), ("memory", memory)]
        .map(|(name, text)| (name.to_owned(), Quantity { string: Some(text.to_owned()) }));
    let resources = pb::ResourceRequirements { requests: requests.into(), ..Default::default() };
    let container = pb::Container { resources: Some(resources), ..Default::default() };
    let spec = pb::PodSpec { containers: vec![container], ..Default::default() };
    pb::Pod { spec: Some(spec), ..Default::default() }.encode_to_vec()
}

pub(super) struct Expander;

impl Expander {
    /// The score of growing a group by this many nodes for this many pods.
    pub(super) async fn score(client: &mut Client, group: &str, nodes: u32, pods: u32) -> f64 {
        let stabilization = pod_price(client, pod("500m", "500Mi"), HOUR).await.expect("a price");
        let template = client.template(group).await.expect("a template");
        let template = pb::Node::decode(template.node_info).expect("a node");
        let labels = template.metadata.unwrap_or_default().labels;
        let labels: Vec<_> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let named = node(&format!("template-node-for-{group}-8674665223082153551"), &labels);
        let node_price = f64::from(nodes) * node_price(client, Some(named), HOUR).await.expect("a price");
        let pod_price = f64::from(pods) * pod_price(client, pod("300m", "1Gi"), HOUR).await.expect("a price");
        let spent = (node_price + stabilization) / (pod_price + stabilization);

        let capacity = template.status.unwrap_or_default().capacity;
        let cores: f64 = capacity["cpu"].string.as_deref().and_then(|text| text.parse().ok()).expect("whole cores");
        let unfitness = (PREFERRED_CORES / cores).max(cores / PREFERRED_CORES);
        let has_gpu = capacity.contains_key("nvidia.com/gpu");
        let suppressed = (unfitness - 1.0) * (1.0 - (f64::from(nodes - 1) / 15.0).tanh()) + 1.0;
        spent * if has_gpu { GPU_UNFITNESS } else { suppressed }
    }
}
