//! Counts and times every request of the SDK, retries included.

use std::time::Instant;

use aws_sdk_autoscaling::config::interceptors::{BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef};
use aws_sdk_autoscaling::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, Metadata};
use aws_smithy_types::config_bag::{Storable, StoreReplace};

use super::api::call_names;
use super::errors::is_throttling;
use crate::cloud::{CallMeter, CallStatus};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error code is near the beginning of a response.
const CODE_WITHIN: usize = 4096;

/// Measures the requests of one source.
#[derive(Debug)]
pub(super) struct Metering(CallMeter);

/// When a request was sent.
#[derive(Debug)]
struct Sent(Instant);

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

impl Metering {
    pub(super) fn new(meter: CallMeter) -> Self {
        meter.expect(call_names());
        Self(meter)
    }
}

impl Intercept for Metering {
    fn name(&self) -> &'static str {
        "Metering"
    }

    fn read_before_attempt(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(Sent(Instant::now()));
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let (Some(sent), Some(metadata)) = (bag.load::<Sent>(), bag.load::<Metadata>()) else { return Ok(()) };
        let took = sent.0.elapsed();
        let api = call_names().find(|api| *api == metadata.name()).unwrap_or("other");
        let http = context.response();
        tracing::debug!(
            api,
            milliseconds = took.as_millis(),
            status = http.map(|response| response.status().as_u16()),
            cloud_request_id = http.and_then(|response| response.headers().get("x-amzn-requestid")),
            "AWS responded"
        );
        if let Some(response) = http {
            self.0.responded(api, response.status().as_u16(), response.headers().iter());
        }
        match http {
            None => self.0.observe(api, took, CallStatus::NoResponse),
            Some(response) if response.status().is_success() => {
                let succeeded = context.output_or_error().is_none_or(|outcome| outcome.is_ok());
                self.0.observe(api, took, if succeeded { CallStatus::Success } else { CallStatus::NoResponse });
            }
            Some(response) => {
                let status = response.status().as_u16().to_string();
                let code = error_code(response).unwrap_or(status);
                self.0.observe(api, took, CallStatus::Failed { code: &code, is_throttled: is_throttling(&code) });
            }
        }
        Ok(())
    }
}

/// The error code of a response: the `Code` element of XML, the header of JSON.
fn error_code(response: &HttpResponse) -> Option<String> {
    if let Some(header) = response.headers().get("x-amzn-errortype") {
        // `Code:http://…`
        return header.split([':', ',']).next().map(|code| code.trim().to_owned());
    }
    let body = response.body().bytes()?;
    code_in(&String::from_utf8_lossy(body.get(..CODE_WITHIN).unwrap_or(body)))
}

fn code_in(xml: &str) -> Option<String> {
    let (_, after) = xml.split_once("<Code>")?;
    let (code, _) = after.split_once("</Code>")?;
    Some(code.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_code_is_read_from_the_body() {
        let query = "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code></Error></ErrorResponse>";
        assert_eq!(code_in(query).as_deref(), Some("Throttling"));
        assert_eq!(code_in("<html>502</html>"), None);
        assert_eq!(code_in("<Code>cut o"), None);
    }
}
