//! Sends requests to one endpoint of Azure Resource Manager: each one once, with a token, if the limiter allows it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use azure_core::http::Url;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, StatusCode};
use tokio::time::Instant;

use super::api::ReadPurpose;
use super::errors::{ErrorContext, classify};
use super::operations;
use super::sign_in::{Bearer, NewCredential, SignIn, TOKEN_TIMEOUT, TOKEN_TIMEOUT_FOR_WRITE};
use crate::cloud::{CallMeter, CallStatus, CloudError};
use crate::clouds::azure::http::{HttpResponse, Transport, TransportError};
use crate::clouds::azure::throttle::{Bucket, CallLimiter, ThrottleInfo};

/// A full page of VMs with instance view takes seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Azure accepts a write within this time and finishes it later.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A call to Azure Resource Manager.
#[derive(Clone, Debug)]
pub(in crate::clouds::azure) struct ArmCall {
    /// The name of the API operation.
    pub(in crate::clouds::azure) operation: &'static str,
    /// The scale set, location or operation that the call is about.
    pub(in crate::clouds::azure) name: String,
    pub(in crate::clouds::azure) bucket: Bucket,
    pub(in crate::clouds::azure) purpose: ReadPurpose,
}

impl ArmCall {
    pub(in crate::clouds::azure) fn new(operation: &'static str, name: &str, bucket: Bucket) -> Self {
        Self { operation, name: name.to_owned(), bucket, purpose: ReadPurpose::Refresh }
    }

    /// The same call for this purpose.
    pub(in crate::clouds::azure) fn of(self, purpose: ReadPurpose) -> Self {
        Self { purpose, ..self }
    }

    pub(in crate::clouds::azure) fn context(&self) -> ErrorContext<'_> {
        ErrorContext { operation: self.operation, name: &self.name }
    }
}

/// The client of one endpoint.
pub(in crate::clouds::azure) struct ArmClient {
    transport: Arc<Transport>,
    endpoint: Url,
    sign_in: Option<SignIn>,
    limiter: Arc<CallLimiter>,
    meter: CallMeter,
}

impl fmt::Debug for ArmClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ArmClient").field("endpoint", &self.endpoint.as_str()).finish_non_exhaustive()
    }
}

impl ArmClient {
    /// Drops the credential if the endpoint is plain HTTP: tokens are never sent over it.
    pub(in crate::clouds::azure) fn new(
        transport: Arc<Transport>,
        endpoint: Url,
        bearer: Option<Bearer>,
        limiter: Arc<CallLimiter>,
    ) -> Self {
        let sign_in = bearer.filter(|_| endpoint.scheme() == "https").map(SignIn::new);
        Self { transport, endpoint, sign_in, limiter, meter: CallMeter::default() }
    }

    /// The same client, whose requests this meter counts.
    pub(in crate::clouds::azure) fn metered(mut self, meter: CallMeter) -> Self {
        meter.expect(operations::ALL);
        self.meter = meter;
        self
    }

    /// Signs in with this credential from now on, if there is a token for it. Otherwise the previous one stays in use.
    /// Does nothing over plain HTTP, which carries no tokens.
    pub(in crate::clouds::azure) async fn sign_in_with(&self, new: NewCredential) -> Result<(), String> {
        let Some(sign_in) = &self.sign_in else { return Ok(()) };
        let signed_in = sign_in.with(new, self.sign_in_context()).await;
        self.meter.credentials_renewed(signed_in.is_ok());
        signed_in
    }

    /// Whom the tokens are issued to; `None` without tokens, or where they do not say.
    pub(in crate::clouds::azure) async fn application(&self) -> Result<Option<String>, CloudError> {
        match &self.sign_in {
            Some(sign_in) => sign_in.application(self.sign_in_context()).await,
            None => Ok(None),
        }
    }

