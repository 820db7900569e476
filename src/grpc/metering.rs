//! A layer around the gRPC port that counts and times every call, by method and status code, and gives it a request ID.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http_body::{Body, Frame, SizeHint};
use tonic::Code;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument as _;

use super::metrics::{GrpcMetrics, method_of};
use crate::fleet::RequestId;

impl<S> Layer<S> for GrpcMetrics {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Metered { inner, metrics: self.clone() }
    }
}

/// A service whose calls are counted.
#[derive(Clone, Debug)]
pub struct Metered<S> {
    inner: S,
    metrics: GrpcMetrics,
}

impl<S, Sent, Received> Service<Request<Sent>> for Metered<S>
where
    S: Service<Request<Sent>, Response = Response<Received>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    Received: Body + Unpin + 'static,
{
    type Response = Response<MeteredBody<Received>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let method = method_of(request.uri().path());
        let measure = Measure { method, began: Instant::now(), metrics: self.metrics.clone(), is_done: false };
        let id = RequestId::next();
        let span = tracing::info_span!("rpc", request_id = %id, method);
        let called = id.scope(self.inner.call(request));
        let measured = async move {
            // If the caller goes away, this future is dropped, and the measurement with it.
            let mut measure = measure;
            let response = called.await?;
            let (parts, body) = response.into_parts();
            let measure = match code_in(&parts.headers) {
                Some(code) => {
                    measure.end(code);
                    None
                }
                None => Some(measure),
            };
            Ok(Response::from_parts(parts, MeteredBody { body, measure }))
        };
        Box::pin(measured.instrument(span))
    }
}

fn code_in(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|value| Code::from_bytes(value.as_bytes()))
}

/// One call, counted when it ends or is dropped.
#[derive(Debug)]
struct Measure {
    method: &'static str,
    began: Instant,
    metrics: GrpcMetrics,
    is_done: bool,
}

impl Measure {
    fn end(&mut self, code: Code) {
        if std::mem::replace(&mut self.is_done, true) {
            return;
        }
        self.metrics.count(self.method, code, self.began.elapsed());
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

/// The body of a response, whose trailers carry the status.
#[derive(Debug)]
pub struct MeteredBody<B> {
    body: B,
    measure: Option<Measure>,
}

impl<B: Body + Unpin> Body for MeteredBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(code) = frame.trailers_ref().and_then(code_in)
            && let Some(measure) = &mut self.measure
        {
            measure.end(code);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_whose_caller_goes_away_counts_as_cancelled() {
        let metrics = GrpcMetrics::default();
        let (method, began) = ("Refresh", Instant::now());
        drop(Measure { method, began, metrics: metrics.clone(), is_done: false });
        let count = |code| metrics.total(method, code);
        assert_eq!((count("CANCELLED"), count("OK")), (1, 0));
    }
}
