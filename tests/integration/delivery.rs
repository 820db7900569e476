//! Calls over a connection that the server ends from time to time, as Headcount does after an hour.

use std::error::Error;
use std::time::Duration;

use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

pub(crate) type Client = CloudProviderClient<Channel>;

/// Makes a call with this timeout, and makes it again where the server never took it because the connection was ending.
/// The Cluster Autoscaler's gRPC library does the same; tonic leaves it to its callers. A call that the server took is
/// never repeated.
pub(crate) async fn delivered<M: Clone, R, C>(
    client: &Client,
    timeout: Duration,
    message: M,
    call: impl Fn(Client, Request<M>) -> C,
) -> Result<R, Status>
where
    C: Future<Output = Result<Response<R>, Status>>,
{
    loop {
        let mut request = Request::new(message.clone());
        request.set_timeout(timeout);
        match call(client.clone(), request).await {
            Err(status) if was_not_taken(&status) => {}
            outcome => return outcome.map(Response::into_inner),
        }
    }
}

/// hyper cancels the calls that wait to be sent when their connection ends. The server names the last call that it
/// takes in the frame that announces the end (GOAWAY), and h2 fails the later ones with it. Calls that the server took
/// fail with other errors.
fn was_not_taken(status: &Status) -> bool {
    let mut causes = std::iter::successors(status.source(), |cause| (*cause).source());
    causes.any(|cause| {
        cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled)
            || cause.downcast_ref::<h2::Error>().is_some_and(|error| {
                error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
            })
    })
}
