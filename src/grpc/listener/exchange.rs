//! One request and its response: the time for the body, the bytes that both may hold, and the caller's deadline.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{Request, Response};
use tokio::time::{Instant, Sleep, sleep_until, timeout, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service as _;

use super::Port;
use super::budget::Charge;
use super::client::{ClientState, Unread};
use super::frames::BODY_LIMIT;
use crate::grpc::deadline::{Arrival, timeout_of};

/// The paths of the service whose calls have one request and one response. Others (health checks, reflection) stream.
const CALLS: &str = "/clusterautoscaler.cloudprovider.";

/// No call takes longer, even if its caller sets a longer timeout.
const CALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// How long a response waits for room after another connection was closed, which frees its bytes at once.
const MAKING_ROOM_LIMIT: Duration = Duration::from_millis(100);

/// Responds to one request.
pub(super) async fn respond(
    port: Arc<Port>,
    client: Arc<ClientState>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let arrival = Instant::now();
    let is_call = request.uri().path().starts_with(CALLS);
    let _under_way = is_call.then(|| client.begin_call());
    let until = arrival + timeout_of(request.headers()).min(CALL_LIMIT);
    let mut request = request.map(|body| {
        let limit = Box::pin(sleep_until(arrival + BODY_LIMIT));
        let (held, frames) = (Vec::new(), VecDeque::new());
        Body::new(RequestBody { body, client: Arc::clone(&client), is_held_back: is_call, frames, held, limit })
    });
    request.extensions_mut().insert(Arrival(arrival));
    let responding = async {
        let response = port.routes.clone().call(request).await.unwrap_or_else(|never: Infallible| match never {});
        if is_call { held(&port, &client, response).await } else { response }
    };
    Ok(timeout_at(until, responding).await.unwrap_or_else(|_elapsed| {
        Status::deadline_exceeded("the call was not finished within its deadline").into_http()
    }))
}

/// Holds a whole response until the client has read it. Its bytes count at once, even if the client does not accept any yet.
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
    // An error has no message: its status is in the head, and the head must end the stream. After it, an empty message would violate
    // the gRPC protocol, and clients would report that violation instead of the error.
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
        if !port.places.spare_slowest_reader(client.unread().saturating_add(bytes)) {
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

/// The body of a request, within limits of time and bytes.
struct RequestBody {
    body: Incoming,
    client: Arc<ClientState>,
    /// Whether the whole body must arrive before any of it is passed on. tonic reserves the length that a message announces, up to 16
    /// MiB, with the first bytes of it. Thousands of messages that never end would fragment the heap, and the allocator keeps the
    /// touched parts: 440 MiB within a minute.
    is_held_back: bool,
    frames: VecDeque<Frame<Bytes>>,
    held: Vec<Charge>,
    limit: Pin<Box<Sleep>>,
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if !self.is_held_back
                && let Some(frame) = self.frames.pop_front()
            {
                return Poll::Ready(Some(Ok(frame)));
            }
            let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(cx) else {
                ready!(self.limit.as_mut().poll(cx));
                let message = format!("the request was not complete within {BODY_LIMIT:?}");
                return Poll::Ready(Some(Err(Status::deadline_exceeded(message))));
            };
            let frame = match next {
                None if self.is_held_back => {
                    self.is_held_back = false;
                    continue;
                }
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(Status::from_error(error.into())))),
                Some(Ok(frame)) => frame,
            };
            if let Some(data) = frame.data_ref() {
                let Some(charge) = self.client.hold_request(data.len()) else {
                    let message = "the unfinished requests on this port hold too many bytes; try again later";
                    return Poll::Ready(Some(Err(Status::resource_exhausted(message))));
                };
                self.held.push(charge);
            }
            self.frames.push_back(frame);
        }
    }
}
