//! Sends requests to one endpoint of Azure Resource Manager: each one once, with a token, if the limiter allows it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use azure_core::credentials::TokenCredential;
use azure_core::http::Url;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request, StatusCode};
use tokio::time::Instant;

use super::api::ReadPurpose;
use super::errors::{ErrorContext, classify};
use super::operations;
use crate::cloud::secrets::keep_secret;
use crate::cloud::{CallMeter, CallStatus, CloudError};
use crate::clouds::azure::http::{HttpResponse, Transport};
use crate::clouds::azure::throttle::{Bucket, CallLimiter, ThrottleInfo};

/// A full page of VMs with instance view takes seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Azure accepts a write within this time and finishes it later.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time to get a new token, including retries of the sign-in.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before a token is renewed again, if the renewed one was refused as well. It doubles each time.
const RENEW_PAUSE_MIN: Duration = Duration::from_secs(15);
const RENEW_PAUSE_MAX: Duration = Duration::from_secs(300);

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

/// Creates a credential without cached tokens.
pub(in crate::clouds::azure) type NewCredential =
    Arc<dyn Fn() -> Result<Arc<dyn TokenCredential>, String> + Send + Sync>;

/// The credential, and the scope that tokens are requested for.
#[derive(Clone)]
pub(in crate::clouds::azure) struct Bearer {
    pub(in crate::clouds::azure) credential: Arc<dyn TokenCredential>,
    pub(in crate::clouds::azure) scope: String,
    /// azure_identity caches a token until it expires and has no way to drop it, so a token that is refused before that needs
    /// a new credential.
    pub(in crate::clouds::azure) renew: NewCredential,
}

/// The credential in use, and when it may be renewed.
#[derive(Clone)]
struct CurrentCredential {
    credential: Arc<dyn TokenCredential>,
    generation: u64,
    renew: NewCredential,
    /// Not before this. Each renewal that did not help doubles the pause.
    renew_at: Option<Instant>,
    pause: Duration,
}

impl fmt::Debug for Bearer {
    // The Debug output of a credential may contain a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bearer").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The client of one endpoint.
pub(in crate::clouds::azure) struct ArmClient {
    transport: Arc<Transport>,
    endpoint: Url,
    bearer: Option<Bearer>,
    current: Option<Mutex<CurrentCredential>>,
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
        let bearer = bearer.filter(|_| endpoint.scheme() == "https");
        let current = bearer.as_ref().map(|bearer| {
            let credential = Arc::clone(&bearer.credential);
            let renew = Arc::clone(&bearer.renew);
            Mutex::new(CurrentCredential { credential, generation: 0, renew, renew_at: None, pause: RENEW_PAUSE_MIN })
        });
        Self { transport, endpoint, bearer, current, limiter, meter: CallMeter::default() }
    }

    /// The same client, whose requests this meter counts.
    pub(in crate::clouds::azure) fn metered(mut self, meter: CallMeter) -> Self {
        meter.expect(operations::ALL);
        self.meter = meter;
        self
    }

    /// Signs in with this credential from now on, if there is a token for it. Otherwise the one before stays in use. Over plain
    /// HTTP there is nothing to sign in for.
    pub(in crate::clouds::azure) async fn sign_in_with(&self, new: NewCredential) -> Result<(), String> {
        let (Some(Bearer { scope, .. }), Some(_)) = (&self.bearer, &self.current) else { return Ok(()) };
        let signed_in = self.try_sign_in(&new, scope).await;
        self.meter.credentials_renewed(signed_in.is_ok());
        let credential = signed_in?;
        if let Some(mut current) = self.current() {
            let generation = current.generation + 1;
            *current = CurrentCredential { credential, generation, renew: new, renew_at: None, pause: RENEW_PAUSE_MIN };
        }
        Ok(())
    }

