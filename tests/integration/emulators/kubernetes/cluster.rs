//! The contents of the emulator: ConfigMaps and Deployments, and the responses about them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Guard;
use super::nodes::Nodes;
use super::resource_slices::ResourceSlices;
use crate::emulators::http_messages::{HttpResponse, Request};

/// The contents of the server, and the requests it received.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: Nodes,
    /// Whether requests for ConfigMaps get no response for now.
    pub(super) config_maps_held: bool,
    /// By namespace and name.
    pub(super) config_maps: BTreeMap<(String, String), Value>,
    pub(super) resource_slices: ResourceSlices,
    /// Namespaces and Deployments.
    pub(super) deployments: Vec<(String, Value)>,
    /// Counts versions.
    pub(super) version: u64,
    pub(super) token: String,
    pub(super) down: bool,
    /// Whether nobody may read the nodes.
    pub(super) nodes_forbidden: bool,
    /// How often all watches were ended.
    pub(super) watches_ended: u64,
    /// The version up to which a watch has been sent everything.
    pub(super) delivered: u64,
    pub(super) requests: Vec<Request>,
}

impl Cluster {
    /// The response to a request that is not accepted.
    pub(super) fn refusal(&self, request: &Request, guard: Guard) -> Option<HttpResponse> {
        if self.down {
            return Some(refused(503, "the server is currently unable to handle the request"));
        }
        if self.nodes_forbidden && request.path == "/api/v1/nodes" {
            return Some(refused(403, "nodes is forbidden"));
        }
        let authorization = request.header("authorization");
        let is_unknown = guard == Guard::Token && authorization != Some(&format!("Bearer {}", self.token));
        is_unknown.then(|| refused(401, "Unauthorized"))
    }

    /// The response to any other request but a watch.
    pub(super) fn response(&mut self, request: &Request) -> HttpResponse {
        let segments: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["api", "v1", "nodes"]) => self.nodes.list(request),
            ("GET", ["apis", "resource.k8s.io", "v1", "resourceslices"]) => self.resource_slices.list(),
            ("GET", ["api", "v1", "namespaces", namespace, "configmaps", name]) => {
                match self.config_maps.get(&((*namespace).to_owned(), (*name).to_owned())) {
                    Some(found) => HttpResponse::json(200, found),
                    None => refused(404, "configmaps not found"),
                }
            }
            ("GET", ["apis", "apps", "v1", "namespaces", namespace, "deployments"]) => {
                let here = self.deployments.iter().filter(|(other, _)| other == namespace);
                let items: Vec<&Value> = here.map(|(_, deployment)| deployment).collect();
                HttpResponse::json(200, &json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
            ("POST", ["api", "v1", "namespaces", _, "events"]) => HttpResponse::json(201, &request.json()),
            ("POST", ["api", "v1", "namespaces", namespace, "configmaps"]) => self.create(namespace, request.json()),
            ("PATCH", ["api", "v1", "namespaces", namespace, "configmaps", name])
                if request.header("content-type") == Some("application/merge-patch+json") =>
            {
                self.patch(((*namespace).to_owned(), (*name).to_owned()), &request.json())
            }
            _ => refused(403, "forbidden"),
        }
    }

    fn create(&mut self, namespace: &str, mut map: Value) -> HttpResponse {
        let name = map["metadata"]["name"].as_str().expect("a name").to_owned();
        let key = (namespace.to_owned(), name);
        if self.config_maps.contains_key(&key) {
            return refused(409, "already exists");
        }
        self.version += 1;
        map["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.config_maps.insert(key, map.clone());
        HttpResponse::json(201, &map)
    }

    fn patch(&mut self, key: (String, String), patch: &Value) -> HttpResponse {
        self.version += 1;
        let Some(found) = self.config_maps.get_mut(&key) else { return refused(404, "configmaps not found") };
        let wanted = &patch["metadata"]["resourceVersion"];
        if *wanted != Value::Null && *wanted != found["metadata"]["resourceVersion"] {
            return refused(409, "the object has been modified");
        }
        for (name, text) in patch["data"].as_object().expect("data") {
            found["data"][name] = text.clone();
        }
        found["metadata"]["resourceVersion"] = self.version.to_string().into();
        HttpResponse::json(200, found)
    }
}

fn refused(status: u16, message: &str) -> HttpResponse {
    HttpResponse::json(status, &json!({"kind": "Status", "status": "Failure", "message": message, "code": status}))
}
