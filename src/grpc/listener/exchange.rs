//! One request and its response: the time for the body, the bytes that both may hold, and the caller's deadline.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE as CONTENT_TYPE_HEADER, HeaderName};
use hyper::{Method, Request, Response, StatusCode};
use prost::bytes::BytesMut;
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service as _;

use super::Port;
use super::budget::Charge;
use super::client::{CallUnderWay, ClientState, Unread};
use crate::grpc::deadline::{Arrival, timeout_of};
use crate::grpc::message::MessageLimit;
use crate::limits::CALL;

/// The paths of the service whose calls have one request and one response. Others (health checks, reflection) stream.
const CALLS: &str = "/clusterautoscaler.cloudprovider.";

/// No call takes longer, even if its caller sets a longer timeout.
const CALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// How long a response waits for room after another connection was closed, which frees its bytes at once.
const MAKING_ROOM_LIMIT: Duration = Duration::from_millis(100);

/// What an open call holds besides its message: its head, its stream and its task. 25,000 open calls were measured to take
/// 17 KiB each in a debug build.
const CALL_BYTES: usize = 8 * 1024;

/// What the type of a request's content must be; it may be followed by the encoding: `application/grpc+proto`.
const CONTENT_TYPE: &str = "application/grpc";

/// The headers that are read. Others are dropped: decoded, a head of 8 KiB can take 18 KiB, and a call has ten seconds to
/// send its body.
const HEADERS: [HeaderName; 5] = [
    CONTENT_TYPE_HEADER,
    HeaderName::from_static("te"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
];

/// Responds to one request.
pub(super) async fn respond(
    port: Arc<Port>,
    client: Arc<ClientState>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let read = HEADERS.into_iter().filter_map(|name| {
        let value = request.headers().get(&name)?.clone();
        Some((name, value))
    });
    *request.headers_mut() = read.collect();
    let arrival = Instant::now();
    if !is_grpc(&request) {
        let mut refused = Response::new(Body::empty());
        *refused.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Ok(refused);
    }
    let until = arrival + timeout_of(request.headers()).min(CALL_LIMIT);
    let responding = async {
        if request.uri().path().starts_with(CALLS) {
            return call(&port, &client, request, arrival, until).await;
        }
        stream(&port, &client, request, arrival).await
    };
    Ok(timeout_at(until, responding).await.unwrap_or_else(|_elapsed| {
        Status::deadline_exceeded("the call was not finished within its deadline").into_http()
    }))
}

/// Whether it is a gRPC request, and not one of a browser or of another protocol: those of gRPC-Web have types of their
/// own.
fn is_grpc(request: &Request<Incoming>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE_HEADER).and_then(|value| value.to_str().ok());
    let encoding = content_type.and_then(|value| value.strip_prefix(CONTENT_TYPE));
    request.method() == Method::POST
        && encoding.is_some_and(|rest| matches!(rest.chars().next(), None | Some('+' | ';')))
}

fn no_room() -> Status {
    Status::resource_exhausted("the requests on this port hold too many bytes; try again later")
}

/// Receives the message of a call, and has it answered. Until the message is complete, the call is not under way: it
/// keeps neither the connection's place nor a shutdown waiting.
async fn call(
    port: &Port,
    client: &Arc<ClientState>,
    request: Request<Incoming>,
    arrival: Instant,
    until: Instant,
) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    head.extensions.insert(Arrival(arrival));
    let limit = MessageLimit::of(head.uri.path());
    let complete_by = until.min(arrival + CALL.time());
    let received = match timeout_at(complete_by, receive(client, body, &limit)).await {
        Ok(received) => received,
        Err(_elapsed) => Err(incomplete(complete_by - arrival)),
    };
    // What the message decodes to is held until the call has ended.
    let (body, _held, under_way) = match received {
        Ok((message, charge)) => (Body::new(Full::new(message)), Some(charge), Some(client.begin_call())),
        // The service answers with this status, and counts it.
        Err(status) => (Body::new(Unreceived(Some(status))), None, None),
    };
    let response = routed(port, Request::from_parts(head, body)).await;
    let response = held(port, client, response).await;
    under_way.into_iter().for_each(CallUnderWay::finish);
    response
}

/// The status of a request whose body took too long.
fn incomplete(limit: Duration) -> Status {
    let whose = if limit < CALL.time() { ", the deadline of the call" } else { "" };
    Status::deadline_exceeded(format!("the request was not complete within {limit:?}{whose}"))
}

