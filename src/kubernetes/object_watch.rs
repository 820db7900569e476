//! A watch of all objects of one kind.
//!
//! `kube`'s watcher lists the objects page by page, watches from there on, resumes where a connection ended, and lists
//! again where the API server no longer has the version to resume from.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::transport::Transport;
use super::watch_failure::WatchFailure;
use super::{KubernetesError, Operation};
use crate::tasks::{TaskKind, Tasks};

/// How long to wait before objects are listed again because a watch cannot be resumed.
const RELIST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such wait, where no watch that is started lasts.
const RELIST_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long to wait where the API server has no such resource.
const ABSENT_PAUSE: Duration = Duration::from_secs(10 * 60);

/// What is kept of the objects of one kind.
pub(super) trait Kept: Default + Send + Sync + 'static {
    /// The object as the API server sends it.
    type Object: Clone + Debug + DeserializeOwned + Send + Sync + 'static;

    /// The task that watches.
    const TASK: TaskKind;
    /// The call that lists, and the one that watches.
    const CALLS: [Operation; 2];
    /// The objects in a page of a list. A page is decoded at once.
    const PAGE_OBJECTS: u32;
    /// Whether some API servers have no such objects.
    const IS_OPTIONAL: bool;

    /// How many watches of this kind the API server has accepted.
    fn watches_accepted(transport: &Transport) -> u64;

    /// Keeps an object, unless there are too many. Returns whether there was room.
    fn insert(&mut self, object: Self::Object) -> bool;

    fn remove(&mut self, object: &Self::Object);

    /// Logs that objects are ignored because there are too many.
    fn log_limit();
}

/// A watch of all objects of one kind. It ends when this is dropped.
pub(super) struct ObjectWatch<K: Kept> {
    state: watch::Receiver<State<K>>,
    transport: Transport,
    task: JoinHandle<()>,
}

impl<K: Kept> Drop for ObjectWatch<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a watch knows.
#[derive(Default)]
pub(super) struct State<K> {
    pub(super) kept: K,
    /// What a list that is being read has shown so far. It replaces what is kept when it is complete.
    listing: K,
    is_listed: bool,
    pub(super) is_over_limit: bool,
    failure: Option<WatchFailure>,
}

impl<K: Kept> ObjectWatch<K> {
    pub(super) fn start(objects: Api<K::Object>, transport: Transport, tasks: &Tasks) -> Self
    where
        K::Object: kube::Resource,
    {
        let (sender, state) = watch::channel(State::default());
        let (sender, shared) = (Arc::new(sender), transport.clone());
        // A new watcher starts with a list, so it needs no state of the previous one.
        let task = tasks.spawn(K::TASK, "", move || follow(objects.clone(), shared.clone(), Arc::clone(&sender)));
        Self { state, transport, task }
    }

    /// Waits until all objects have been listed once, or could not be.
    pub(super) async fn settled(&mut self) {
        // The task ends only when this value is dropped.
        let _ended = self.state.wait_for(|state| state.is_listed || state.failure.is_some()).await;
    }

    /// Waits until something has changed since the last call.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // The watch has ended, and nothing changes any more.
            std::future::pending::<()>().await;
        }
    }

    /// Reads what is kept; `None` until all objects have been listed. Fails while they cannot be watched.
    pub(super) fn read<T>(&self, of: impl FnOnce(&K) -> T) -> Result<Option<T>, Arc<KubernetesError>> {
        let (state, accepted) = (self.state.borrow(), K::watches_accepted(&self.transport));
        match state.failure.as_ref().and_then(|failure| failure.lasting(accepted)) {
            Some(error) => Err(error),
            None => Ok(state.is_listed.then(|| of(&state.kept))),
        }
    }
}

