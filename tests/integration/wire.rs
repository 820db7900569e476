//! What goes over the wire, frame by frame. Clients differ in what they forgive: tonic reads the status of a malformed
//! error, and grpc-go and Python report "server closed the stream without sending trailers" in its place.

use std::net::SocketAddr;

use prost::Message;
use prost::bytes::{BufMut, BytesMut};
use tonic::Code;
use tonic::codegen::http::{HeaderMap, Request};

use headcount::grpc::proto::*;

use crate::peers::headcount::Server;

/// One call over a connection of its own: the head, whether it ends the stream, the length of the message, and the
/// trailers.
async fn call(address: SocketAddr, method: &str, message: impl Message) -> (HeaderMap, bool, usize, Option<HeaderMap>) {
    let socket = tokio::net::TcpStream::connect(address).await.expect("connects");
    let (client, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    tokio::spawn(connection);
    let path = format!("http://headcount/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/{method}");
    let request = Request::post(path).header("content-type", "application/grpc").header("te", "trailers").body(());
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.encoded_len()).expect("short"));
    message.encode(&mut framed).expect("there is room");
    let mut client = client.ready().await.expect("connected");
    let (response, mut body) = client.send_request(request.expect("a request"), false).expect("sent");
    body.send_data(framed.freeze(), true).expect("sent");
    let response = response.await.expect("a response");
    let (head, mut body) = (response.headers().clone(), response.into_body());
    let ends_with_its_head = body.is_end_stream();
    let mut length = 0;
    while let Some(data) = body.data().await {
        length += data.expect("a message").len();
    }
    (head, ends_with_its_head, length, body.trailers().await.expect("an end"))
}

fn code(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()))
}

#[tokio::test]
async fn an_error_is_a_head_that_ends_the_stream() {
    let server = Server::start(&["--demo"]);
    let _ready = server.client().await.node_groups().await;
    let unknown = || NodeGroupTargetSizeRequest { id: "unknown".to_owned() };
    let shrinking = NodeGroupIncreaseSizeRequest { id: "web".to_owned(), delta: -1 };
    let growing = NodeGroupIncreaseSizeRequest { id: "web".to_owned(), delta: 100_000 };
    let address = server.grpc();
    for (expected, answer) in [
        (Code::NotFound, call(address, "NodeGroupTargetSize", unknown()).await),
        (Code::InvalidArgument, call(address, "NodeGroupIncreaseSize", shrinking).await),
        (Code::FailedPrecondition, call(address, "NodeGroupIncreaseSize", growing).await),
        (Code::Unimplemented, call(address, "NoSuchMethod", unknown()).await),
    ] {
        let (head, ends_with_its_head, length, trailers) = answer;
        assert_eq!((code(&head), length, trailers), (Some(expected), 0, None));
        assert!(ends_with_its_head, "{expected:?}: a frame follows the head");
    }
}

#[tokio::test]
async fn a_message_is_followed_by_trailers_with_its_status() {
    let server = Server::start(&["--demo"]);
    let _ready = server.client().await.node_groups().await;
    let (head, ends_with_its_head, length, trailers) = call(server.grpc(), "NodeGroups", NodeGroupsRequest {}).await;
    assert_eq!((code(&head), ends_with_its_head), (None, false));
    assert!(length > 5, "{length} bytes");
    assert_eq!(trailers.as_ref().and_then(code), Some(Code::Ok));
    let refreshed = call(server.grpc(), "Refresh", RefreshRequest {}).await;
    assert_eq!(
        (refreshed.2, refreshed.3.as_ref().and_then(code)),
        (5, Some(Code::Ok)),
        "an empty message has a head of 5 bytes"
    );
}
