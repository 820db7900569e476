//! The parsers of what the Kubernetes API, its configuration and its plugins send, each as a function of any bytes.

use std::convert::Infallible;
use std::path::Path;

use futures_util::FutureExt as _;
use futures_util::stream::iter;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node as ApiNode};
use kube::core::{ObjectList, Status, WatchEvent};
use serde::de::DeserializeOwned;

use super::exec::parse_plugin_output;
use super::watch_lines::WatchLines;
use super::{AutoscalerContainer, Node, kubeconfig, parse_flags};
use crate::limits::{WATCH_LINE, read_body};

/// The bytes of a watch that arrive at once.
const FRAME_BYTES: usize = 7;

/// Reads a kubeconfig.
pub fn kubeconfig(bytes: &[u8]) {
    let _usable = kubeconfig::parse(&String::from_utf8_lossy(bytes), Path::new("/nonexistent/kubeconfig"), true);
}

/// Reads a manifest of the Cluster Autoscaler, and its flags.
pub fn manifest(bytes: &[u8]) {
    let found = AutoscalerContainer::from_manifest(&String::from_utf8_lossy(bytes));
    let _flags = found.ok().flatten().map(|container| parse_flags(&container.arguments));
}

/// Reads what an exec plugin prints.
pub fn plugin_output(bytes: &[u8]) {
    let _usable = parse_plugin_output(bytes);
}

/// Reads responses of the API server: nodes, Deployments, ConfigMaps and errors.
pub fn response(bytes: &[u8]) {
    let nodes = read::<ObjectList<ApiNode>>(bytes).map(|list| list.items);
    let _nodes: Vec<Node> = nodes.into_iter().flatten().map(Node::from).collect();
    let _others = (read::<ObjectList<Deployment>>(bytes), read::<ConfigMap>(bytes), read::<Status>(bytes));
}

/// Reads a watch of nodes.
pub fn watch(bytes: &[u8]) {
    let frames = bytes.chunks(FRAME_BYTES).map(|part| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(part))));
    let lines = read_body(WatchLines::new(StreamBody::new(iter(frames))), WATCH_LINE).now_or_never();
    let Some(Ok(lines)) = lines else { return };
    for line in lines.split(|byte| *byte == b'\n') {
        if let Some(WatchEvent::Added(node) | WatchEvent::Modified(node) | WatchEvent::Deleted(node)) =
            read::<WatchEvent<ApiNode>>(line)
        {
            let _node = Node::from(node);
        }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
