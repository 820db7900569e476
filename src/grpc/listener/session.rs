//! One connection, from the handshake to its end.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tracing::debug;

use super::Port;
use super::admission::{Admitted, admit};
use super::client::ClientState;
use super::connection::Connection;
use super::exchange;
use super::places::Place;
use super::socket::Socket;

/// CA sends no keepalives. Without ours, each of its calls on a half-open connection would wait for its whole deadline.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
/// A connection that does not acknowledge a keepalive within this time is closed.
const KEEPALIVE_LIMIT: Duration = Duration::from_secs(10);
/// CA keeps one connection open forever, and sees renewed certificates only on a new one.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(60 * 60);
/// The most concurrent calls on one connection. CA makes a few dozen at most.
const CALLS_MAX: u32 = 100;
/// The most bytes of a request's head. Those of CA have a few hundred. They do not count as bytes that a client holds.
const HEAD_BYTES_MAX: u32 = 8 * 1024;
/// The most bytes of one stream, and of a connection, that a client may send before they are received. They do not count
/// as bytes that it holds: with the library's default of 1 MiB, 240 connections took 500 MiB.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 128 * 1024;
/// The most bytes of one stream that wait for the client to read, however far it opens its window.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// A connection that must end and has no call under way is closed after this time. Clients close it themselves within
/// milliseconds.
const END_LIMIT: Duration = Duration::from_secs(5);
/// A connection that must end is closed after this time in any case. Calls take 5 s.
const LAST_CALL_LIMIT: Duration = Duration::from_secs(30);
/// How often the time limits of a connection are checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A connection in its place.
pub(super) struct Session {
    pub(super) port: Arc<Port>,
    pub(super) client: Arc<ClientState>,
    pub(super) place: Place,
}

impl Session {
    /// Serves the connection until its end.
    pub(super) async fn run(self, socket: Socket) {
        let Self { port, client, place } = self;
        let mut stopping = port.stopping.clone();
        // Files that are reloaded during the handshake may no longer verify the certificate that it began with.
        let mut reloads = port.tls.as_ref().map(|tls| tls.reloads());
        let admitted = tokio::select! {
            admitted = admit(socket, port.tls.as_deref(), &port.handshakes, &port.refusals) => admitted,
            () = client.closed() => None,
            _ = stopping.wait_for(|stopping| *stopping) => None,
        };
        let Some(Admitted { transport, peer, certificates }) = admitted else { return };
        client.expect_preface();
        let connection = Connection { transport, client: Arc::clone(&client) };
        let service = {
            let (port, client) = (Arc::clone(&port), Arc::clone(&client));
            service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(peer.clone());
                exchange::respond(Arc::clone(&port), Arc::clone(&client), request)
            })
        };
        let mut http = std::pin::pin!(server().serve_connection(TokioIo::new(connection), service));
        let (mut looks, mut ending) = (interval(LOOK_EVERY), None);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut age = std::pin::pin!(sleep(CONNECTION_AGE_MAX));
        loop {
            tokio::select! {
                ended = http.as_mut() => {
                    if let Err(error) = ended {
                        debug!(client = ?client.address(), %error, "connection failed");
                    }
                    break;
                }
                () = client.closed() => break,
                () = age.as_mut(), if ending.is_none() => {
                    ending = Some(Instant::now());
                    http.as_mut().graceful_shutdown();
                }
                _ = stopping.wait_for(|stopping| *stopping), if ending.is_none() => {
                    ending = Some(Instant::now());
                    http.as_mut().graceful_shutdown();
                }
                () = reloaded(&mut reloads), if ending.is_none() => {
                    if port.tls.as_ref().is_some_and(|tls| !tls.still_trusts(&certificates)) {
                        port.refusals.count(client.address(), "clientCa no longer verifies its certificate");
                        ending = Some(Instant::now());
                        http.as_mut().graceful_shutdown();
                    }
                }
                now = looks.tick() => {
                    if client.is_overdue() {
                        port.refusals.count(client.address(), "it did not finish a request or read a response in time");
                        break;
                    }
                    let waited = ending.map(|since| now.saturating_duration_since(since)).unwrap_or_default();
                    if waited > END_LIMIT && (client.calls() == 0 || waited > LAST_CALL_LIMIT) {
                        break;
                    }
                }
            }
        }
        drop(place);
    }
}

/// Waits until the TLS files have been reloaded.
async fn reloaded(reloads: &mut Option<watch::Receiver<u64>>) {
    if let Some(reloads) = reloads
        && reloads.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

fn server() -> http2::Builder<TokioExecutor> {
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(KEEPALIVE_EVERY))
        .keep_alive_timeout(KEEPALIVE_LIMIT)
        .max_concurrent_streams(CALLS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_header_list_size(HEAD_BYTES_MAX);
    server
}