    async fn try_sign_in(&self, new: &NewCredential, scope: &str) -> Result<Arc<dyn TokenCredential>, String> {
        let credential = new()?;
        let token = tokio::time::timeout(TOKEN_TIMEOUT, credential.get_token(&[scope], None)).await;
        let token = token.map_err(|_| format!("no token within {TOKEN_TIMEOUT:?}"))?;
        let context = ErrorContext { operation: "sign-in", name: self.endpoint.host_str().unwrap_or_default() };
        keep_secret(token.map_err(|error| context.no_token(&error).to_string())?.token.secret());
        Ok(credential)
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
    /// because the token goes along.
    pub(in crate::clouds::azure) fn is_on_endpoint(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin() && url.username().is_empty() && url.password().is_none()
    }

    /// Sends a request once, and once more with a new token if the token is refused. Any status other than success is an error.
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
                format!("the URL names a user, which no URL of the endpoint {endpoint} does")
            } else {
                format!("{origin} is not the configured endpoint {endpoint}")
            }));
        }
        let can_wait = call.bucket.can_wait() && call.purpose == ReadPurpose::Refresh;
        self.limiter.admit_call(call.bucket, &call.name, can_wait).map_err(|wait| CloudError::Throttled {
            retry_after: Some(wait),
            fault: context.fault(None, &format!("not sent: throttled by Azure for another {} s", wait.as_secs())),
        })?;
        let (mut response, generation) = self.send_once(call, &method, url, headers, &body).await?;
        // A refused token has caused nothing, so this is no second write.
        if response.status == StatusCode::UNAUTHORIZED && self.renew(generation) {
            tracing::warn!(operation = call.operation, name = call.name, "Azure refused the token; it is renewed");
            response = self.send_once(call, &method, url, headers, &body).await?.0;
        }
        if response.status.is_success() {
            self.token_was_accepted();
            return Ok(response);
        }
        Err(classify(context, &response))
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
        let token = self.token(call).await?;
        let generation = token.as_ref().map_or(0, |(_, generation)| *generation);
        if let Some((token, _)) = token {
            request.headers_mut().insert(AUTHORIZATION, token);
        }

        let limit = if call.bucket.is_write() { WRITE_TIMEOUT } else { READ_TIMEOUT };
        let sent = Instant::now();
        let exchanged = self.transport.exchange(request, limit).await;
        self.measure(call, sent.elapsed(), exchanged.as_ref().ok());
        let response = exchanged.map_err(|error| context.unreachable(&error))?;
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
        if response.status.is_success() {
            return self.meter.observe(call.operation, took, CallStatus::Success);
        }
        let error = classify(call.context(), response);
        let status = response.status.as_str();
        let code = error.fault().code.as_deref().unwrap_or(status);
        let is_throttled = matches!(error, CloudError::Throttled { .. });
        self.meter.observe(call.operation, took, CallStatus::Failed { code, is_throttled });
    }

    fn current(&self) -> Option<MutexGuard<'_, CurrentCredential>> {
        self.current.as_ref().map(|current| current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops the token of this generation. Returns whether there is another credential to try.
    fn renew(&self, generation: u64) -> bool {
        let Some(mut current) = self.current() else { return false };
        if current.generation != generation {
            return true;
        }
        let now = Instant::now();
        if current.renew_at.is_some_and(|at| now < at) {
            return false;
        }
        let renew = Arc::clone(&current.renew);
        let Ok(credential) = renew() else { return false };
        let pause = current.pause;
        *current = CurrentCredential {
            credential,
            generation: generation + 1,
            renew,
            renew_at: Some(now + pause),
            pause: (pause * 2).min(RENEW_PAUSE_MAX),
        };
        true
    }

    fn token_was_accepted(&self) {
        if let Some(mut current) = self.current() {
            (current.renew_at, current.pause) = (None, RENEW_PAUSE_MIN);
        }
    }

    /// A token, and the generation of the credential that it comes from.
    async fn token(&self, call: &ArmCall) -> Result<Option<(HeaderValue, u64)>, CloudError> {
        let context = call.context();
        let (Some(Bearer { scope, .. }), Some(current)) = (&self.bearer, self.current().map(|current| current.clone()))
        else {
            return Ok(None);
        };
        let CurrentCredential { credential, generation, .. } = current;
        let scopes = [scope.as_str()];
        let token = tokio::time::timeout(TOKEN_TIMEOUT, credential.get_token(&scopes, None));
        let token = token
            .await
            .map_err(|_| CloudError::Unreachable(context.fault(None, &format!("no token within {TOKEN_TIMEOUT:?}"))))?;
        let token = token.map_err(|error| context.no_token(&error))?;
        keep_secret(token.token.secret());
        let header = HeaderValue::from_str(&format!("Bearer {}", token.token.secret()));
        let mut header =
            header.map_err(|_| context.refused("the token contains characters that a header cannot hold"))?;
        header.set_sensitive(true);
        Ok(Some((header, generation)))
    }
}

#[cfg(test)]
mod tests;
