//! Attacks on the gRPC port by clients that may connect.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use futures_util::future::join_all;
use h2::client::SendRequest;
use prost::bytes::Bytes;
use tokio::sync::Notify;
use tonic::Code;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::peers::headcount::{ConfigFile, PATIENCE, Server, eventually};

/// The process needs less memory than this under any attack, in MiB.
const MEMORY_MAX: u64 = 200;

/// Fails if the process ever needed too much memory. `--nocapture` shows the peak.
fn is_small(server: &Server) {
    let peak = server.peak_memory();
    println!("at most {peak} MiB");
    assert!(peak < MEMORY_MAX, "{peak} MiB");
}

/// An HTTP/2 connection that does not behave like a gRPC client.
async fn http2(address: SocketAddr) -> SendRequest<Bytes> {
    let socket = tokio::net::TcpStream::connect(address).await.expect("connects");
    let (client, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    tokio::spawn(connection);
    client
}

fn call(method: &str) -> Request<()> {
    Request::post(format!("http://headcount/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request")
}

/// A message that names one group.
fn message(id: &str) -> Bytes {
    let length = u8::try_from(id.len()).expect("short");
    [&[0, 0, 0, 0, length + 2, 0x0a, length], id.as_bytes()].concat().into()
}

fn code(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()))
}

#[tokio::test]
async fn silent_connections_use_up_no_descriptors() {
    let server = Server::limited("ulimit -n 64", &["--demo"]);
    let mut client = server.client().await;
    let groups = client.node_groups().await.len();
    let silent: Vec<_> = (0..300).filter_map(|_| TcpStream::connect(server.grpc()).ok()).collect();
    assert!(silent.len() > 100, "the kernel accepts them");
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    assert_eq!(client.node_groups().await.len(), groups, "the old connection still works");
    assert_eq!(server.client().await.node_groups().await.len(), groups, "a new client can connect");
}

#[tokio::test]
async fn silent_connections_end_and_new_clients_can_connect_meanwhile() {
    let server = Server::start(&["--demo"]);
    let silent: Vec<_> = (0..600).filter_map(|_| TcpStream::connect(server.grpc()).ok()).collect();
    assert!(!server.client().await.node_groups().await.is_empty());
    let sockets = || std::fs::read_dir(format!("/proc/{}/fd", server.process_id())).expect("it runs").count();
    eventually("the silent ones are closed", || sockets() < 60).await;
    drop(silent);
}

