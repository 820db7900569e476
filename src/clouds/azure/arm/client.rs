//! The way to one endpoint of Azure Resource Manager: through the limiter, with a token, once.

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
use crate::clouds::azure::throttle::CallLimiter;
use crate::clouds::azure::throttle::{Bucket, ThrottleInfo};

/// A full page of machines with instance view takes seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// A write is only accepted within this time, not finished.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// A token that is not at hand, retries of the sign-in included.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// What a request is for.
#[derive(Clone, Debug)]
pub(in crate::clouds::azure) struct ArmCall {
    /// The API operation, as Azure's documentation names it.
    pub(in crate::clouds::azure) operation: &'static str,
    /// The scale set, location or operation it is about.
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

/// Who calls, and for which audience tokens are asked.
#[derive(Clone)]
pub(in crate::clouds::azure) struct Bearer {
    pub(in crate::clouds::azure) credential: Arc<dyn TokenCredential>,
    pub(in crate::clouds::azure) scope: String,
}

impl fmt::Debug for Bearer {
    // What a credential shows of itself is for its crate to decide, and may hold a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bearer").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The way to one endpoint.
#[derive(Debug)]
pub(in crate::clouds::azure) struct ArmClient {
    transport: Arc<Transport>,
    endpoint: Url,
    bearer: Option<Bearer>,
    limiter: Arc<CallLimiter>,
}

impl ArmClient {
    /// A token is never sent over plain HTTP, whoever asks for it.
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

    /// Whether an address is the endpoint's. Addresses that answers name (next pages, operations) are not believed
    /// blindly: the token would go wherever they say.
    pub(in crate::clouds::azure) fn leads_to(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin() && url.username().is_empty() && url.password().is_none()
    }

    /// Sends one request, once. Anything but a success is an error.
    pub(in crate::clouds::azure) async fn send(
        &self,
        call: &ArmCall,
        method: Method,
        url: &Url,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<HttpResponse, CloudError> {
        let context = call.context();
        if !self.leads_to(url) {
            let host = url.host_str().unwrap_or_default();
            return Err(context
                .refused(&format!("{host} is not the endpoint {}", self.endpoint.host_str().unwrap_or_default())));
        }
        self.limiter.admit(call.bucket, &call.name).map_err(|wait| CloudError::Throttled {
            retry_after: Some(wait),
            fault: context.fault(None, &format!("not sent: the budget is spent for another {} s", wait.as_secs())),
        })?;
        let mut request = Request::builder().method(method.clone()).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body));
        let mut request = request.map_err(|error| context.refused(&format!("no such request: {error}")))?;
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
            "azure answered"
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
        let mut header = header.map_err(|_| context.refused("the token is no text a header can hold"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

#[cfg(test)]
mod tests;
