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

/// The Events that were written in the last [`WINDOW`].
#[derive(Default)]
struct Recent(VecDeque<Instant>);

impl Recent {
    /// Whether there is room for another Event. If so, it counts as written.
    fn admit(&mut self) -> bool {
        while self.0.front().is_some_and(|written| written.elapsed() >= WINDOW) {
            self.0.pop_front();
        }
        if self.0.len() >= EVENTS_MAX {
            return false;
        }
        self.0.push_back(Instant::now());
        true
    }
}

/// Writes Events, ten a minute at most.
pub struct EventWriter {
    client: Client,
    pod: OwnPod,
    recent: Recent,
    number: AtomicU64,
}

impl EventWriter {
    /// Writes about this pod.
    pub fn new(client: Client, pod: OwnPod) -> Self {
        Self { client, pod, recent: Recent::default(), number: AtomicU64::new(0) }
    }

    /// Writes a warning, unless there were too many in the last minute. Returns whether it was written.
    ///
    /// # Errors
    ///
    /// If the API server cannot be reached or does not permit it.
    pub async fn warn(&mut self, reason: &str, note: &str) -> Result<bool, KubernetesError> {
        if !self.recent.admit() {
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

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_than_ten_events_are_written_in_any_minute() {
        let mut recent = Recent::default();
        for number in 0..EVENTS_MAX {
            assert!(recent.admit(), "{number}");
            advance(Duration::from_secs(1)).await;
        }
        assert!(!recent.admit());
        advance(WINDOW - Duration::from_secs(11)).await;
        assert!(!recent.admit(), "the first one is 59 s old");
        advance(Duration::from_secs(1)).await;
        assert!(recent.admit() && !recent.admit(), "one left the window, and one took its place");
        advance(10 * WINDOW).await;
        assert_eq!((0..2 * EVENTS_MAX).filter(|_| recent.admit()).count(), EVENTS_MAX, "a pause earns no more");
    }
}
