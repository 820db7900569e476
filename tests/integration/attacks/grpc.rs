//! Attacks on the gRPC port by clients that may connect.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use h2::client::SendRequest;
use prost::bytes::Bytes;
use tokio::sync::Notify;
use tonic::Code;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::memory::takes_little;
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
    let (groups, rest) = (well_behaved.clone().node_groups().await.len(), server.peak_memory());
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
    takes_little("unfinished requests", &server, rest);
}

#[tokio::test]
async fn a_long_head_is_refused() {
    let server = Server::start(&["--demo"]);
    let status = async |bytes: usize| {
        let mut client = http2(server.grpc()).await.ready().await.expect("connected");
        let mut request = call("NodeGroups");
        request.headers_mut().insert("x-long", "a".repeat(bytes).parse().expect("a value"));
        let (response, mut body) = client.send_request(request, false).expect("sent");
        body.send_data(Bytes::from_static(&[0; 5]), true).expect("sent");
        response.await.expect("a response").status().as_u16()
    };
    assert_eq!((status(7 * 1024).await, status(9 * 1024).await), (200, 431), "a head has 8 KiB at most");
}

#[tokio::test]
async fn a_request_that_is_not_complete_in_time_is_refused_with_the_limit_that_passed() {
    let server = Server::start(&["--demo"]);
    let refused = async |timeout: &'static str| {
        let mut client = http2(server.grpc()).await.ready().await.expect("connected");
        let mut request = call("NodeGroups");
        request.headers_mut().insert("grpc-timeout", timeout.parse().expect("a value"));
        let (response, _unfinished) = client.send_request(request, false).expect("sent");
        let response = response.await.expect("a response");
        response.headers()["grpc-message"].to_str().expect("text").replace("%20", " ")
    };
    assert_eq!(refused("500m").await, "the request was not complete within 500ms, the deadline of the call");
    assert_eq!(refused("20S").await, "the request was not complete within 10s");
}

/// Sends a whole request on a connection of its own, and returns the response's HTTP status and its code.
async fn send(address: SocketAddr, method: &str, message: &Bytes) -> (u16, Option<Code>) {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    send_body(address, method, &[&[0], &length[..]].concat(), message).await
}

/// The same with a head of its own.
async fn send_body(address: SocketAddr, method: &str, head: &[u8], message: &Bytes) -> (u16, Option<Code>) {
    let mut client = http2(address).await.ready().await.expect("connected");
    let (response, mut body) = client.send_request(call(method), false).expect("sent");
    let begun = body.send_data(Bytes::copy_from_slice(head), false);
    let sending = async {
        let mut left = message.clone();
        while begun.is_ok() && !left.is_empty() {
            body.reserve_capacity(left.len());
            let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { return };
            let part = left.split_to(room.min(left.len()));
            if body.send_data(part, left.is_empty()).is_err() {
                return;
            }
        }
    };
    sending.await;
    match response.await {
        Ok(response) => (response.status().as_u16(), code(response.headers())),
        Err(_) => (0, None),
    }
}

/// A part of a message, after its key.
fn part(key: u8, content: &[u8]) -> Vec<u8> {
    let mut part = vec![key];
    prost::encode_length_delimiter(content.len(), &mut part).expect("there is room");
    part.extend_from_slice(content);
    part
}

#[tokio::test]
async fn messages_that_decode_to_much_are_refused_before_they_are_decoded() {
    let server = Server::start(&["--demo"]);
    let mut well_behaved = server.client().await;
    let groups = well_behaved.node_groups().await.len();
    let before = server.peak_memory();
    // An empty node, an empty label and an empty container have two bytes each.
    let nodes = Bytes::from([0x0a, 0].repeat(4_000_000));
    let node = Bytes::from(part(0x0a, &[0x1a, 0].repeat(500_000)));
    let pod = Bytes::from(part(0x0a, &part(0x12, &[0x12, 0].repeat(500_000))));
    let too_long = Bytes::from(vec![0; 70 << 10]);
    let attacks = [
        ("NodeGroupDeleteNodes", &nodes, Some(Code::ResourceExhausted)),
        ("NodeGroupForNode", &node, Some(Code::ResourceExhausted)),
        ("PricingNodePrice", &node, Some(Code::ResourceExhausted)),
        // It is priced without its pod, because CA would drop each scale-up for an error. What succeeds has a status after it.
        ("PricingPodPrice", &pod, None),
        ("NodeGroupTargetSize", &too_long, Some(Code::ResourceExhausted)),
    ];
    for (method, message, expected) in attacks {
        let outcomes = join_all((0..4).map(|_| send(server.grpc(), method, message))).await;
        assert!(outcomes.iter().all(|outcome| *outcome == (200, expected)), "{method}: {outcomes:?}");
        assert_eq!(well_behaved.node_groups().await.len(), groups);
    }
    takes_little("messages that decode to much", &server, before);
}