impl<K: Kept> State<K> {
    pub(super) fn apply(&mut self, event: Event<K::Object>) {
        match event {
            Event::Init => self.listing = K::default(),
            Event::InitApply(object) => self.is_over_limit |= !self.listing.insert(object),
            Event::InitDone => {
                self.kept = std::mem::take(&mut self.listing);
                self.is_listed = true;
                self.failure = None;
            }
            Event::Apply(object) => {
                self.is_over_limit |= !self.kept.insert(object);
                self.failure = None;
            }
            Event::Delete(object) => {
                self.kept.remove(&object);
                self.failure = None;
            }
        }
    }
}

async fn follow<K: Kept>(objects: Api<K::Object>, transport: Transport, state: Arc<watch::Sender<State<K>>>)
where
    K::Object: kube::Resource,
{
    let [list, watch] = K::CALLS;
    let mut relist_pause = RELIST_PAUSE;
    loop {
        let config = watcher::Config::default().page_size(K::PAGE_OBJECTS);
        let mut events = pin!(watcher(objects.clone(), config).default_backoff());
        let mut pause = relist_pause;
        while let Some(event) = events.next().await {
            let watches_accepted = K::watches_accepted(&transport);
            match event.map_err(|error| KubernetesError::of_watch(list, watch, error)) {
                Ok(event) => {
                    if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                        (pause, relist_pause) = (RELIST_PAUSE, RELIST_PAUSE);
                    }
                    apply(&state, event);
                }
                // Not a failure: a new watcher starts with a list. kube's own would retry forever where the API server
                // refuses to start a watch with this.
                Err(error) if error.is_expired() => break,
                Err(error) if K::IS_OPTIONAL && error.is_gone() => {
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
        relist_pause = (relist_pause * 2).min(RELIST_PAUSE_MAX);
    }
}

fn apply<K: Kept>(state: &watch::Sender<State<K>>, event: Event<K::Object>) {
    let mut is_first_over_limit = false;
    state.send_modify(|state| {
        let before = state.is_over_limit;
        state.apply(event);
        is_first_over_limit = state.is_over_limit && !before;
    });
    if is_first_over_limit {
        K::log_limit();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::task::{Context, Poll};

    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::sync::mpsc;
    use tokio::time::Instant;
    use tower_service::Service;

    use super::*;
    use crate::kubernetes::ClusterConfig;
    use crate::kubernetes::node_watch::Nodes;

    /// An API server without nodes, in which the version that a watch starts from is always too old.
    struct Compacted {
        listed: mpsc::UnboundedSender<Instant>,
        watches: usize,
        /// The watch that shows a node before it ends.
        lasting: usize,
    }

    impl Service<Request<Body>> for Compacted {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let text = if is_watch {
                self.watches += 1;
                let node = json!({"type": "ADDED", "object": {"kind": "Node", "apiVersion": "v1",
                    "metadata": {"name": "a", "resourceVersion": "2"}}});
                let end = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "code": 410, "reason": "Expired", "message": "too old resource version"}});
                if self.watches == self.lasting { format!("{node}\n{end}\n") } else { format!("{end}\n") }
            } else {
                self.listed.send(Instant::now()).expect("the test listens");
                json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
                    .to_string()
            };
            ready(Ok(Response::new(Full::from(text))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_cannot_be_resumed_lists_ever_more_slowly_until_one_lasts() {
        let (listed, mut lists) = mpsc::unbounded_channel();
        let client = kube::Client::new(Compacted { listed, watches: 0, lasting: 9 }, "default");
        let nowhere = ClusterConfig::Kubeconfig { path: "none".into(), allow_exec: false };
        let watch = ObjectWatch::<Nodes>::start(Api::all(client), Transport::new(nowhere), &Tasks::default());
        let (mut last, mut pauses) = (lists.recv().await.expect("the first list"), Vec::new());
        while pauses.len() < 11 {
            let next = lists.recv().await.expect("another list");
            pauses.push((next - last).as_secs());
            last = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 1, 2, 4]);
        assert!(watch.read(|_| ()).is_ok_and(|read| read.is_some()), "a watch that expires is no failure");
    }
}
