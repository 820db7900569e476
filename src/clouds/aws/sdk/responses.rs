//! The checks of every response of AWS, because the SDK alone would accept too much: its end, the sizes that it must
//! contain, and its date. Its length is checked by the client (`http.rs`).

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::SystemTime;

use aws_sdk_autoscaling::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeDeserializationInterceptorContextRef,
    BeforeTransmitInterceptorContextRef,
};
use aws_sdk_autoscaling::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_autoscaling::operation::set_desired_capacity::SetDesiredCapacityOutput;
use aws_sdk_autoscaling::primitives::{DateTime, DateTimeFormat};
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use tokio::time::Instant;

use super::clock::CloudClock;
use super::credentials::ReloadedCredentials;
use super::errors::refuses_credentials;
use super::xml;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Checks the responses of one service.
#[derive(Clone, Debug)]
pub(super) struct Responses {
    pub(super) clock: Arc<CloudClock>,
    pub(super) credentials: ReloadedCredentials,
}

/// When a request was sent.
#[derive(Clone, Copy, Debug)]
struct Sent(Instant);

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

impl Intercept for Responses {
    fn name(&self) -> &'static str {
        "Responses"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        memory: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        memory.interceptor_state().store_put(Sent(Instant::now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        memory: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let date =
            response.headers().get("date").and_then(|text| DateTime::from_str(text, DateTimeFormat::HttpDate).ok());
        if let (Some(date), Some(Sent(sent))) =
            (date.and_then(|date| SystemTime::try_from(date).ok()), memory.load::<Sent>())
        {
            self.clock.compare(date, *sent);
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let body = response.body().bytes().unwrap_or_default();
        if !response.status().is_success() {
            if refuses_credentials(response.status().as_u16(), body) {
                self.credentials.were_refused();
            }
            return Ok(());
        }
        if !xml::is_complete(body) {
            return Err("the response ends early".into());
        }
        // The SDK decodes no body of this response. A proxy may respond with a page of its own.
        let output =
            context.output_or_error().ok().and_then(|output| output.downcast_ref::<SetDesiredCapacityOutput>());
        if output.is_some() && !body.trim_ascii().is_empty() && !xml::is_root(body, b"SetDesiredCapacityResponse") {
            return Err("the body is not a response to SetDesiredCapacity: a proxy may have answered".into());
        }
        Ok(())
    }
}
