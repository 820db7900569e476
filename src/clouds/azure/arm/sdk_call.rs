//! Sends one call of azure_mgmt_compute through [`ArmClient`].
//!
//! The crate only builds requests. Headcount keeps everything else away from it:
//!
//! - It never sees a token. azure_core 0.21 writes the Authorization header into its debug log (`Headers`' Debug
//!   redacts all headers but that one), and its paging sends the token to any host that a `nextLink` names. It gets an
//!   empty credential; [`ArmClient`] adds the token last, and only for the endpoint.
//! - It never sees an item. Its models reject a whole page because of one date that cannot be parsed. Pages are kept
//!   here as received, and the crate gets emptied pages to follow their links.
//! - It never sends a write twice. Its long-running operations send the write again to poll it; the second request is
//!   refused here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use azure_core::http::Url;
use azure_core::time::OffsetDateTime;
use azure_core_legacy as legacy;
use hyper::Method;
use hyper::body::Bytes;
use legacy::auth::AccessToken;
use legacy::error::ErrorKind;
use serde::Deserialize;

use super::api::ReadPurpose;
use super::client::{ArmCall, ArmClient};
use crate::cloud::CloudError;
use crate::clouds::azure::http::HttpResponse;
use crate::clouds::azure::throttle::Bucket;
use crate::clouds::listing_size::{AZURE_LIST_BYTES_MAX, AZURE_MACHINE_LIST_BYTES_MAX, ListSize};
use crate::clouds::page_walk::PageWalk;

/// The most pages of a list. At the smallest known page size, 50, this is ten times the VMs that a scale set can
/// have, and more scale sets than a resource group can hold.
const PAGES_MAX: usize = 200;

/// One call.
#[derive(Debug)]
pub(super) struct SdkCall {
    client: Arc<ArmClient>,
    call: ArmCall,
    sent: AtomicUsize,
    size: Mutex<ListSize>,
    walk: Mutex<PageWalk>,
    responses: Mutex<Vec<HttpResponse>>,
}

/// Wraps our own errors, so that they pass through the crate.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrappedError(CloudError);

/// The part of a page that is needed to find the next one.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NextLink {
    next_link: Option<String>,
}

impl SdkCall {
    pub(super) fn new(client: &Arc<ArmClient>, call: ArmCall) -> Arc<Self> {
        let bytes_max = match call.bucket {
            Bucket::MachineList | Bucket::FlexibleList => AZURE_MACHINE_LIST_BYTES_MAX,
            _ => AZURE_LIST_BYTES_MAX,
        };
        Arc::new(Self {
            client: Arc::clone(client),
            call,
            sent: AtomicUsize::new(0),
            size: Mutex::new(ListSize::of_at_most(bytes_max)),
            walk: Mutex::default(),
            responses: Mutex::default(),
        })
    }

    /// The crate's client for this call. It retries nothing.
    pub(super) fn sdk_client(self: &Arc<Self>) -> azure_mgmt_compute::package_2024_07_01::Client {
        let transport: Arc<dyn legacy::HttpClient> = Arc::clone(self) as _;
        let options = legacy::ClientOptions::new(legacy::TransportOptions::new(transport));
        let options = options.retry(legacy::RetryOptions::none());
        azure_mgmt_compute::package_2024_07_01::Client::new(
            self.client.endpoint().clone(),
            Arc::new(NoToken),
            Vec::new(),
            options,
        )
    }

    /// The responses that were not taken before, as received.
    pub(super) fn responses(&self) -> Vec<HttpResponse> {
        std::mem::take(&mut *self.responses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Unwraps our own error from the crate's.
    pub(super) fn error(&self, error: legacy::Error) -> CloudError {
        match error.into_downcast::<WrappedError>() {
            Ok(WrappedError(error)) => error,
            Err(error) => self.call.context().unintelligible(&error.to_string()),
        }
    }

    async fn forward(&self, request: &legacy::Request) -> Result<legacy::Response, CloudError> {
        let context = self.call.context();
        let pages = self.sent.fetch_add(1, Ordering::Relaxed);
        if self.call.bucket.is_write() && pages > 0 {
            return Err(context.refused("the request was already sent"));
        }
        if pages >= PAGES_MAX {
            return Err(context.unintelligible(&format!("more than {PAGES_MAX} pages")));
        }
        let legacy::Body::Bytes(body) = request.body() else {
            return Err(context.refused("streamed bodies are not supported"));
        };
        let method = Method::from_bytes(request.method().as_ref().as_bytes());
        let method = method.map_err(|error| context.refused(&error.to_string()))?;
        let kept = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let kept: Vec<_> = kept.filter(|(name, _)| *name != "authorization").collect();
        let url = if pages == 0 { spaces_as_percent(request.url()) } else { request.url().clone() };
        // The reserve lets lists through one at a time; one that has begun is finished.
        let call = if pages == 0 { self.call.clone() } else { self.call.clone().of(ReadPurpose::Write) };
        let response = self.client.send(&call, method, &url, &kept, body.clone()).await?;
        let added = self.size.lock().unwrap_or_else(PoisonError::into_inner).add(response.body.len());
        added.map_err(|reason| context.unintelligible(&reason))?;

        // Only lists use this. The other calls read their response from `responses`.
        let end: NextLink = serde_json::from_slice(&response.body).unwrap_or_default();
        let next = end.next_link.filter(|link| !link.is_empty());
        if let Some(next) = &next {
            let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
            // The first page has a link too, but no page has named it.
            let begun = if pages == 0 { walk.follow(url.as_str()) } else { Ok(()) };
            begun.and_then(|()| walk.follow(next)).map_err(|reason| context.unintelligible(reason))?;
        }
        let emptied = serde_json::json!({ "value": [], "nextLink": next }).to_string();
        let status = legacy::StatusCode::try_from(response.status.as_u16()).unwrap_or(legacy::StatusCode::Ok);
        self.responses.lock().unwrap_or_else(PoisonError::into_inner).push(response);
        let body = legacy::BytesStream::new(Bytes::from(emptied));
        Ok(legacy::Response::new(status, legacy::headers::Headers::new(), Box::pin(body)))
    }
}

#[async_trait]
impl legacy::HttpClient for SdkCall {
    async fn execute_request(&self, request: &legacy::Request) -> legacy::Result<legacy::Response> {
        self.forward(request).await.map_err(|error| legacy::Error::new(ErrorKind::Other, WrappedError(error)))
    }
}

// The crate encodes the spaces of a filter as `+`, which Resource Manager may not read as spaces; the Go SDK rewrites
// them for the same reason. A literal `+` is `%2B` here. Links to next pages come from Azure and are not changed.
fn spaces_as_percent(url: &Url) -> Url {
    let mut url = url.clone();
    let query = url.query().map(|query| query.replace('+', "%20"));
    url.set_query(query.as_deref());
    url
}

/// An empty credential for the crate.
#[derive(Debug)]
struct NoToken;

#[async_trait]
impl legacy::auth::TokenCredential for NoToken {
    async fn get_token(&self, _scopes: &[&str]) -> legacy::Result<AccessToken> {
        Ok(AccessToken::new(String::new(), OffsetDateTime::UNIX_EPOCH))
    }

    async fn clear_cache(&self) -> legacy::Result<()> {
        Ok(())
    }
}
