//! The connection of a client.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, Uri};
use tonic::codegen::{Service, StdError};
use tonic::transport::Channel;

/// The connection of a client.
#[derive(Clone)]
pub(crate) enum Connection {
    /// tonic's own. It ends a call whose timeout is over, which on a busy machine may be before the server's response
    /// arrives.
    Channel(Channel),
    /// One that leaves the timeout to the server.
    Untimed(SendRequest<Body>),
}

impl Connection {
    /// A connection that leaves the timeout to the server.
    pub(super) async fn untimed(address: SocketAddr) -> io::Result<Self> {
        let stream = TokioIo::new(tokio::net::TcpStream::connect(address).await?);
        let (sender, connection) = handshake(TokioExecutor::new(), stream).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self::Untimed(sender))
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Body>;
    type Error = StdError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, StdError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        match self {
            Self::Channel(channel) => channel.poll_ready(context).map_err(Into::into),
            Self::Untimed(sender) => sender.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self {
            Self::Channel(channel) => {
                let response = channel.call(request);
                Box::pin(async { Ok(response.await?) })
            }
            Self::Untimed(sender) => {
                let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
                *request.uri_mut() = Uri::try_from(format!("http://headcount{path}")).expect("a URI");
                let response = sender.send_request(request);
                Box::pin(async { Ok(response.await?.map(Body::new)) })
            }
        }
    }
}