#[tokio::test]
async fn neither_a_silent_client_nor_an_open_watch_delays_shutdown() {
    let config = ConfigFile::new("drainTimeout: 10m\nsources: [{name: demo, simulated: {}}]\n");
    let server = Server::with_config(&config);
    let _groups = server.client().await.node_groups().await;
    let _silent = TcpStream::connect(server.grpc()).expect("connects");
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", server.grpc())).expect("an address");
    let mut health = HealthClient::new(channel.connect().await.expect("connects"));
    let mut watch = health.watch(HealthCheckRequest::default()).await.expect("watched").into_inner();
    assert!(watch.message().await.expect("a status").is_some());
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test]
async fn unfinished_requests_hold_little_memory() {
    let server = Server::start(&["--demo"]);
    let well_behaved = server.client().await;
    let groups = well_behaved.clone().node_groups().await.len();
    let attackers = join_all((0..8).map(|_| http2(server.grpc()))).await;
    let (stop, mut senders) = (Arc::new(Notify::new()), Vec::new());
    for mut attacker in attackers {
        for _ in 0..40 {
            let Ok(ready) = attacker.ready().await else { break };
            attacker = ready;
            let (response, mut body) = attacker.send_request(call("NodeGroupDeleteNodes"), false).expect("sent");
            let stop = Arc::clone(&stop);
            senders.push(tokio::spawn(async move {
                // A message of 16 MiB that never ends.
                let begun = body.send_data(Bytes::from_static(&[0, 1, 0, 0, 0]), false);
                let sending = async {
                    for _ in 0..15 {
                        body.reserve_capacity(1 << 20);
                        let mut sent = 0;
                        while sent < 1 << 20 {
                            let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else {
                                return;
                            };
                            sent += room;
                            if body.send_data(Bytes::from(vec![0; room]), false).is_err() {
                                return;
                            }
                        }
                    }
                };
                if begun.is_ok() {
                    tokio::select! { () = sending => {} () = stop.notified() => {} }
                }
                response.await.ok().and_then(|response| code(response.headers()))
            }));
        }
    }
    for _ in 0..50 {
        assert_eq!(well_behaved.clone().node_groups().await.len(), groups);
    }
    let refused = async {
        for sender in senders {
            let code = sender.await.expect("no panic");
            assert!(
                matches!(code, None | Some(Code::ResourceExhausted | Code::DeadlineExceeded)),
                "an unfinished request was accepted: {code:?}"
            );
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("every unfinished request ends");
    assert_eq!(well_behaved.clone().node_groups().await.len(), groups);
    is_small(&server);
}

#[tokio::test]
async fn responses_that_are_never_read_hold_little_memory() {
    let config = ConfigFile::new("sources: [{name: demo, simulated: {groups: 1, instances: 5000}}]\n");
    let server = Server::with_config(&config);
    let mut well_behaved = server.client().await;
    let group = well_behaved.node_groups().await.remove(0).id;
    let mut attackers = join_all((0..8).map(|_| http2(server.grpc()))).await;
    let mut responses = Vec::new();
    for attacker in &mut attackers {
        for _ in 0..90 {
            let Ok(ready) = attacker.clone().ready().await else { break };
            *attacker = ready;
            let (response, mut body) = attacker.send_request(call("NodeGroupNodes"), false).expect("sent");
            body.send_data(message(&group), true).expect("sent");
            responses.push(response);
        }
    }
    // The client's windows are never opened again, so only the first bytes of each connection arrive.
    let outcomes = tokio::time::timeout(PATIENCE, join_all(responses)).await.expect("each gets a head, or ends");
    let is_refused = |outcome: &Result<Response<h2::RecvStream>, h2::Error>| match outcome {
        Ok(response) => code(response.headers()) == Some(Code::ResourceExhausted),
        Err(_) => true,
    };
    assert!(outcomes.iter().any(is_refused), "no limit");
    assert_eq!(well_behaved.nodes(&group).await.len(), 5000);
    is_small(&server);
}

#[tokio::test]
async fn a_connection_has_100_calls_at_a_time_at_most() {
    let server = Server::start(&["--demo"]);
    let mut attacker = http2(server.grpc()).await.ready().await.expect("connected");
    let (response, mut body) = attacker.send_request(call("NodeGroups"), false).expect("sent");
    body.send_data(Bytes::from_static(&[0; 5]), true).expect("sent");
    assert_eq!(response.await.expect("answered").status(), 200);
    assert_eq!(attacker.current_max_send_streams(), 100);
}

#[tokio::test]
async fn streams_reset_at_once_do_not_affect_other_clients() {
    let server = Server::start(&["--demo"]);
    let mut well_behaved = server.client().await;
    let groups = well_behaved.node_groups().await.len();
    for _ in 0..4 {
        let mut attacker = http2(server.grpc()).await;
        for _ in 0..2_000 {
            let Ok(ready) = attacker.ready().await else { break };
            attacker = ready;
            let Ok((_response, mut body)) = attacker.send_request(call("NodeGroups"), false) else { break };
            body.send_reset(h2::Reason::CANCEL);
            tokio::task::yield_now().await;
            if attacker.clone().ready().await.is_err() {
                break;
            }
        }
        assert_eq!(well_behaved.node_groups().await.len(), groups);
    }
    is_small(&server);
}