#[tokio::test]
async fn a_second_message_in_a_request_is_not_decoded() {
    let server = Server::start(&["--demo"]);
    let mut well_behaved = server.client().await;
    let groups = well_behaved.node_groups().await.len();
    let before = server.peak_memory();
    let nodes = Bytes::from([0x0a, 0].repeat(4_000_000));
    // An empty message, and the head of another one.
    let heads = [&[0; 6], &u32::try_from(nodes.len()).expect("short").to_be_bytes()[..]].concat();
    for _ in 0..4 {
        let outcome = send_body(server.grpc(), "NodeGroupDeleteNodes", &heads, &nodes).await;
        assert_eq!(outcome.1, Some(Code::InvalidArgument), "{outcome:?}");
    }
    assert_eq!(well_behaved.node_groups().await.len(), groups);
    takes_little("a second message", &server, before);
}

#[tokio::test]
async fn slow_bodies_hold_little_memory_and_end() {
    let server = Server::start(&["--demo"]);
    let well_behaved = server.client().await;
    let before = server.peak_memory();
    let attackers = join_all((0..20).map(|_| http2(server.grpc()))).await;
    let mut senders = Vec::new();
    for attacker in attackers {
        senders.push(tokio::spawn(async move {
            let mut attacker = attacker.ready().await.expect("connected");
            let mut bodies = Vec::new();
            for _ in 0..20 {
                let Ok(ready) = attacker.ready().await else { break };
                attacker = ready;
                let Ok((response, body)) = attacker.send_request(call("NodeGroupDeleteNodes"), false) else { break };
                bodies.push((response, body));
            }
            // A message of 1 MiB, one byte in a frame.
            for (_, body) in &mut bodies {
                let _ended = body.send_data(Bytes::from_static(&[0, 0, 16, 0, 0]), false);
            }
            for _ in 0..1_000 {
                for (_, body) in &mut bodies {
                    let _ended = body.send_data(Bytes::from_static(&[0]), false);
                }
                tokio::task::yield_now().await;
            }
            let codes = bodies.into_iter().map(async |(response, body)| {
                let code = response.await.ok().and_then(|response| code(response.headers()));
                drop(body);
                code
            });
            join_all(codes).await
        }));
    }
    let ended = tokio::time::timeout(PATIENCE, join_all(senders)).await.expect("slow bodies have a time limit");
    for code in ended.into_iter().flat_map(|codes| codes.expect("no panic")) {
        assert!(matches!(code, None | Some(Code::DeadlineExceeded | Code::ResourceExhausted)), "{code:?}");
    }
    assert!(!well_behaved.clone().node_groups().await.is_empty());
    takes_little("slow bodies", &server, before);
}

#[tokio::test]
async fn requests_do_not_get_a_server_with_1000_groups_killed() {
    let config = ConfigFile::new("sources: [{name: demo, simulated: {groups: 1000, instances: 5000}}]\n");
    let server = Server::with_config(&config);
    // A server that is this busy may take longer to read the answer to a keepalive than a connection is kept open, so
    // each call has a connection of its own.
    let serves_all = async || server.client().await.node_groups().await.len() == 1000;
    let all_are_served = async {
        while !serves_all().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_are_served).await.expect("all groups are served");
    // Whole messages of the largest size, which are decoded, and unfinished ones.
    let node = [b"x".repeat(1_000)].concat();
    let nodes = Bytes::from(part(0x0a, &part(0x0a, &node)).repeat(7_000));
    let attackers = join_all((0..8).map(|_| http2(server.grpc()))).await;
    let mut unfinished = Vec::new();
    for attacker in attackers {
        let Ok(mut attacker) = attacker.ready().await else { continue };
        for _ in 0..20 {
            let Ok((response, mut body)) = attacker.send_request(call("NodeGroupDeleteNodes"), false) else { break };
            let _ended = body.send_data([&[0, 0, 64, 0, 0][..], &[0; 65_000]].concat().into(), false);
            unfinished.push((response, body));
            let Ok(ready) = attacker.ready().await else { break };
            attacker = ready;
        }
    }
    let outcomes = join_all((0..8).map(|_| send(server.grpc(), "NodeGroupDeleteNodes", &nodes))).await;
    assert!(outcomes.iter().all(|(_, code)| *code != Some(Code::Ok)), "{outcomes:?}");
    assert!(serves_all().await);
    let peak = server.peak_memory();
    println!("1,000 groups: at most {peak} MiB");
    assert!(peak < 256, "{peak} MiB");
}

