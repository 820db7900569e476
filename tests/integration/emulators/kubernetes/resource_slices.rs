//! The emulator's ResourceSlices. A watch only says that they have changed.

use serde_json::{Value, json};

use crate::emulators::http_messages::HttpResponse;

/// Where they are.
pub(super) const PATH: &str = "/apis/resource.k8s.io/v1/resourceslices";

/// What a watch is sent once its version is too old.
pub(super) const EXPIRED: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\
     \"reason\":\"Expired\",\"code\":410,\"message\":\"too old resource version\"}}\n";

/// The slices, if the API exists.
#[derive(Debug)]
pub(super) struct ResourceSlices {
    slices: Option<Vec<Value>>,
    version: u64,
}

impl Default for ResourceSlices {
    fn default() -> Self {
        Self { slices: Some(Vec::new()), version: 1 }
    }
}

impl ResourceSlices {
    pub(super) fn set(&mut self, slices: Option<Vec<(&str, Value)>>) {
        self.version += 1;
        let object = |(name, spec): (&str, Value)| {
            let kind = ("resource.k8s.io/v1", "ResourceSlice");
            json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name, "resourceVersion": "1"}, "spec": spec})
        };
        self.slices = slices.map(|slices| slices.into_iter().map(object).collect());
    }

    pub(super) fn exist(&self) -> bool {
        self.slices.is_some()
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn list(&self) -> HttpResponse {
        let Some(items) = &self.slices else {
            let status = json!({"kind": "Status", "status": "Failure", "message": "page not found", "code": 404});
            return HttpResponse::json(404, &status);
        };
        let metadata = json!({"resourceVersion": self.version.to_string()});
        let kind = ("resource.k8s.io/v1", "ResourceSliceList");
        HttpResponse::json(200, &json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "items": items}))
    }
}
