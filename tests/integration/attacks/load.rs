//! Attacks that last for a while, for the soak and the benchmark.
//!
//! The server has TLS with a client CA. Some attackers have no certificate; others are admitted, like a defective
//! Cluster Autoscaler.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use h2::client::SendRequest;
use prost::bytes::Bytes;
use rcgen::KeyPair;
use rustix::process::setpriority_process;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
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
    /// Messages of 4 MiB that would decode to hundreds, without a pause, on 4 connections.
    HeavyMessages,
    /// Bodies that come byte by byte, 20 on each of 20 connections.
    SlowBodies,
    /// 256 connections with one call that never ends.
    UnfinishedCalls,
    /// Connections that make one call and go, 8 at a time.
    ComingAndGoing,
    /// Handshakes with 36 certificates that may have signed each other, one after another.
    LongChains,
    /// Requests for metrics and the status page without a pause, on 8 connections at a time.
    PageFlood,
}

impl Attack {
    pub(crate) const ALL: [Self; 16] = [
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
        Self::HeavyMessages,
        Self::SlowBodies,
        Self::UnfinishedCalls,
        Self::ComingAndGoing,
        Self::LongChains,
        Self::PageFlood,
    ];

    /// Makes every attack at once, on a thread that gets only the time that the server and its callers leave: attackers
    /// have machines of their own. They stop when the value is dropped.
    pub(crate) fn start_all(target: &Target) -> AllAttackers {
        let last = || {
            let _as_it_is = setpriority_process(None, 19);
        };
        let runtime = Builder::new_multi_thread().worker_threads(1).on_thread_start(last).enable_all().build();
        let (runtime, target) = (runtime.expect("a runtime"), target.clone());
        runtime.spawn(async move {
            let mut attackers: Vec<_> = Self::ALL.iter().map(|attack| attack.start(&target)).collect();
            for attack in &mut attackers {
                while attack.join_next().await.is_some() {}
            }
        });
        AllAttackers(Some(runtime))
    }

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
            Self::HeavyMessages => times(4, |target| Box::pin(heavy(target))),
            Self::SlowBodies => times(20, |target| Box::pin(requests(target, 20, Body::Slow))),
            Self::UnfinishedCalls => times(256, |target| Box::pin(requests(target, 1, Body::Open))),
            Self::ComingAndGoing => times(8, |target| Box::pin(come_and_go(target))),
            Self::LongChains => times(1, |target| Box::pin(long_chains(target))),
            Self::PageFlood => times(8, |target| Box::pin(pages(target))),
        }
        attackers
    }
}

/// The attackers of all attacks.
#[must_use = "they stop when this is dropped"]
pub(crate) struct AllAttackers(Option<Runtime>);

impl Drop for AllAttackers {
    fn drop(&mut self) {
        // A runtime that is dropped within another one must not wait.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
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
    /// The beginning of a message of 1 MiB, one byte at a time.
    Slow,
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
                    Body::Slow => send_slowly(&mut body).await,
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

async fn send_slowly(body: &mut h2::SendStream<Bytes>) {
    let mut sent = body.send_data(Bytes::from_static(&[0, 0, 16, 0, 0]), false);
    while sent.is_ok() {
        sleep(Duration::from_millis(20)).await;
        sent = body.send_data(Bytes::from_static(&[0]), false);
    }
}

/// Sends whole messages that are short and would decode to much, one after another.
async fn heavy(target: Target) {
    // Empty nodes: two bytes each.
    let message = Bytes::from([&[0, 0, 64, 0, 0][..], &[0x0a, 0].repeat(2 << 20)].concat());
    loop {
        let Some(mut client) = connect(&target).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        while let Ok(ready) = client.ready().await {
            client = ready;
            let Ok((response, mut body)) = client.send_request(call("NodeGroupDeleteNodes"), false) else { break };
            let mut left = message.clone();
            while !left.is_empty() {
                body.reserve_capacity(left.len());
                let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { break };
                let part = left.split_to(room.min(left.len()));
                if body.send_data(part, left.is_empty()).is_err() {
                    break;
                }
            }
            if response.await.is_err() {
                break;
            }
        }
    }
}

/// Makes one call on each of many connections, one after another.
async fn come_and_go(target: Target) {
    loop {
        let Some(client) = connect(&target).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let asked = async {
            let mut client = client.ready().await?;
            let (response, mut body) = client.send_request(call("NodeGroupTargetSize"), false)?;
            body.send_data(message(&target.group), true)?;
            response.await.map(drop)
        };
        let _closed_to_make_room: Result<(), h2::Error> = asked.await;
    }
}

/// Presents a chain of certificates of one name and one key, so that each may have signed each.
async fn long_chains(target: Target) {
    let stranger = Authority::new("stranger");
    let leaf = stranger.client("cluster-autoscaler", Vec::new());
    let key = KeyPair::generate().expect("a key");
    let chain: String = (0..36).map(|_| Authority::with_key("stranger", &key).pem()).collect();
    let certificate = Certificate { chain: format!("{}{chain}", leaf.chain), key: leaf.key };
    loop {
        if let Ok(mut socket) = stream(target.grpc, &target.authority, Some(&certificate)).await {
            let _refused = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Asks for pages and reads them.
async fn pages(target: Target) {
    for path in ["/metrics", "/statusz", "/statusz?format=json"].into_iter().cycle() {
        let Ok(mut socket) = TcpStream::connect(target.admin).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let _closed_to_make_room = socket.write_all(request.as_bytes()).await;
        let _closed = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
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
