//! Serves the connections of the admin port, within limits.
//!
//! With kubelet probes, the port is open to the whole pod network. A connection carries one request, which must
//! arrive at once, and a new connection always gets a place: clients that open connections and send nothing cannot
//! lock the probes out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tower_service::Service as _;
use tracing::{error, warn};

use crate::limits::ADMIN_REQUEST;
use crate::tasks::{TaskKind, Tasks};

/// The most open connections; a further one replaces the oldest.
const CONNECTIONS_MAX: usize = 128;
/// The share of the process's file descriptors that connections may take.
const DESCRIPTORS_SHARE: usize = 8;
/// The fewest connections, even with few file descriptors.
const CONNECTIONS_MIN: usize = 4;
/// How long a connection may live. Every response comes from memory.
pub(super) const LIFETIME: Duration = Duration::from_secs(10);
/// The pause after the system failed to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections forever.
pub(super) async fn serve(tcp: &TcpListener, router: &Router, tasks: &Tasks) {
    let max = connections_max();
    let mut connections = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::with_capacity(max);
    loop {
        let accepted = tokio::select! {
            accepted = tcp.accept() => accepted,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tasks.note(TaskKind::AdminRequest, "");
                    error!(%error, "a request on the admin port panicked; its connection is closed");
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, address)) => {
                oldest.retain(|connection| !connection.is_finished());
                if oldest.len() >= max
                    && let Some(connection) = oldest.pop_front()
                {
                    connection.abort();
                }
                oldest.push_back(connections.spawn(serve_one(stream, address, router.clone())));
            }
            Err(error) => {
                warn!(%error, "cannot accept connections on the admin port; retrying");
                if let Some(connection) = oldest.pop_front() {
                    connection.abort();
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

pub(super) async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    address: SocketAddr,
    router: Router,
) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        router.clone().call(request.map(Body::new))
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ADMIN_REQUEST.time())
        .max_header_size(ADMIN_REQUEST.bytes)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // An error affects this client alone, and the client sees it.
    let _ended = timeout(LIFETIME, serving).await;
}

fn connections_max() -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let descriptors = descriptors.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    CONNECTIONS_MAX.min(descriptors / DESCRIPTORS_SHARE).max(CONNECTIONS_MIN)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn mk_served() -> SocketAddr {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        let tcp = Arc::new(tcp);
        let router = Router::new()
            .route("/livez", get(async || "ok"))
            .route("/who", get(async |ConnectInfo(address): ConnectInfo<SocketAddr>| address.ip().to_string()));
        tokio::spawn(async move { serve(&tcp, &router, &Tasks::default()).await });
        address
    }

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).await.expect("a request");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a response");
        response
    }

    #[tokio::test]
    async fn a_connection_carries_one_request_and_the_address_of_its_client() {
        let address = mk_served().await;
        let response = ask(address, "/who").await;
        assert!(response.contains("connection: close") && response.ends_with("127.0.0.1"), "{response}");
    }

    #[tokio::test]
    async fn silent_clients_do_not_lock_probes_out() {
        let address = mk_served().await;
        let mut silent = VecDeque::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(b"GET /livez HTTP/1.1\r\n").await.expect("half a request");
            silent.push_back(stream);
        }
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let (mut client, server) = tokio::io::duplex(1024);
        let router = Router::new().route("/long", get(async || "x".repeat(1 << 20)));
        let serving = tokio::spawn(serve_one(server, "127.0.0.1:1".parse().expect("an address"), router));
        client.write_all(b"GET /long HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("a request");
        timeout(2 * LIFETIME, serving).await.expect("it ends").expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_disconnected() {
        let address = mk_served().await;
        let mut silent = TcpStream::connect(address).await.expect("a connection");
        let end = silent.read(&mut [0; 1]).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
}
