//! Kubernetes Events about Headcount's own pod: failed launches, pauses and refused writes, for those who look at the
//! cluster and not at logs (autoscaler #8817).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event as ApiEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;

use super::client::Client;
use super::names::is_name;
use super::{KubernetesError, Operation};

/// What Headcount must be allowed to do with Events in its namespace.
pub const EVENT_VERBS: [&str; 1] = ["create"];

/// The most Events in [`WINDOW`]. More would push the Events of others out of etcd.
const EVENTS_MAX: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// The API server's limit.
const NOTE_BYTES_MAX: usize = 1024;

/// The pod that Events are about, from the downward API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Its name (`POD_NAME`).
    pub name: String,
    /// Its namespace (`POD_NAMESPACE`).
    pub namespace: String,
}

impl OwnPod {
    /// The pod that the environment names.
    pub fn find(environment: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let variable = |name| environment(name).filter(|value| is_name(value));
        Some(Self { name: variable("POD_NAME")?, namespace: variable("POD_NAMESPACE")? })
    }
}

/// Writes Events, ten a minute at most.
pub struct EventWriter {
    client: Client,
    pod: OwnPod,
    written: VecDeque<Instant>,
    number: AtomicU64,
}

impl EventWriter {
    /// Writes about this pod.
    pub fn new(client: Client, pod: OwnPod) -> Self {
        Self { client, pod, written: VecDeque::new(), number: AtomicU64::new(0) }
    }

    /// Whether there is room for another Event. If so, it counts as written.
    fn admit(&mut self) -> bool {
        while self.written.front().is_some_and(|written| written.elapsed() >= WINDOW) {
            self.written.pop_front();
        }
        if self.written.len() >= EVENTS_MAX {
            return false;
        }
        self.written.push_back(Instant::now());
        true
    }

    /// Writes a warning, unless there were too many in the last minute. Returns whether it was written.
    ///
    /// # Errors
    ///
    /// If the API server cannot be reached or does not permit it.
    pub async fn warn(&mut self, reason: &str, note: &str) -> Result<bool, KubernetesError> {
        if !self.admit() {
            return Ok(false);
        }
        let events: Api<ApiEvent> = Api::namespaced(self.client.kube(), &self.pod.namespace);
        let written = events.create(&PostParams::default(), &self.event(reason, note)).await;
        written.map(|_| true).map_err(|error| KubernetesError::of_call(Operation::CreateEvent, error))
    }

    fn event(&self, reason: &str, note: &str) -> ApiEvent {
        let OwnPod { name, namespace } = &self.pod;
        let now = Timestamp::now();
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        // Unique also after a restart within the same pod.
        let unique = format!("{name}.{:x}.{number}", now.as_millisecond());
        let cut = note
            .char_indices()
            .map(|(at, letter)| at + letter.len_utf8())
            .take_while(|end| *end <= NOTE_BYTES_MAX)
            .last();
        ApiEvent {
            metadata: ObjectMeta { name: Some(unique), namespace: Some(namespace.clone()), ..ObjectMeta::default() },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectReference::default()
            },
            type_: Some("Warning".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(note[..cut.unwrap_or(0)].to_owned()),
            source: Some(EventSource { component: Some("headcount".to_owned()), ..EventSource::default() }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..ApiEvent::default()
        }
    }
}
