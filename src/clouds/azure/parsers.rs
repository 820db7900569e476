//! The parsers of what Azure sends, each as a function of any bytes; see [`crate::parsers`].

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use async_trait::async_trait;
use azure_core::http::headers::Headers;
use azure_core::http::{AsyncRawResponse, HttpClient};
use hyper::body::Bytes;
use hyper::{HeaderMap, StatusCode};
use tokio::runtime::{Builder, Runtime};

use super::arm::{application, parse_page};
use super::auth::{credential, parse_certificate, parse_token};
use super::http::{ErrorBody, HttpResponse, is_throttling, readable};
use super::{AzureCloud, Credential, ids, retail_prices, tags};
use crate::cloud::secrets::Secret;

/// Reads a page of scale sets, VMs, sizes or autoscale settings, the body of an error or of an operation, and a token.
pub fn page(bytes: &[u8]) {
    let body = bytes.to_vec();
    let response = |status| HttpResponse { status, headers: HeaderMap::new(), body: body.clone().into() };
    for status in [StatusCode::OK, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS] {
        parse_page(response(status), SystemTime::UNIX_EPOCH);
    }
    let _prices = retail_prices::parse(bytes);
    let error = ErrorBody::read(bytes);
    let _throttled = is_throttling(429, error.as_ref());
    let _codes = error.map(|error| error.codes());
    let _application = application(&String::from_utf8_lossy(bytes));
}

/// Reads the response of the sign-in service and of the metadata service, as azure_identity does.
pub fn sign_in_response(bytes: &[u8]) {
    let Some(runtime) = RUNTIME.as_ref() else { return };
    let secret = Credential::ClientSecret {
        tenant_id: "tenant".to_owned(),
        client_id: "client".to_owned(),
        secret: Secret::new("short"),
    };
    let identity = Credential::ManagedIdentity { user_assigned: None };
    let (ok, refused) = (StatusCode::OK, StatusCode::UNAUTHORIZED);
    for (status, settings) in [(ok, &secret), (refused, &secret), (ok, &identity)] {
        let response = Arc::new(Response(status, Bytes::copy_from_slice(bytes)));
        let Ok(credential) = credential(settings, AzureCloud::Public, response) else { continue };
        let token = runtime.block_on(credential.get_token(&["https://management.azure.com/.default"], None));
        let _until = token.map(|token| SystemTime::from(token.expires_on));
    }
}

static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| Builder::new_current_thread().enable_all().build().ok());

/// The response to every request: its status and its body.
#[derive(Debug)]
struct Response(StatusCode, Bytes);

#[async_trait]
impl HttpClient for Response {
    async fn execute_request(&self, _: &azure_core::http::Request) -> azure_core::Result<AsyncRawResponse> {
        let body = readable(self.0, self.1.clone());
        Ok(AsyncRawResponse::from_bytes(self.0.as_u16().into(), Headers::new(), body))
    }
}

/// Reads a certificate and a service account token.
pub fn credential_file(bytes: &[u8]) {
    let _found = (parse_certificate(bytes), parse_token(bytes));
}

/// Reads the tags of a scale set, one `key=value` in a line.
pub fn tags(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let tags = text.lines().map(|line| line.split_once('=').unwrap_or((line, "")));
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let _hints = tags::hints(&tags, &mut Vec::new());
    let _aks = (tags::is_of_aks(&tags), tags::aks_minor_version(&tags), tags::has_overlay(&tags));
}

/// Reads a provider ID.
pub fn provider_id(bytes: &[u8]) {
    let _parsed = ids::parse(&String::from_utf8_lossy(bytes)).is_some();
}
