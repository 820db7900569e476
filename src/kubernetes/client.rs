//! The client: one connection a call, so that whatever was rotated counts from the next call on.

use std::io;
use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::access::{Access, AccessError, Door};
use super::error::KubernetesError;
use super::wire::{self, RawConfigMap, RawNodes, Refusal};
use super::{ConfigMap, KubernetesApi, NAMESPACE_DEFAULT, NodePage, Settings};

/// An API server is in the same network; one that takes longer to accept is not there.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// A page of nodes takes a busy API server a second or two.
const CALL_LIMIT: Duration = Duration::from_secs(20);
/// kubectl's own page size.
const PAGE_NODES: usize = 500;
/// A node is 10 to 40 KiB of JSON, most of it names of images and managed fields.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Of a refusal's message: more is not read by anyone.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// The API server of one cluster.
#[derive(Clone, Debug)]
pub struct Client {
    access: Access,
    namespace: String,
    config_map: String,
}

struct Call {
    operation: &'static str,
    method: Method,
    path: String,
    body: Option<(&'static str, Value)>,
}

impl Client {
    /// A client. Fails where there is nothing that says where the API server is, or what says it cannot be used; the API
    /// server itself is not called yet.
    pub fn new(settings: Settings, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, AccessError> {
        let Settings { kubeconfig, namespace, config_map } = settings;
        let access = Access::find(kubeconfig, environment)?;
        access.open()?;
        Ok(Self::with_access(access, namespace, config_map))
    }

    pub(super) fn with_access(access: Access, namespace: Option<String>, config_map: String) -> Self {
        let namespace = namespace.or_else(|| access.namespace()).unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned());
        Self { access, namespace, config_map }
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Makes a call and reads the whole answer.
    async fn call(&self, call: Call) -> Result<Bytes, KubernetesError> {
        let operation = call.operation;
        let broken = |source| KubernetesError::Broken { operation, source };
        let access = self.access.clone();
        let door = tokio::task::spawn_blocking(move || access.open()).await.map_err(|error| broken(error.into()))??;
        let (status, body) = match timeout(CALL_LIMIT, exchange(&door, call)).await {
            Ok(answer) => answer?,
            Err(_elapsed) => return Err(KubernetesError::Timeout { operation, limit: CALL_LIMIT }),
        };
        if status.is_success() {
            return Ok(body);
        }
        let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        let message = refusal.message.chars().take(MESSAGE_CHARACTERS_MAX).collect();
        Err(KubernetesError::Refused { operation, status, message })
    }

    async fn config_map(&self, call: Call) -> Result<ConfigMap, KubernetesError> {
        let operation = call.operation;
        Ok(decode::<RawConfigMap>(operation, self.call(call).await?).await?.into())
    }
}

/// Decodes off the threads that answer the Cluster Autoscaler: a page of nodes is megabytes.
async fn decode<T: DeserializeOwned + Send + 'static>(
    operation: &'static str,
    body: Bytes,
) -> Result<T, KubernetesError> {
    let decoded = tokio::task::spawn_blocking(move || serde_json::from_slice(&body)).await;
    let decoded = decoded.map_err(|error| KubernetesError::Broken { operation, source: error.into() })?;
    decoded.map_err(|source| KubernetesError::Unintelligible { operation, source })
}

async fn exchange(door: &Door, call: Call) -> Result<(StatusCode, Bytes), KubernetesError> {
    let server = format!("{}:{}", door.host, door.port);
    let failed = |source| KubernetesError::Connect { server: server.clone(), source };
    let connecting = async {
        let stream = TcpStream::connect((door.host.as_str(), door.port)).await?;
        match &door.tls {
            None => Ok(Either::Left(stream)),
            Some((config, name)) => {
                TlsConnector::from(config.clone()).connect(name.clone(), stream).await.map(Either::Right)
            }
        }
    };
    let connected = timeout(CONNECT_LIMIT, connecting).await.unwrap_or_else(|_elapsed| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_LIMIT:?}")))
    });
    match connected.map_err(failed)? {
        Either::Left(stream) => send(stream, door, call).await,
        Either::Right(stream) => send(stream, door, call).await,
    }
}

async fn send<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    door: &Door,
    call: Call,
) -> Result<(StatusCode, Bytes), KubernetesError> {
    let operation = call.operation;
    let broken = |error: hyper::Error| KubernetesError::Broken { operation, source: error.into() };
    let request = request(door, call).map_err(|error| KubernetesError::Broken { operation, source: error.into() })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = pin!(async move {
        let response = sender.send_request(request).await.map_err(broken)?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|source| KubernetesError::Broken { operation, source })?;
        Ok((parts.status, body.to_bytes()))
    });
    // The connection is driven from here, so that it ends with the call and not in a task of its own.
    match select(answer, pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_closed, answer)) => answer.await,
    }
}

fn request(door: &Door, call: Call) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let host = if door.host.contains(':') { format!("[{}]", door.host) } else { door.host.clone() };
    let mut request = Request::builder()
        .method(call.method)
        .uri(format!("{}{}", door.prefix, call.path))
        .header(HOST, format!("{host}:{}", door.port))
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("headcount/", env!("CARGO_PKG_VERSION")));
    if let Some(authorization) = &door.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    match call.body {
        None => request.body(Full::default()),
        Some((kind, body)) => request.header(CONTENT_TYPE, kind).body(Full::new(body.to_string().into())),
    }
}

#[async_trait]
impl KubernetesApi for Client {
    async fn list_nodes(&self, from: Option<&str>) -> Result<NodePage, KubernetesError> {
        let mut path = format!("/api/v1/nodes?limit={PAGE_NODES}");
        if let Some(from) = from {
            path.push_str(&format!("&continue={}", encoded(from)));
        }
        let call = Call { operation: "list nodes", method: Method::GET, path, body: None };
        let operation = call.operation;
        Ok(decode::<RawNodes>(operation, self.call(call).await?).await?.into())
    }

    async fn get_config_map(&self) -> Result<Option<ConfigMap>, KubernetesError> {
        let path = format!("{}/{}", self.config_maps(), self.config_map);
        let call = Call { operation: "get the ConfigMap", method: Method::GET, path, body: None };
        match self.config_map(call).await {
            Err(KubernetesError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    async fn create_config_map(&self, text: &str) -> Result<ConfigMap, KubernetesError> {
        let body = wire::new_config_map(&self.namespace, &self.config_map, text);
        let body = Some(("application/json", body));
        self.config_map(Call {
            operation: "create the ConfigMap",
            method: Method::POST,
            path: self.config_maps(),
            body,
        })
        .await
    }

    async fn patch_config_map(&self, version: &str, text: &str) -> Result<ConfigMap, KubernetesError> {
        let path = format!("{}/{}", self.config_maps(), self.config_map);
        let body = Some(("application/merge-patch+json", wire::patch(version, text)));
        self.config_map(Call { operation: "patch the ConfigMap", method: Method::PATCH, path, body }).await
    }
}

/// Percent-encodes everything but letters, digits and `-_.`.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