/// Responds to a request that streams. It keeps its place until the response ends: nothing else limits what waits in a
/// stream that is not read, or how long a watch lasts.
async fn stream(
    port: &Port,
    client: &Arc<ClientState>,
    request: Request<Incoming>,
    arrival: Instant,
) -> Response<Body> {
    let Ok(place) = client.place_for_stream() else {
        let message = "too many streams (health checks, reflection) on this connection; end one, then try again";
        return Status::resource_exhausted(message).into_http();
    };
    let Some(held) = client.hold_request(CALL_BYTES) else { return no_room().into_http() };
    let limit = Box::pin(sleep_until(arrival + CALL.time()));
    let body = |body| Body::new(StreamBody { body, held, received: 0, limit });
    let response = routed(port, request.map(body)).await;
    let keep_place = move |frame| {
        let _until_the_body_ends = &place;
        frame
    };
    response.map(|body| Body::new(body.map_frame(keep_place)))
}

async fn routed(port: &Port, request: Request<Body>) -> Response<Body> {
    port.routes.clone().call(request).await.unwrap_or_else(|never: Infallible| match never {})
}

/// Receives a whole message, within its limits and the bytes that this client may hold. It is copied: frames of one
/// byte each would keep whole buffers of the HTTP library.
async fn receive(client: &ClientState, mut body: Incoming, limit: &MessageLimit) -> Result<(Bytes, Charge), Status> {
    let mut message = BytesMut::new();
    let mut charge = client.hold_request(CALL_BYTES).ok_or_else(no_room)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        let Some(data) = frame.data_ref() else { continue };
        charge.raise_to(CALL_BYTES + message.len() + data.len()).ok_or_else(no_room)?;
        message.extend_from_slice(data);
        if message.len() > limit.body_bytes() || limit.announces_too_much(&message) {
            let most = limit.body_bytes();
            return Err(Status::resource_exhausted(format!(
                "the request is longer than {most} bytes, the most for this call"
            )));
        }
    }
    if MessageLimit::has_more_than_one(&message) {
        return Err(Status::invalid_argument("the request has more than one message"));
    }
    let (message, weight) = match limit.weigh(&message) {
        Some(weight) => (message.freeze(), weight),
        None => {
            let lighter = limit.lightened(&message).map(Bytes::from);
            let lighter = lighter.and_then(|message| limit.weigh(&message).map(|weight| (message, weight)));
            lighter.ok_or_else(|| Status::resource_exhausted("the request has too many parts for this call"))?
        }
    };
    charge.raise_to(CALL_BYTES + weight).ok_or_else(no_room)?;
    Ok((message, charge))
}

/// The body of a request that was not received.
struct Unreceived(Option<Status>);

impl hyper::body::Body for Unreceived {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

/// Holds a whole response until the client has read it. Its bytes count at once, even if the client does not accept any
/// yet.
async fn held(port: &Port, client: &Arc<ClientState>, response: Response<Body>) -> Response<Body> {
    let (head, body) = response.into_parts();
    let Ok(whole) = body.collect().await else {
        return Status::internal("the response cannot be encoded").into_http();
    };
    let trailers = whole.trailers().cloned();
    let bytes = whole.to_bytes();
    let Some(unread) = room_for(port, client, bytes.len()).await else {
        let message = "too many responses on this connection have not been read; read them, then try again";
        return Status::resource_exhausted(message).into_http();
    };
    let bytes = Bytes::from_owner(Held { bytes, _unread: unread });
    // An error has no message: its status is in the head, and the head must end the stream. After it, an empty message
    // would violate the gRPC protocol, and clients would report that violation instead of the error.
    let body = match trailers {
        Some(trailers) => Body::new(Full::new(bytes).with_trailers(async { Some(Ok(trailers)) })),
        None => Body::new(Full::new(bytes)),
    };
    Response::from_parts(head, body)
}

/// Makes room for a response. If necessary, closes the connection of the client with the most unread bytes.
async fn room_for(port: &Port, client: &Arc<ClientState>, bytes: usize) -> Option<Unread> {
    loop {
        let freed = port.responses.freed();
        if let Some(unread) = client.hold_response(bytes) {
            return Some(unread);
        }
        if !port.places.close_slowest_reader(client.unread().saturating_add(bytes)) {
            return None;
        }
        let _freed_or_tried_again = timeout(MAKING_ROOM_LIMIT, freed).await;
    }
}

/// The bytes of a response, which count as unread until the HTTP library drops them.
struct Held {
    bytes: Bytes,
    _unread: Unread,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of a request that streams, within limits of time and bytes.
struct StreamBody {
    body: Incoming,
    held: Charge,
    received: usize,
    limit: Pin<Box<Sleep>>,
}

impl hyper::body::Body for StreamBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.limit.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(incomplete(CALL.time()))));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(Status::from_error(error.into())))),
            Some(Ok(frame)) => frame,
        };
        // Short frames are copied, for the same reason as whole messages.
        let frame = frame.map_data(|data| Bytes::copy_from_slice(&data));
        if let Some(data) = frame.data_ref() {
            self.received = self.received.saturating_add(data.len());
            let received = CALL_BYTES.saturating_add(self.received);
            if self.held.raise_to(received).is_none() {
                return Poll::Ready(Some(Err(no_room())));
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }
}
