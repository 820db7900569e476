//! The ResourceSlices of nodes, as a watch keeps them up to date.
//!
//! They are read as plain JSON: a release of Kubernetes without `resource.k8s.io/v1` has none, and fields that are
//! new do not matter here.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::object_watch::{Kept, ObjectWatch};
use super::transport::Transport;
use super::{KubernetesError, Operation};
use crate::tasks::{TaskKind, Tasks};

/// What is kept at most: two slices for each node of the largest cluster, and bytes for 5,000 nodes with a GPU each.
const SLICES_MAX: usize = 20_000;
const BYTES_MAX: usize = 64 << 20;
/// A slice of 128 devices with all that Kubernetes allows is longer than this; one of 128 GPUs is not.
const SLICE_BYTES_MAX: usize = 256 << 10;

/// A ResourceSlice with the devices of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSlice {
    /// Its name.
    pub name: String,
    /// The node.
    pub node: String,
    /// Its `spec`, as JSON.
    pub spec: String,
}

/// A watch of the ResourceSlices of all nodes. It ends when this is dropped.
#[must_use = "the watch ends when this is dropped"]
pub struct ResourceSliceWatch(ObjectWatch<Slices>);

/// The slices of each node, by its name.
pub type SlicesByNode = BTreeMap<String, Vec<Arc<ResourceSlice>>>;

impl ResourceSliceWatch {
    pub(super) fn start(client: kube::Client, transport: Transport, tasks: &Tasks) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceSlice"));
        Self(ObjectWatch::start(Api::all_with(client, &resource), transport, tasks))
    }

    /// The slices of each node; `None` until they have been listed. Fails while they cannot be watched.
    pub fn by_node(&self) -> Result<Option<SlicesByNode>, Arc<KubernetesError>> {
        self.0.read(|slices| {
            let mut by_node = SlicesByNode::new();
            for slice in slices.by_name.values() {
                by_node.entry(slice.node.clone()).or_default().push(Arc::clone(slice));
            }
            by_node
        })
    }
}

/// The slices that are kept.
#[derive(Default)]
pub(super) struct Slices {
    by_name: BTreeMap<String, Arc<ResourceSlice>>,
    bytes: usize,
}

impl Kept for Slices {
    type Object = DynamicObject;

    const TASK: TaskKind = TaskKind::ResourceSliceWatch;
    const CALLS: [Operation; 2] = [Operation::ListResourceSlices, Operation::WatchResourceSlices];
    const PAGE_OBJECTS: u32 = 50;
    // Before Kubernetes 1.34, or with the API turned off, there are no slices.
    const IS_OPTIONAL: bool = true;

    fn watches_accepted(transport: &Transport) -> u64 {
        transport.slice_watches_accepted()
    }

    /// Keeps a slice of one node's devices. Another one is as good as removed.
    fn insert(&mut self, object: DynamicObject) -> bool {
        self.remove(&object);
        let Some(slice) = of_node(&object) else { return true };
        let has_room = self.by_name.len() < SLICES_MAX && self.bytes + slice.spec.len() <= BYTES_MAX;
        if has_room {
            self.bytes += slice.spec.len();
            self.by_name.insert(slice.name.clone(), Arc::new(slice));
        }
        has_room
    }

    fn remove(&mut self, object: &DynamicObject) {
        if let Some(slice) = self.by_name.remove(&name(object)) {
            self.bytes -= slice.spec.len();
        }
    }

    fn log_limit() {
        tracing::warn!(
            slices_max = SLICES_MAX,
            bytes_max = BYTES_MAX,
            "the cluster has more ResourceSlices than Headcount keeps; the rest of them are ignored"
        );
    }
}

fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// A slice of one node's devices; `None` if its devices are not those of one node, or it is too long.
fn of_node(object: &DynamicObject) -> Option<ResourceSlice> {
    let spec = object.data.get("spec")?;
    let node = spec.get("nodeName")?.as_str().filter(|node| !node.is_empty())?.to_owned();
    let spec = spec.to_string();
    (spec.len() <= SLICE_BYTES_MAX).then(|| ResourceSlice { name: name(object), node, spec })
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object_watch::State;

    fn object(name: &str, spec: serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn names(state: &State<Slices>) -> Vec<&str> {
        state.kept.by_name.keys().map(String::as_str).collect()
    }

    #[test]
    fn only_slices_of_one_node_are_kept() {
        let of_a = |name: &str| object(name, json!({"nodeName": "a", "devices": []}));
        let mut state = State::<Slices>::default();
        for event in
            [Event::Init, Event::InitApply(of_a("one")), Event::InitApply(object("all", json!({"allNodes": true})))]
        {
            state.apply(event);
        }
        assert!(names(&state).is_empty());
        state.apply(Event::InitDone);
        state.apply(Event::Apply(of_a("two")));
        state.apply(Event::Apply(object("long", json!({"nodeName": "a", "x": "x".repeat(SLICE_BYTES_MAX)}))));
        assert_eq!(names(&state), ["one", "two"]);
        state.apply(Event::Apply(object("one", json!({"allNodes": true}))));
        state.apply(Event::Delete(of_a("two")));
        assert!(names(&state).is_empty());
        assert_eq!(state.kept.bytes, 0);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut state = State::<Slices>::default();
        let slice =
            |number: usize| object(&format!("{number:04}"), json!({"nodeName": "a", "x": "x".repeat(200 << 10)}));
        for number in 0..400 {
            state.apply(Event::Apply(slice(number)));
        }
        assert!(state.is_over_limit && state.kept.bytes <= BYTES_MAX && state.kept.by_name.len() > 300);
    }
}