#[tokio::test]
async fn what_is_no_grpc_request_is_an_unsupported_media_type() {
    let server = Server::start(&["--demo"]);
    let path = "http://headcount/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/NodeGroups";
    for (method, content_type) in [
        ("GET", "application/grpc"),
        ("PUT", "application/grpc"),
        ("POST", "application/json"),
        ("POST", "application/grpc-web"),
        ("POST", "application/grpc-web+proto"),
        ("POST", "application/grpcx"),
        ("POST", ""),
    ] {
        let mut client = http2(server.grpc()).await.ready().await.expect("connected");
        let request = Request::builder().method(method).uri(path).header("content-type", content_type).body(());
        let (response, mut body) = client.send_request(request.expect("a request"), false).expect("sent");
        let _ended = body.send_data(Bytes::from_static(&[0; 5]), true);
        assert_eq!(response.await.expect("answered").status(), 415, "{method} {content_type}");
    }
    for content_type in ["application/grpc", "application/grpc+proto"] {
        let mut client = http2(server.grpc()).await.ready().await.expect("connected");
        let request = Request::post(path).header("content-type", content_type).header("te", "trailers").body(());
        let (response, mut body) = client.send_request(request.expect("a request"), false).expect("sent");
        body.send_data(Bytes::from_static(&[0; 5]), true).expect("sent");
        assert_eq!(response.await.expect("answered").status(), 200, "{content_type}");
    }
}

#[tokio::test]
async fn connections_with_unfinished_calls_do_not_keep_new_clients_out() {
    let server = Server::start(&["--demo"]);
    let mut well_behaved = server.client().await;
    let groups = well_behaved.node_groups().await.len();
    let mut unfinished = Vec::new();
    for _ in 0..300 {
        let Ok(socket) = tokio::net::TcpStream::connect(server.grpc()).await else { continue };
        let Ok((client, connection)) = h2::client::handshake(socket).await else { continue };
        tokio::spawn(connection);
        let Ok(mut client) = client.ready().await else { continue };
        unfinished.extend(client.send_request(call("NodeGroupDeleteNodes"), false).ok());
    }
    assert!(unfinished.len() > 256, "{}", unfinished.len());
    assert_eq!(server.client().await.node_groups().await.len(), groups, "a new client is served");
    assert_eq!(well_behaved.node_groups().await.len(), groups, "the old connection still works");
}

#[tokio::test]
async fn connections_that_come_and_go_do_not_end_the_one_in_use() {
    let server = Server::start(&["--demo"]);
    let mut well_behaved = server.client().await;
    for _ in 0..20 {
        well_behaved.node_groups().await;
    }
    let mut kept = Vec::new();
    for number in 0..600 {
        // Some make a call, most say nothing, and all stay.
        if number % 2 == 0 {
            let mut client = http2(server.grpc()).await;
            let Ok(ready) = client.ready().await else { continue };
            client = ready;
            let Ok((response, mut body)) = client.send_request(call("NodeGroups"), false) else { continue };
            let _ended = body.send_data(Bytes::from_static(&[0; 5]), true);
            let _answered = response.await;
        } else {
            kept.extend(TcpStream::connect(server.grpc()).ok());
        }
        if number % 20 == 0 {
            // It never reconnects: a call on a connection that was closed would fail.
            well_behaved.node_groups().await;
        }
    }
}

#[tokio::test]
async fn responses_that_are_never_read_hold_little_memory() {
    let config = ConfigFile::new("sources: [{name: demo, simulated: {groups: 1, instances: 5000}}]\n");
    let server = Server::with_config(&config);
    let mut well_behaved = server.client().await;
    let group = well_behaved.node_groups().await.remove(0).id;
    assert_eq!(well_behaved.nodes(&group).await.len(), 5000);
    let rest = server.peak_memory();
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
    takes_little("responses that are not read", &server, rest);
}

#[tokio::test]
async fn reflection_that_is_never_read_holds_little_memory() {
    let server = Server::start(&["--demo"]);
    let (mut well_behaved, rest) = (server.client().await, server.peak_memory());
    let groups = well_behaved.node_groups().await.len();
    let mut attackers = join_all((0..64).map(|_| http2(server.grpc()))).await;
    let asked = [&[0, 0, 0, 0, 20], &part(0x1a, b"externalgrpc.proto")[..]].concat();
    let (mut bodies, mut responses) = (Vec::new(), Vec::new());
    for attacker in &mut attackers {
        for _ in 0..90 {
            *attacker = attacker.clone().ready().await.expect("connected");
            let request = Request::post("http://headcount/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
                .header("content-type", "application/grpc")
                .header("te", "trailers");
            let (response, mut body) =
                attacker.send_request(request.body(()).expect("a request"), false).expect("sent");
            body.send_data(asked.repeat(4).into(), false).expect("sent");
            bodies.push(body);
            responses.push(response);
        }
    }
    let outcomes = tokio::time::timeout(PATIENCE, join_all(responses)).await.expect("each gets a head");
    let is_refused = |outcome: &Result<Response<h2::RecvStream>, h2::Error>| {
        code(outcome.as_ref().expect("a head").headers()) == Some(Code::ResourceExhausted)
    };
    assert_eq!(well_behaved.node_groups().await.len(), groups);
    takes_little("reflection that is not read", &server, rest);
    assert_eq!(outcomes.iter().filter(|outcome| is_refused(outcome)).count(), 64 * (90 - 4), "4 on each connection");
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
