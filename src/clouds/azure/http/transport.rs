//! The HTTP client for Resource Manager, the sign-in service and the metadata service.
//!
//! Both generations of the Azure crates bring a client of their own. The older one opens a connection for every call
//! and has no time limit. Together they would add two copies of one library and a second set of root certificates.
//! They are built without their clients and use this one: hyper and rustls, as in the AWS SDK, and the root
//! certificates of the system.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::{HeaderName, HeaderValue, Headers};
use azure_core::http::{AsyncRawResponse, Body, HttpClient};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::proxy::Connector;
use super::refusal::readable;
use crate::cloud::text::error_chain;
use crate::limits::{AZURE_ERROR, AZURE_RESPONSE, AZURE_SIGN_IN, BodyError, Limit, read_beginning, read_body};

/// Resource Manager keeps idle connections open for minutes, and keepers send calls every few seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Enough for the listing and a few keepers at a time.
const IDLE_CONNECTIONS_MAX: usize = 8;

/// A whole response.
#[derive(Clone, Debug)]
pub(in crate::clouds::azure) struct HttpResponse {
    pub(in crate::clouds::azure) status: StatusCode,
    pub(in crate::clouds::azure) headers: HeaderMap,
    pub(in crate::clouds::azure) body: Bytes,
}

impl HttpResponse {
    /// Returns a header if it is present and is text.
    pub(in crate::clouds::azure) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Why there is no response.
#[derive(Debug, Error)]
pub(in crate::clouds::azure) enum TransportError {
    /// The time limit passed.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// No connection could be made, so nothing was sent.
    #[error("cannot connect to {host}: {}", error_chain(.source))]
    Connect {
        /// The host, and its port if it is not the usual one.
        host: String,
        #[source]
        source: hyper_util::client::legacy::Error,
    },
    /// The connection failed after the request was sent.
    #[error("the connection failed: {}", error_chain(.0.as_ref()))]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body is too long.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
}

/// The client. It keeps connections open, follows no redirects and retries nothing.
pub(in crate::clouds::azure) struct Transport {
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Transport")
    }
}

impl Transport {
    /// A client that trusts the root certificates of the system.
    pub(in crate::clouds::azure) fn new() -> Result<Self, io::Error> {
        // Names the cryptography provider, so that the process default does not matter.
        let https = HttpsConnectorBuilder::new().with_provider_and_native_roots(aws_lc_rs::default_provider())?;
        Ok(Self::over(https.https_or_http().enable_http1().wrap_connector(Connector::from_environment())))
    }

    /// A client for plain HTTP only, which works without root certificates.
    pub(in crate::clouds::azure) fn plain() -> Result<Self, io::Error> {
        let trusts_nobody = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let https = HttpsConnectorBuilder::new().with_tls_config(trusts_nobody);
        Ok(Self::over(https.https_or_http().enable_http1().wrap_connector(Connector::from_environment())))
    }

    /// A client that trusts one certificate.
    #[cfg(test)]
    pub(in crate::clouds::azure) fn trusting(certificate: rustls::pki_types::CertificateDer<'static>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let https = HttpsConnectorBuilder::new().with_tls_config(config);
        Self::over(https.https_or_http().enable_http1().wrap_connector(Connector::from_environment()))
    }

    // hyper resends a request only if a kept connection was closed before any byte of the request was written to it. No
    // request is sent twice, and kept connections cause no failed calls.
    fn over(connector: HttpsConnector<Connector>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Self { client }
    }

    /// Sends a request and reads the whole response within `limit`.
    pub(in crate::clouds::azure) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<HttpResponse, TransportError> {
        self.exchange_up_to(request, limit, AZURE_RESPONSE).await
    }

    /// The same, for responses of another size.
    pub(in crate::clouds::azure) async fn exchange_up_to(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
        size: Limit,
    ) -> Result<HttpResponse, TransportError> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let exchange = async {
            let response = self.client.request(request).await.map_err(|source| match source.is_connect() {
                true => TransportError::Connect { host, source },
                false => TransportError::Broken(source.into()),
            })?;
            let (parts, body) = response.into_parts();
            let read = match parts.status.is_success() {
                true => read_body(body, size).await,
                // Without the end of its body, an error still has its status.
                false => Ok(read_beginning(body, AZURE_ERROR).await),
            };
            let body = read.map_err(|error| match error {
                BodyError::TooLong(bytes) => TransportError::TooLong(bytes),
                BodyError::Broken(error) => TransportError::Broken(error),
            })?;
            Ok(HttpResponse { status: parts.status, headers: parts.headers, body })
        };
        tokio::time::timeout(limit, exchange).await.unwrap_or(Err(TransportError::Timeout(limit)))
    }
}

/// For the credentials of azure_identity.
#[async_trait]
impl HttpClient for Transport {
    async fn execute_request(&self, request: &azure_core::http::Request) -> azure_core::Result<AsyncRawResponse> {
        let other = |error: &dyn fmt::Display| azure_core::Error::with_message(ErrorKind::Other, error.to_string());
        let Body::Bytes(body) = request.body() else {
            return Err(other(&"streamed bodies are not supported"));
        };
        let method = Method::from_bytes(request.method().as_str().as_bytes()).map_err(|error| other(&error))?;
        let mut sent = Request::builder().method(method).uri(request.url().as_str());
        for (name, value) in request.headers().iter() {
            sent = sent.header(name.as_str(), value.as_str());
        }
        let sent = sent.body(Full::new(body.clone())).map_err(|error| other(&error))?;
        let response = self.exchange_up_to(sent, AZURE_SIGN_IN.time(), AZURE_SIGN_IN).await.map_err(|error| {
            let kind =
                if matches!(error, TransportError::Connect { .. }) { ErrorKind::Connection } else { ErrorKind::Io };
            azure_core::Error::new(kind, error)
        })?;
        let headers = response.headers.iter().filter_map(|(name, value)| {
            let value = value.to_str().ok()?.to_owned();
            Some((HeaderName::from(name.as_str().to_owned()), HeaderValue::from(value)))
        });
        let headers = Headers::from(headers.collect::<HashMap<_, _>>());
        let body = readable(response.status, response.body);
        Ok(AsyncRawResponse::from_bytes(response.status.as_u16().into(), headers, body))
    }
}
