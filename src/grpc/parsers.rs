//! The parsers of what clients of the gRPC port send, and of the files of its TLS, each as a function of any bytes.

use prost::Message as _;

use super::dialect::Dialect;
use super::message::{HEAD_BYTES, MessageLimit};
use super::{METHODS, proto, tls};

/// Decodes requests of the Cluster Autoscaler.
pub fn requests(bytes: &[u8]) {
    let _delete = proto::NodeGroupDeleteNodesRequest::decode(bytes);
    let _node = proto::NodeGroupForNodeRequest::decode(bytes);
    let _increase = proto::NodeGroupIncreaseSizeRequest::decode(bytes);
    let _price = proto::PricingPodPriceRequest::decode(bytes);
    if let Ok(options) = proto::NodeGroupAutoscalingOptionsRequest::decode(bytes) {
        let _dialect = Dialect::of(options.defaults.as_ref());
    }
}

/// Weighs a message before it is decoded, for every call.
///
/// # Panics
///
/// If a message decodes to more than its weight.
pub fn weights(bytes: &[u8]) {
    for method in METHODS {
        let limit = MessageLimit::of(method);
        let _refused = limit.announces_too_much(bytes);
        let Some(weight) = limit.weigh(bytes) else { continue };
        let message = bytes.get(HEAD_BYTES..).unwrap_or_default();
        let nodes = match method {
            "NodeGroupDeleteNodes" => {
                proto::NodeGroupDeleteNodesRequest::decode(message).map(|call| call.nodes).unwrap_or_default()
            }
            "NodeGroupForNode" => {
                let call = proto::NodeGroupForNodeRequest::decode(message).unwrap_or_default();
                call.node.into_iter().collect()
            }
            _ => continue,
        };
        let decoded: usize = nodes.iter().map(bytes_of).sum();
        assert!(decoded <= weight, "{method}: {decoded} bytes, weighed {weight}");
    }
}

/// The memory that a node takes at least.
fn bytes_of(node: &proto::ExternalGrpcNode) -> usize {
    let entries = node.labels.iter().chain(&node.annotations);
    let entries = entries.map(|(key, value)| 2 * size_of::<String>() + key.len() + value.len());
    size_of::<proto::ExternalGrpcNode>() + node.name.len() + node.provider_id.len() + entries.sum::<usize>()
}

/// Reads a certificate, a key and a client CA.
pub fn tls_files(bytes: &[u8]) {
    tls::parse(bytes);
}
