//! Attacks that last for a while, for the soak and the benchmark.
//!
//! The server has TLS with a client CA. Some attackers have no certificate; others are admitted, like a defective Cluster Autoscaler.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use h2::client::SendRequest;
use prost::bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::certificates::{Authority, Certificate, stream};

/// The server under attack, and what admitted attackers know.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) authority: Arc<Authority>,
    pub(crate) certificate: Certificate,
    /// A group whose list of instances is long.
    pub(crate) group: String,
}

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// None, to compare with.
    Nothing,
    /// 600 connections that send nothing.
    SilentConnections,
    /// 300 connections that send the beginning of a TLS hello.
    HalfHello,
    /// Clients without a certificate, one after another, on 8 connections at a time.
    RefusedStrangers,
    /// 90 requests on each of 8 connections that never end.
    OpenStreams,
    /// Streams that are reset at once, on 4 connections.
    Resets,
    /// Requests without a pause, on 8 connections.
    Flood,
    /// Messages of 16 MiB that never end, 20 on each of 8 connections.
    BigBodies,
    /// Long responses that are not read, 90 on each of 8 connections.
    UnreadResponses,
    /// 200 sockets on the admin port that send half a head.
    SilentProbes,
}

impl Attack {
    pub(crate) const ALL: [Self; 10] = [
        Self::Nothing,
        Self::SilentConnections,
        Self::HalfHello,
        Self::RefusedStrangers,
        Self::OpenStreams,
        Self::Resets,
        Self::Flood,
        Self::BigBodies,
        Self::UnreadResponses,
        Self::SilentProbes,
    ];

    /// Attacks until dropped.
    pub(crate) fn start(self, target: &Target) -> JoinSet<()> {
        let mut attackers = JoinSet::new();
        let mut times = |number: usize, attacker: fn(Target) -> Attacker| {
            (0..number).for_each(|_| drop(attackers.spawn(attacker(target.clone()))));
        };
        match self {
            Self::Nothing => {}
            Self::SilentConnections => times(600, |target| Box::pin(hold(target.grpc, b""))),
            Self::HalfHello => {
                times(300, |target| Box::pin(hold(target.grpc, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03")))
            }
            Self::RefusedStrangers => times(8, |target| Box::pin(be_refused(target))),
            Self::OpenStreams => times(8, |target| Box::pin(requests(target, 90, Body::Open))),
            Self::Resets => times(4, |target| Box::pin(reset(target))),
            Self::Flood => times(8, |target| Box::pin(flood(target))),
            Self::BigBodies => times(8, |target| Box::pin(requests(target, 20, Body::Endless))),
            Self::UnreadResponses => times(8, |target| Box::pin(requests(target, 90, Body::Ended))),
            Self::SilentProbes => times(200, |target| Box::pin(hold(target.admin, b"GET /readyz HTTP/1.1\r\nHost:"))),
        }
        attackers
    }
}

type Attacker = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Keeps a connection open on which only this is sent; opens another when the server closes it.
async fn hold(address: SocketAddr, bytes: &'static [u8]) {
    loop {
        if let Ok(mut socket) = TcpStream::connect(address).await {
            let _closed_already = socket.write_all(bytes).await;
            let _closed = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Connects with TLS and without a certificate, and makes a call that is refused.
async fn be_refused(Target { grpc, authority, .. }: Target) {
    loop {
        if let Ok(socket) = stream(grpc, &authority, None).await
            && let Ok((client, connection)) = h2::client::handshake(socket).await
        {
            let asked = async move {
                let mut client: SendRequest<Bytes> = client.ready().await?;
                client.send_request(call("NodeGroups"), true)?.0.await.map(drop)
            };
            tokio::select! { _refused = asked => {} _ended = connection => {} }
        }
    }
}

async fn connect(target: &Target) -> Option<SendRequest<Bytes>> {
    let socket = stream(target.grpc, &target.authority, Some(&target.certificate)).await.ok()?;
    let (client, connection) = h2::client::handshake(socket).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

/// What an admitted attacker sends after the head of a request.
#[derive(Clone, Copy)]
enum Body {
    /// Nothing, without an end.
    Open,
    /// The beginning of a message of 16 MiB, as much as the server accepts.
    Endless,
    /// A whole request for a long list, whose response is not read.
    Ended,
}

/// Sends this many such requests on one connection, waits until the server ends them, and starts over.
async fn requests(target: Target, number: usize, kind: Body) {
    loop {
        let Some(mut client) = connect(&target).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let mut under_way = JoinSet::new();
        for _ in 0..number {
            let Ok(ready) = client.ready().await else { break };
            client = ready;
            let method = if matches!(kind, Body::Ended) { "NodeGroupNodes" } else { "NodeGroupDeleteNodes" };
            let Ok((response, mut body)) = client.send_request(call(method), false) else { break };
            let group = target.group.clone();
            under_way.spawn(async move {
                match kind {
                    Body::Open => {}
                    Body::Ended => {
                        let _closed = body.send_data(message(&group), true);
                    }
                    Body::Endless => send_without_end(&mut body).await,
                }
                let head = response.await;
                // The body of the response is kept but not read.
                sleep(Duration::from_secs(10)).await;
                drop((head, body));
            });
        }
        while under_way.join_next().await.is_some() {}
    }
}

async fn send_without_end(body: &mut h2::SendStream<Bytes>) {
    let mut sent = body.send_data(Bytes::from_static(&[0, 1, 0, 0, 0]), false).map(|()| 0);
    while let Ok(bytes) = sent {
        if bytes >= 15 << 20 {
            return;
        }
        body.reserve_capacity(1 << 16);
        let Ok(Some(Ok(room))) =
            timeout(Duration::from_secs(20), std::future::poll_fn(|cx| body.poll_capacity(cx))).await
        else {
            return;
        };
        sent = body.send_data(Bytes::from(vec![0; room]), false).map(|()| bytes + room);
    }
}

async fn reset(target: Target) {
    loop {
        let Some(mut client) = connect(&target).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        while let Ok(ready) = client.ready().await {
            client = ready;
            let Ok((_response, mut body)) = client.send_request(call("NodeGroups"), false) else { break };
            body.send_reset(h2::Reason::CANCEL);
            tokio::task::yield_now().await;
        }
    }
}

async fn flood(target: Target) {
    loop {
        let Some(mut client) = connect(&target).await else { continue };
        while let Ok(ready) = client.ready().await {
            client = ready;
            let Ok((response, mut body)) = client.send_request(call("NodeGroupTargetSize"), false) else { break };
            let _closed = body.send_data(message(&target.group), true);
            if response.await.is_err() {
                break;
            }
        }
    }
}

fn call(method: &str) -> tonic::codegen::http::Request<()> {
    let uri = format!("https://localhost/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/{method}");
    let request = tonic::codegen::http::Request::post(uri).header("content-type", "application/grpc");
    request.header("te", "trailers").body(()).expect("a request")
}

/// A message that names one group.
fn message(id: &str) -> Bytes {
    let length = u8::try_from(id.len()).expect("short");
    [&[0, 0, 0, 0, length + 2, 0x0a, length], id.as_bytes()].concat().into()
}