    fn sign_in_context(&self) -> ErrorContext<'_> {
        ErrorContext { operation: "sign-in", name: self.endpoint.host_str().unwrap_or_default() }
    }

    pub(in crate::clouds::azure) fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    pub(in crate::clouds::azure) fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }

    pub(in crate::clouds::azure) fn limiter(&self) -> &CallLimiter {
        &self.limiter
    }

    /// Whether a URL is on the endpoint. URLs in responses (next pages, operations) are checked before they are called,
    /// because the request carries the token.
    pub(in crate::clouds::azure) fn is_on_endpoint(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin() && url.username().is_empty() && url.password().is_none()
    }

    /// Sends a request once. If the token is refused, a read is sent once more with a new one. Whether there is still
    /// time to send a write again, only the caller knows (law 9). Any status other than success is an error.
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
            let (origin, endpoint) = (url.origin().ascii_serialization(), self.endpoint.origin().ascii_serialization());
            return Err(context.refused(&if origin == endpoint {
                format!("the URL contains a user name, which URLs of the endpoint {endpoint} never do")
            } else {
                format!("{origin} is not the configured endpoint {endpoint}")
            }));
        }
        let can_wait = call.bucket.can_wait() && call.purpose == ReadPurpose::Refresh;
        self.limiter.admit_call(call.bucket, &call.name, can_wait).map_err(|wait| CloudError::Throttled {
            retry_after: Some(wait),
            fault: context.fault(None, &self.why_not_sent(call, wait)),
        })?;
        let (mut response, mut generation) = self.send_once(call, &method, url, headers, &body).await?;
        if response.status == StatusCode::UNAUTHORIZED && self.renew(generation).await {
            tracing::warn!(api = call.operation, name = call.name, "Azure refused the token; renewing it");
            // A request with a refused token had no effect.
            if call.bucket.is_write() {
                let refused = classify(context, &response);
                return Err(CloudError::NotSent(Box::new(refused.fault().clone())));
            }
            (response, generation) = self.send_once(call, &method, url, headers, &body).await?;
        }
        if response.status.is_success() {
            if let Some(sign_in) = &self.sign_in {
                sign_in.token_was_accepted(generation);
            }
            return Ok(response);
        }
        Err(classify(context, &response))
    }

    /// Drops the token of this generation. Returns whether there is another one to try.
    async fn renew(&self, generation: u64) -> bool {
        match &self.sign_in {
            Some(sign_in) => sign_in.renew(generation).await,
            None => false,
        }
    }

    fn why_not_sent(&self, call: &ArmCall, wait: Duration) -> String {
        let seconds = wait.as_secs_f64().ceil();
        if self.limiter.closed_for(call.bucket, &call.name).is_some() {
            return format!("not sent: throttled by Azure for another {seconds} s");
        }
        format!(
            "not sent: Azure's budget for these calls is nearly used up, and the rest is kept for writes; tried again in \
             {seconds} s"
        )
    }

    async fn send_once(
        &self,
        call: &ArmCall,
        method: &Method,
        url: &Url,
        headers: &[(&str, &str)],
        body: &Bytes,
    ) -> Result<(HttpResponse, u64), CloudError> {
        let context = call.context();
        let mut request = Request::builder().method(method.clone()).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.clone()));
        let mut request = request.map_err(|error| context.refused(&format!("the request is invalid: {error}")))?;
        let is_write = call.bucket.is_write();
        let patience = if is_write { TOKEN_TIMEOUT_FOR_WRITE } else { TOKEN_TIMEOUT };
        let token = match &self.sign_in {
            Some(sign_in) => Some(sign_in.token(context, patience).await.map_err(|error| match error {
                CloudError::Unreachable(fault) if is_write => CloudError::NotSent(fault),
                error => error,
            })?),
            None => None,
        };
        let generation = token.as_ref().map_or(0, |(_, generation)| *generation);
        if let Some((token, _)) = token {
            request.headers_mut().insert(AUTHORIZATION, token);
        }

        let limit = if is_write { WRITE_TIMEOUT } else { READ_TIMEOUT };
        let sent = Instant::now();
        let exchanged = self.transport.exchange(request, limit).await;
        self.measure(call, sent.elapsed(), exchanged.as_ref().ok());
        let response = exchanged.map_err(|error| match (context.unreachable(&error), error) {
            (CloudError::Unreachable(fault), TransportError::Connect { .. }) if is_write => CloudError::NotSent(fault),
            (error, _) => error,
        })?;
        tracing::debug!(
            api = call.operation,
            name = call.name,
            status = response.status.as_u16(),
            cloud_request_id = response.header("x-ms-request-id"),
            "Azure responded"
        );
        self.limiter.record(call.bucket, &call.name, ThrottleInfo::read(&response, SystemTime::now()));
        Ok((response, generation))
    }

    fn measure(&self, call: &ArmCall, took: Duration, response: Option<&HttpResponse>) {
        let Some(response) = response else {
            return self.meter.observe(call.operation, took, CallStatus::NoResponse);
        };
        let headers = response.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        self.meter.responded(call.operation, response.status.as_u16(), headers);
        if response.status.is_success() {
            return self.meter.observe(call.operation, took, CallStatus::Success);
        }
        let error = classify(call.context(), response);
        let status = response.status.as_str();
        let code = error.fault().code.as_deref().unwrap_or(status);
        let is_throttled = matches!(error, CloudError::Throttled { .. });
        self.meter.observe(call.operation, took, CallStatus::Failed { code, is_throttled });
    }
}

#[cfg(test)]
mod tests;
