//! The ResourceSlices of nodes, as a watch keeps them up to date.
//!
//! They are read as plain JSON: a release of Kubernetes without `resource.k8s.io/v1` has none, and fields that are
//! new do not matter here.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::transport::Transport;
use super::watch_failure::WatchFailure;
use super::{KubernetesError, Operation};
use crate::tasks::{TaskKind, Tasks};

/// What is kept at most: two slices for each node of the largest cluster, and bytes for 5,000 nodes with a GPU each.
const SLICES_MAX: usize = 20_000;
const BYTES_MAX: usize = 64 << 20;
/// A slice of 128 devices with all that Kubernetes allows is longer than this; one of 128 GPUs is not.
const SLICE_BYTES_MAX: usize = 256 << 10;
/// Slices in a page of a list.
const PAGE_SLICES: u32 = 50;
/// How long to wait before slices are listed again because a watch cannot be resumed.
const RELIST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such wait, where no watch that is started lasts.
const RELIST_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long to wait where the API server has no such resource.
const ABSENT_PAUSE: Duration = Duration::from_secs(10 * 60);

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
pub struct ResourceSliceWatch {
    state: watch::Receiver<State>,
    transport: Transport,
    task: JoinHandle<()>,
}

impl Drop for ResourceSliceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The slices of each node, by its name.
pub type SlicesByNode = BTreeMap<String, Vec<Arc<ResourceSlice>>>;

/// What a watch knows.
#[derive(Default)]
struct State {
    slices: Slices,
    /// What a list that is being read has shown so far. It replaces the slices when it is complete.
    listing: Slices,
    is_listed: bool,
    is_over_limit: bool,
    failure: Option<WatchFailure>,
}

#[derive(Default)]
struct Slices {
    by_name: BTreeMap<String, Arc<ResourceSlice>>,
    bytes: usize,
}

impl Slices {
    /// Keeps a slice, unless there are too many. Returns whether it did.
    fn insert(&mut self, slice: ResourceSlice) -> bool {
        self.remove(&slice.name);
        let has_room = self.by_name.len() < SLICES_MAX && self.bytes + slice.spec.len() <= BYTES_MAX;
        if has_room {
            self.bytes += slice.spec.len();
            self.by_name.insert(slice.name.clone(), Arc::new(slice));
        }
        has_room
    }

    fn remove(&mut self, name: &str) {
        if let Some(slice) = self.by_name.remove(name) {
            self.bytes -= slice.spec.len();
        }
    }
}

impl ResourceSliceWatch {
    pub(super) fn start(client: kube::Client, transport: Transport, tasks: &Tasks) -> Self {
        let (sender, state) = watch::channel(State::default());
        let (sender, shared) = (Arc::new(sender), transport.clone());
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceSlice"));
        let slices = Api::all_with(client, &resource);
        let task = tasks.spawn(TaskKind::ResourceSliceWatch, "", move || {
            follow(slices.clone(), shared.clone(), Arc::clone(&sender))
        });
        Self { state, transport, task }
    }

    /// The slices of each node; `None` until they have been listed. Fails while they cannot be watched.
    pub fn by_node(&self) -> Result<Option<SlicesByNode>, Arc<KubernetesError>> {
        let (state, accepted) = (self.state.borrow(), self.transport.slice_watches_accepted());
        if let Some(error) = state.failure.as_ref().and_then(|failure| failure.lasting(accepted)) {
            return Err(error);
        }
        if !state.is_listed {
            return Ok(None);
        }
        let mut by_node = SlicesByNode::new();
        for slice in state.slices.by_name.values() {
            by_node.entry(slice.node.clone()).or_default().push(Arc::clone(slice));
        }
        Ok(Some(by_node))
    }
}

impl State {
    fn apply(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.listing = Slices::default(),
            Event::InitApply(object) => {
                if let Some(slice) = of_node(&object) {
                    self.is_over_limit |= !self.listing.insert(slice);
                }
            }
            Event::InitDone => {
                self.slices = std::mem::take(&mut self.listing);
                self.is_listed = true;
                self.failure = None;
            }
            Event::Apply(object) => {
                match of_node(&object) {
                    Some(slice) => self.is_over_limit |= !self.slices.insert(slice),
                    None => self.slices.remove(&name(&object)),
                }
                self.failure = None;
            }
            Event::Delete(object) => {
                self.slices.remove(&name(&object));
                self.failure = None;
            }
        }
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

async fn follow(slices: Api<DynamicObject>, transport: Transport, state: Arc<watch::Sender<State>>) {
    let mut next_pause = RELIST_PAUSE;
    loop {
        let config = watcher::Config::default().page_size(PAGE_SLICES);
        let mut events = pin!(watcher(slices.clone(), config).default_backoff());
        let mut pause = next_pause;
        next_pause = (next_pause * 2).min(RELIST_PAUSE_MAX);
        while let Some(event) = events.next().await {
            let watches_accepted = transport.slice_watches_accepted();
            match event.map_err(|error| {
                KubernetesError::of_watch(Operation::ListResourceSlices, Operation::WatchResourceSlices, error)
            }) {
                Ok(event) => {
                    if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                        (pause, next_pause) = (RELIST_PAUSE, 2 * RELIST_PAUSE);
                    }
                    apply(&state, event);
                }
                Err(error) if error.is_expired() => break,
                // Before Kubernetes 1.34, or with the API turned off: there are no slices.
                Err(error) if error.is_gone() => {
                    state.send_modify(|state| *state = State { is_listed: true, ..State::default() });
                    pause = ABSENT_PAUSE;
                    break;
                }
                Err(error) => {
                    let failure = WatchFailure::new(error, watches_accepted);
                    state.send_modify(|state| state.failure = Some(failure));
                }
            }
        }
        sleep(pause).await;
    }
}

fn apply(state: &watch::Sender<State>, event: Event<DynamicObject>) {
    let mut is_first_over_limit = false;
    state.send_modify(|state| {
        let before = state.is_over_limit;
        state.apply(event);
        is_first_over_limit = state.is_over_limit && !before;
    });
    if is_first_over_limit {
        tracing::warn!(
            slices_max = SLICES_MAX,
            bytes_max = BYTES_MAX,
            "the cluster has more ResourceSlices than Headcount keeps; the rest of them are ignored"
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, spec: serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn names(state: &State) -> Vec<&str> {
        state.slices.by_name.keys().map(String::as_str).collect()
    }

    #[test]
    fn only_slices_of_one_node_are_kept() {
        let of_a = |name: &str| object(name, json!({"nodeName": "a", "devices": []}));
        let mut state = State::default();
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
        assert_eq!(state.slices.bytes, 0);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut state = State::default();
        let slice =
            |number: usize| object(&format!("{number:04}"), json!({"nodeName": "a", "x": "x".repeat(200 << 10)}));
        for number in 0..400 {
            state.apply(Event::Apply(slice(number)));
        }
        assert!(state.is_over_limit && state.slices.bytes <= BYTES_MAX && state.slices.by_name.len() > 300);
    }
}
