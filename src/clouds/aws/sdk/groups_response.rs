//! The response to DescribeAutoScalingGroups. The SDK decodes all of its groups or none: a number or a date of one
//! group that it does not understand would hide the others. Then each group is decoded by itself.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_autoscaling::config::http::HttpResponse;
use aws_sdk_autoscaling::config::interceptors::FinalizerInterceptorContextMut;
use aws_sdk_autoscaling::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_autoscaling::operation::describe_auto_scaling_groups::{
    DescribeAutoScalingGroupsError, DescribeAutoScalingGroupsOutput,
};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Output};
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_runtime_api::client::ser_de::{DeserializeResponse as _, SharedResponseDeserializer};
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use thiserror::Error;

use super::api::BrokenGroup;
use super::xml;
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};

type BoxError = Box<dyn StdError + Send + Sync>;

/// The token after a group that is decoded by itself. The SDK takes an error in the XML for the end of what is there:
/// without the token, it has not seen all of the group.
const AFTER: &str = "end";

/// Why a part of a response cannot be decoded.
#[derive(Debug, Error)]
enum DecodeError {
    /// The SDK says why.
    #[error("its description by AWS cannot be decoded: {0}")]
    Sdk(String),
    /// The SDK has ignored a part of it.
    #[error("its description by AWS is not valid XML")]
    NotXml,
    /// It reads less than there is.
    #[error("the response has {there} groups, of which {read} could be read")]
    Missing { there: usize, read: usize },
}

/// Reads the response of one call. After the call, it has what the SDK's output does not show.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupsResponse(Arc<Mutex<Beside>>);

/// What the output does not show.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The size of the body.
    pub(super) bytes: usize,
    pub(super) broken: Vec<BrokenGroup>,
}

impl GroupsResponse {
    pub(super) fn take(&self) -> Beside {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Intercept for GroupsResponse {
    fn name(&self) -> &'static str {
        "GroupsResponse"
    }

    fn modify_before_attempt_completion(
        &self,
        context: &mut FinalizerInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        memory: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(response) = context.response().filter(|response| response.status().is_success()) else {
            return Ok(());
        };
        let body = response.body().bytes().unwrap_or_default();
        let mut beside = Beside { bytes: body.len(), broken: Vec::new() };
        let one_by_one = match context.output_or_error() {
            // Any other error is one of the whole response, such as an early end.
            Some(Err(error)) if error.is_operation_error() => decode_one_by_one(body, memory).ok(),
            _ => None,
        };
        let found = xml::sizes_found(body);
        let Some(outcome) = context.output_or_error_mut() else { return Ok(()) };
        if let Some((output, broken)) = one_by_one {
            beside.broken = broken;
            *outcome = Ok(Output::erase(output));
        } else if let Some(output) = outcome.as_mut().ok().and_then(Output::downcast_mut) {
            take_out_missing_sizes(output, &found)?;
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = beside;
        Ok(())
    }
}

/// Decodes each group of a response by itself, and what the response has beside them.
fn decode_one_by_one(
    body: &[u8],
    memory: &ConfigBag,
) -> Result<(DescribeAutoScalingGroupsOutput, Vec<BrokenGroup>), DecodeError> {
    let (rest, groups) = xml::split_groups(body);
    let mut output = decode(rest, memory)?;
    let (decoded, mut broken) = (output.auto_scaling_groups.get_or_insert_default(), Vec::new());
    for group in groups {
        match decode_group(group, memory) {
            Ok(group) => decoded.extend(group.auto_scaling_groups.unwrap_or_default()),
            Err(error) => broken.push(BrokenGroup { name: name(group, memory), reason: error.to_string() }),
        }
    }
    Ok((output, broken))
}

/// The name of a group that cannot be decoded. The SDK decodes it, too: it may have escapes.
fn name(group: &[u8], memory: &ConfigBag) -> Option<String> {
    let name = xml::name_of_group(group)?;
    let output = decode_group(&[b"<member>", name, b"</member>"].concat(), memory).ok()?;
    let group = output.auto_scaling_groups?.into_iter().next()?;
    group.auto_scaling_group_name.filter(|name| !name.is_empty())
}

/// Decodes one group as a response of its own.
fn decode_group(group: &[u8], memory: &ConfigBag) -> Result<DescribeAutoScalingGroupsOutput, DecodeError> {
    let before = "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups>";
    let after = format!(
        "</AutoScalingGroups><NextToken>{AFTER}</NextToken></DescribeAutoScalingGroupsResult>\
         </DescribeAutoScalingGroupsResponse>"
    );
    let output = decode([before.as_bytes(), group, after.as_bytes()].concat(), memory)?;
    if output.next_token.as_deref() == Some(AFTER) { Ok(output) } else { Err(DecodeError::NotXml) }
}

/// Decodes a body as the SDK decodes that of the call.
fn decode(body: Vec<u8>, memory: &ConfigBag) -> Result<DescribeAutoScalingGroupsOutput, DecodeError> {
    let unknown = || DecodeError::Sdk("the SDK has no decoder".to_owned());
    let decoder = memory.load::<SharedResponseDeserializer>().ok_or_else(unknown)?;
    let found = xml::sizes_found(&body);
    let status = StatusCode::try_from(200).map_err(|_| unknown())?;
    let response = HttpResponse::new(status, SdkBody::from(body));
    let decoded = decoder.deserialize_nonstreaming_with_config(&response, memory);
    let output = decoded.map_err(|error| DecodeError::Sdk(cause(&error)))?;
    let mut output: DescribeAutoScalingGroupsOutput = output.downcast().map_err(|_| unknown())?;
    take_out_missing_sizes(&mut output, &found)?;
    Ok(output)
}

/// What the SDK's decoder says, without the layers around it.
fn cause(error: &OrchestratorError<Error>) -> String {
    let error = error.as_operation_error().and_then(|error| error.downcast_ref::<DescribeAutoScalingGroupsError>());
    let mut cause = error.map(|error| error as &dyn StdError);
    while let Some(next) = cause.and_then(StdError::source) {
        cause = Some(next);
    }
    shorten(&cause.map(ToString::to_string).unwrap_or_default(), MESSAGE_CHARS_MAX)
}

/// Takes out each size that AWS did not send: the SDK fills in 0.
fn take_out_missing_sizes(
    output: &mut DescribeAutoScalingGroupsOutput,
    found: &[xml::SizesFound],
) -> Result<(), DecodeError> {
    let groups = output.auto_scaling_groups.get_or_insert_default();
    if groups.len() != found.len() {
        return Err(DecodeError::Missing { there: found.len(), read: groups.len() });
    }
    for (group, found) in groups.iter_mut().zip(found) {
        group.min_size = group.min_size.filter(|_| found.min);
        group.max_size = group.max_size.filter(|_| found.max);
        group.desired_capacity = group.desired_capacity.filter(|_| found.desired);
    }
    Ok(())
}
