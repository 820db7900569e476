//! The emulator's nodes: lists in pages, and the events of a watch since a version.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::emulators::http_messages::{HttpResponse, Request};

/// A node, as its kubelet reports it.
#[derive(Clone, Debug)]
pub(crate) struct MkNode {
    pub(crate) name: String,
    pub(crate) provider_id: String,
    pub(crate) instance_type: String,
    pub(crate) os: String,
    pub(crate) created: String,
    pub(crate) ready: bool,
    pub(crate) taints: Vec<&'static str>,
    pub(crate) capacity: BTreeMap<&'static str, String>,
    pub(crate) allocatable: BTreeMap<&'static str, String>,
}

/// A ready m5.large with this memory, 1 GiB of which it reserves.
pub(crate) fn mk_node(name: &str, provider_id: &str, memory_kib: u64) -> MkNode {
    let figures = |memory: u64, cpu: &str| {
        BTreeMap::from([("cpu", cpu.to_owned()), ("memory", format!("{memory}Ki")), ("pods", "29".to_owned())])
    };
    MkNode {
        name: name.to_owned(),
        provider_id: provider_id.to_owned(),
        instance_type: "m5.large".to_owned(),
        os: "Amazon Linux 2023".to_owned(),
        created: "2026-11-01T00:00:00Z".to_owned(),
        ready: true,
        taints: Vec::new(),
        capacity: figures(memory_kib, "2"),
        allocatable: figures(memory_kib - (1 << 20), "1930m"),
    }
}

impl MkNode {
    fn json(&self) -> Value {
        let status = if self.ready { "True" } else { "Unknown" };
        let system = json!({
            "osImage": self.os, "kernelVersion": "6.1.0", "kubeletVersion": "v1.36.0", "architecture": "amd64",
            "bootID": "b", "containerRuntimeVersion": "containerd://2.1.0", "kubeProxyVersion": "", "machineID": "m",
            "operatingSystem": "linux", "systemUUID": "s",
        });
        let taint = |key: &&str| json!({"key": key, "value": "1763780400", "effect": "NoSchedule"});
        let taints: Vec<Value> = self.taints.iter().map(taint).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "creationTimestamp": self.created,
                "labels": {"node.kubernetes.io/instance-type": self.instance_type, "kubernetes.io/os": "linux"},
                "managedFields": [{"manager": "kubelet", "operation": "Update"}],
            },
            "spec": {"providerID": self.provider_id, "taints": taints},
            "status": {
                "capacity": self.capacity,
                "allocatable": self.allocatable,
                "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": status}],
                "nodeInfo": system,
                "images": [{"names": ["registry.example/pause:3"], "sizeBytes": 1}],
            },
        })
    }
}

/// The nodes, and their events.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// By name, with their versions.
    nodes: BTreeMap<String, Value>,
    /// The version of the last change.
    version: u64,
    /// What changed, oldest first, by version.
    events: Vec<(u64, Value)>,
    /// A watch from before this version gets 410 Gone.
    oldest: u64,
}

impl Nodes {
    /// Makes these the nodes, and every difference an event.
    pub(super) fn set(&mut self, nodes: impl IntoIterator<Item = MkNode>) {
        let mut before = std::mem::take(&mut self.nodes);
        for node in nodes {
            let mut node_now = node.json();
            let node_before = before.remove(&node.name);
            let version = node_before.as_ref().map_or(Value::Null, |node| node["metadata"]["resourceVersion"].clone());
            node_now["metadata"]["resourceVersion"] = version;
            if node_before.as_ref() != Some(&node_now) {
                let kind = if node_before.is_some() { "MODIFIED" } else { "ADDED" };
                node_now = self.record(kind, node_now);
            }
            self.nodes.insert(node.name, node_now);
        }
        for node in before.into_values() {
            self.record("DELETED", node);
        }
    }

    fn record(&mut self, kind: &str, mut node: Value) -> Value {
        self.version += 1;
        node["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.events.push((self.version, json!({"type": kind, "object": node})));
        node
    }

    /// Forgets all events, as etcd's compaction does.
    pub(super) fn compact(&mut self) {
        self.version += 1;
        self.oldest = self.version;
        self.events.clear();
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Whether a watch can resume from this version.
    pub(super) fn has(&self, version: u64) -> bool {
        version >= self.oldest
    }

    /// The lines that a watch is sent after this version, and the version that it has seen then.
    pub(super) fn since(&self, version: u64) -> (Vec<Value>, u64) {
        if !self.has(version) {
            let message = format!("too old resource version: {version} ({})", self.oldest);
            let status =
                json!({"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": message});
            return (vec![json!({"type": "ERROR", "object": status})], self.version);
        }
        let events = self.events.iter().filter(|(at, _)| *at > version).map(|(_, event)| event.clone());
        let metadata = json!({"resourceVersion": self.version.to_string()});
        let bookmark = json!({"kind": "Node", "apiVersion": "v1", "metadata": metadata});
        let bookmark = json!({"type": "BOOKMARK", "object": bookmark});
        (events.chain([bookmark]).collect(), self.version)
    }

    /// A page of a list.
    pub(super) fn list(&self, request: &Request) -> HttpResponse {
        let number = |name: &str| request.parameter(name).and_then(|text| text.parse::<usize>().ok());
        let from = request.parameter("continue").map_or(0, |token| {
            token.strip_prefix("from+/=").and_then(|from| from.parse().ok()).expect("a token of this server's")
        });
        let to = (from + number("limit").unwrap_or(usize::MAX - from)).min(self.nodes.len());
        let items: Vec<&Value> = self.nodes.values().skip(from).take(to - from).collect();
        let next = if to < self.nodes.len() { format!("from+/={to}") } else { String::new() };
        let metadata = json!({"continue": next, "resourceVersion": self.version.to_string()});
        HttpResponse::json(200, &json!({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items}))
    }
}
