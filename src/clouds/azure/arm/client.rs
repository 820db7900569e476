//! Sends requests to one endpoint of Azure Resource Manager: each one once, with a token, if the limiter allows it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use azure_core::credentials::TokenCredential;
use azure_core::http::Url;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request};

use super::errors::{ErrorContext, classify};
use crate::cloud::CloudError;
use crate::clouds::azure::http::{HttpResponse, Transport};
use crate::clouds::azure::throttle::{Bucket, CallLimiter, ThrottleInfo};

/// A full page of VMs with instance view takes seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Azure accepts a write within this time and finishes it later.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time to get a new token, including retries of the sign-in.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A call to Azure Resource Manager.
#[derive(Clone, Debug)]
pub(in crate::clouds::azure) struct ArmCall {
    /// The name of the API operation.
    pub(in crate::clouds::azure) operation: &'static str,
    /// The scale set, location or operation that the call is about.
    pub(in crate::clouds::azure) name: String,
    pub(in crate::clouds::azure) bucket: Bucket,
}

impl ArmCall {
    pub(in crate::clouds::azure) fn new(operation: &'static str, name: &str, bucket: Bucket) -> Self {
        Self { operation, name: name.to_owned(), bucket }
    }

    pub(in crate::clouds::azure) fn context(&self) -> ErrorContext<'_> {
        ErrorContext { operation: self.operation, name: &self.name }
    }
}

/// The credential, and the scope that tokens are requested for.
#[derive(Clone)]
pub(in crate::clouds::azure) struct Bearer {
    pub(in crate::clouds::azure) credential: Arc<dyn TokenCredential>,
    pub(in crate::clouds::azure) scope: String,
}

impl fmt::Debug for Bearer {
    // The Debug output of a credential may contain a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bearer").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The client of one endpoint.
#[derive(Debug)]
pub(in crate::clouds::azure) struct ArmClient {
    transport: Arc<Transport>,
    endpoint: Url,
    bearer: Option<Bearer>,
    limiter: Arc<CallLimiter>,
}

impl ArmClient {
    /// Drops the credential if the endpoint is plain HTTP: tokens are never sent over it.
    pub(in crate::clouds::azure) fn new(
        transport: Arc<Transport>,
        endpoint: Url,
        bearer: Option<Bearer>,
        limiter: Arc<CallLimiter>,
    ) -> Self {
        let bearer = bearer.filter(|_| endpoint.scheme() == "https");
        Self { transport, endpoint, bearer, limiter }
    }

    pub(in crate::clouds::azure) fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    pub(in crate::clouds::azure) fn limiter(&self) -> &CallLimiter {
        &self.limiter
    }

    /// Whether a URL is on the endpoint. URLs in responses (next pages, operations) are checked before they are called,
    /// because the token goes along.
    pub(in crate::clouds::azure) fn is_on_endpoint(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin() && url.username().is_empty() && url.password().is_none()
    }

    /// Sends a request once. Any status other than success is an error.
    pub(in crate::clouds::azure) async fn send(
        &self,
        call: &ArmCall,
        method: Method,
        url: &Url,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<HttpResponse, CloudError> {
        let context = call.context();
        if !self.is_on_endpoint(url) {
            let host = url.host_str().unwrap_or_default();
            return Err(context.refused(&format!(
                "{host} is not the configured endpoint {}",
                self.endpoint.host_str().unwrap_or_default()
            )));
        }
        self.limiter.admit(call.bucket, &call.name).map_err(|wait| CloudError::Throttled {
            retry_after: Some(wait),
            fault: context.fault(None, &format!("not sent: throttled by Azure for another {} s", wait.as_secs())),
        })?;
        let mut request = Request::builder().method(method.clone()).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body));
        let mut request = request.map_err(|error| context.refused(&format!("the request is invalid: {error}")))?;
        if let Some(token) = self.token(call).await? {
            request.headers_mut().insert(AUTHORIZATION, token);
        }

        let limit = if call.bucket.is_write() { WRITE_TIMEOUT } else { READ_TIMEOUT };
        let response = self.transport.exchange(request, limit).await.map_err(|error| context.unreachable(&error))?;
        tracing::debug!(
            operation = call.operation,
            name = call.name,
            status = response.status.as_u16(),
            request_id = response.header("x-ms-request-id"),
            "Azure responded"
        );
        self.limiter.record(call.bucket, &call.name, ThrottleInfo::read(&response, SystemTime::now()));
        if response.status.is_success() { Ok(response) } else { Err(classify(context, &response)) }
    }

    async fn token(&self, call: &ArmCall) -> Result<Option<HeaderValue>, CloudError> {
        let context = call.context();
        let Some(Bearer { credential, scope }) = &self.bearer else {
            return Ok(None);
        };
        let scopes = [scope.as_str()];
        let token = tokio::time::timeout(TOKEN_TIMEOUT, credential.get_token(&scopes, None));
        let token = token
            .await
            .map_err(|_| CloudError::Unreachable(context.fault(None, &format!("no token within {TOKEN_TIMEOUT:?}"))))?;
        let token = token.map_err(|error| context.no_token(&error))?;
        let header = HeaderValue::from_str(&format!("Bearer {}", token.token.secret()));
        let mut header =
            header.map_err(|_| context.refused("the token contains characters that a header cannot hold"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

#[cfg(test)]
mod tests;
