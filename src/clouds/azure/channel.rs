//! The way to one endpoint of Azure Resource Manager: through the gate, with a token, once.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use azure_core::credentials::TokenCredential;
use azure_core::http::Url;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request};

use super::budget::{Bucket, Notice};
use super::errors::{Subject, verdict};
use super::gate::Gate;
use super::transport::{Answer, Transport};
use crate::cloud::CloudError;

/// A full page of machines with instance view takes seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// A write is only accepted within this time, not finished.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// A token that is not at hand, retries of the sign-in included.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// What a request is for.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    /// The API operation, as Azure's documentation names it.
    pub(super) operation: &'static str,
    /// The scale set, location or operation it is about.
    pub(super) name: String,
    pub(super) bucket: Bucket,
}

impl Errand {
    pub(super) fn new(operation: &'static str, name: &str, bucket: Bucket) -> Self {
        Self { operation, name: name.to_owned(), bucket }
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject { operation: self.operation, name: &self.name }
    }
}

/// Who calls, and for which audience tokens are asked.
#[derive(Clone)]
pub(super) struct Bearer {
    pub(super) credential: Arc<dyn TokenCredential>,
    pub(super) scope: String,
}

impl fmt::Debug for Bearer {
    // What a credential shows of itself is for its crate to decide, and may hold a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bearer").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The way to one endpoint.
#[derive(Debug)]
pub(super) struct Channel {
    transport: Arc<Transport>,
    endpoint: Url,
    bearer: Option<Bearer>,
    gate: Arc<Gate>,
}

impl Channel {
    /// A token is never sent over plain HTTP, whoever asks for it.
    pub(super) fn new(transport: Arc<Transport>, endpoint: Url, bearer: Option<Bearer>, gate: Arc<Gate>) -> Self {
        let bearer = bearer.filter(|_| endpoint.scheme() == "https");
        Self { transport, endpoint, bearer, gate }
    }

    pub(super) fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether an address is the endpoint's. Addresses that answers name (next pages, operations) are not believed
    /// blindly: the token would go wherever they say.
    pub(super) fn leads_to(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin() && url.username().is_empty() && url.password().is_none()
    }

    /// Sends one request, once. Anything but a success is an error.
    pub(super) async fn send(
        &self,
        errand: &Errand,
        method: Method,
        url: &Url,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, CloudError> {
        let subject = errand.subject();
        if !self.leads_to(url) {
            let host = url.host_str().unwrap_or_default();
            return Err(subject
                .refused(&format!("{host} is not the endpoint {}", self.endpoint.host_str().unwrap_or_default())));
        }
        self.gate.admit(errand.bucket, &errand.name).map_err(|wait| CloudError::Throttled {
            retry_after: Some(wait),
            fault: subject.fault(None, &format!("not sent: the budget is spent for another {} s", wait.as_secs())),
        })?;
        let mut request = Request::builder().method(method.clone()).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body));
        let mut request = request.map_err(|error| subject.refused(&format!("no such request: {error}")))?;
        if let Some(token) = self.token(errand).await? {
            request.headers_mut().insert(AUTHORIZATION, token);
        }

        let limit = if errand.bucket.is_write() { WRITE_TIMEOUT } else { READ_TIMEOUT };
        let answer = self.transport.exchange(request, limit).await.map_err(|error| subject.unreachable(&error))?;
        tracing::debug!(
            operation = errand.operation,
            name = errand.name,
            status = answer.status.as_u16(),
            request_id = answer.header("x-ms-request-id"),
            "azure answered"
        );
        self.gate.record(errand.bucket, &errand.name, Notice::read(&answer, SystemTime::now()));
        if answer.status.is_success() { Ok(answer) } else { Err(verdict(subject, &answer)) }
    }

    async fn token(&self, errand: &Errand) -> Result<Option<HeaderValue>, CloudError> {
        let subject = errand.subject();
        let Some(Bearer { credential, scope }) = &self.bearer else {
            return Ok(None);
        };
        let scopes = [scope.as_str()];
        let token = tokio::time::timeout(TOKEN_TIMEOUT, credential.get_token(&scopes, None));
        let token = token
            .await
            .map_err(|_| CloudError::Unreachable(subject.fault(None, &format!("no token within {TOKEN_TIMEOUT:?}"))))?;
        let token = token.map_err(|error| subject.no_token(&error))?;
        let header = HeaderValue::from_str(&format!("Bearer {}", token.token.secret()));
        let mut header = header.map_err(|_| subject.refused("the token is no text a header can hold"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

#[cfg(test)]
mod tests;
