//! What is known about a connected client while its connection is open: the bytes it makes the process hold, the calls
//! under way, and whether it is within the time limits.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::Instant;

use super::budget::{Account, Budget, Charge};
use super::frames::FrameWatch;

/// A client that has not read a single byte of its responses for this long is gone or malicious.
const UNREAD_LIMIT: Duration = Duration::from_secs(20);

/// Most streams at a time on one connection: health checks and reflection. Real clients have one. A stream of reflection
/// that is not read holds 64 KiB: 5,760 of them took 360 MiB.
const STREAMS_MAX: usize = 4;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// It has not finished its TLS handshake or its preface, since then.
    Unfinished(Instant),
    /// It has not finished a call, since then.
    NeverServed(Instant),
    /// It has finished calls: how many, as a power of two, so that a few calls more make no difference; the last one
    /// then.
    Served(u32, Instant),
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct ClientState {
    address: Option<SocketAddr>,
    accepted: Instant,
    /// The frames that it sends; `None` until the TLS handshake is done.
    frames: Mutex<Option<FrameWatch>>,
    requests: Arc<Account>,
    responses: Arc<Account>,
    /// When the client last read part of a response, or when a response was written while none was unread.
    responses_moved: Mutex<Instant>,
    calls: AtomicUsize,
    streams: Arc<Semaphore>,
    finished: AtomicU64,
    served: Mutex<Option<Instant>>,
    is_closed: AtomicBool,
    closing: Notify,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct CallUnderWay(Arc<ClientState>);

/// Bytes of a response that the client has not read yet.
#[derive(Debug)]
pub(crate) struct Unread {
    client: Arc<ClientState>,
    _charge: Charge,
}

impl ClientState {
    /// A client that has just connected.
    pub(super) fn new(address: Option<SocketAddr>, requests: &Arc<Budget>, responses: &Arc<Budget>) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            address,
            accepted: now,
            frames: Mutex::new(None),
            requests: Account::new(requests),
            responses: Account::new(responses),
            responses_moved: Mutex::new(now),
            calls: AtomicUsize::new(0),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            finished: AtomicU64::new(0),
            served: Mutex::new(None),
            is_closed: AtomicBool::new(false),
            closing: Notify::new(),
        })
    }

    /// The address that it connected from.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The preface is expected from now on.
    pub(super) fn expect_preface(&self) {
        *locked(&self.frames) = Some(FrameWatch::new(Instant::now()));
    }

    /// Takes in bytes that the client has sent.
    pub(super) fn receive(&self, bytes: &[u8]) {
        if let Some(frames) = locked(&self.frames).as_mut() {
            frames.receive(bytes, Instant::now());
        }
    }

    /// Whether it has exceeded a time limit.
    pub(super) fn is_overdue(&self) -> bool {
        let now = Instant::now();
        let unfinished = locked(&self.frames).as_ref().is_some_and(|frames| frames.is_overdue(now));
        let unread =
            self.responses.held() > 0 && now.saturating_duration_since(*locked(&self.responses_moved)) > UNREAD_LIMIT;
        unfinished || unread
    }

    /// Holds bytes of a request; `None` if there is no room.
    pub(crate) fn hold_request(&self, bytes: usize) -> Option<Charge> {
        self.requests.charge(bytes)
    }

    /// Holds bytes of a response until the client has read them; `None` if too many are unread.
    pub(crate) fn hold_response(self: &Arc<Self>, bytes: usize) -> Option<Unread> {
        if self.responses.held() == 0 {
            *locked(&self.responses_moved) = Instant::now();
        }
        Some(Unread { client: Arc::clone(self), _charge: self.responses.charge(bytes)? })
    }

    /// How many bytes of responses it has not read.
    pub(super) fn unread(&self) -> usize {
        self.responses.held()
    }

    /// A place for one more stream, which is free again once it is dropped.
    ///
    /// # Errors
    ///
    /// If this connection has [`STREAMS_MAX`] streams already.
    pub(crate) fn place_for_stream(&self) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        Arc::clone(&self.streams).try_acquire_owned()
    }

    /// Notes that a call is under way.
    pub(crate) fn begin_call(self: &Arc<Self>) -> CallUnderWay {
        self.calls.fetch_add(1, Ordering::Relaxed);
        CallUnderWay(Arc::clone(self))
    }

    /// How many calls are under way.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// How far it has come; `None` while a call is under way.
    pub(super) fn progress(&self) -> Option<Progress> {
        if self.calls() > 0 {
            return None;
        }
        if let Some(served) = *locked(&self.served) {
            return Some(Progress::Served(self.finished.load(Ordering::Relaxed).max(1).ilog2(), served));
        }
        let has_preface = locked(&self.frames).as_ref().is_some_and(FrameWatch::has_preface);
        Some(if has_preface { Progress::NeverServed(self.accepted) } else { Progress::Unfinished(self.accepted) })
    }

    /// Whether it has finished a call.
    pub(super) fn was_served(&self) -> bool {
        locked(&self.served).is_some()
    }

    /// Ends the connection at once.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.closing.notify_one();
    }

    /// Whether the connection was ended.
    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Waits until the connection must end at once.
    pub(super) async fn closed(&self) {
        while !self.is_closed.load(Ordering::Relaxed) {
            self.closing.notified().await;
        }
    }
}

impl CallUnderWay {
    /// Notes that its response is ready.
    pub(super) fn finish(self) {
        *locked(&self.0.served) = Some(Instant::now());
        self.0.finished.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        *locked(&self.client.responses_moved) = Instant::now();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
