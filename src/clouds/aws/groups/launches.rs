//! Launches with LaunchInstances, which returns the instances or why there are none.

use std::time::SystemTime;

use aws_sdk_autoscaling::operation::launch_instances::LaunchInstancesOutput;
use aws_sdk_autoscaling::types::LaunchInstancesError;

use super::super::sdk::errors::{class_of, is_denied, of_launch, or_unsupported};
use super::Groups;
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::cloud::{CloudError, Failure, FailureClass, Fault, GroupReading, LaunchRequest, LaunchResult};

const OPERATION: &str = "LaunchInstances";
/// The code of a failure that AWS gave no code for.
const NO_CODE: &str = "LaunchFailed";

impl Groups {
    /// Launches instances, and waits for them.
    pub(in crate::clouds::aws) async fn launch(
        &self,
        basis: &GroupReading,
        launch: &LaunchRequest,
        now: SystemTime,
    ) -> Result<LaunchResult, CloudError> {
        let group = basis.name.as_str();
        let units = basis.units_per_node.and_then(|units| launch.number.checked_mul(units));
        let units = units.and_then(|units| i32::try_from(units).ok());
        let units =
            units.ok_or_else(|| CloudError::refused(OPERATION, group, "its capacity is not counted in nodes"))?;
        let output = self.scaling.launch_instances(group, units, launch).await.map_err(of_launch)?;
        launched(group, output, now)
    }
}

/// What a response says. One that lists no instance is an error: a shortage, if it lists one among others, since each of
/// the group's instance types can fail for a reason of its own.
fn launched(group: &str, output: LaunchInstancesOutput, now: SystemTime) -> Result<LaunchResult, CloudError> {
    let ids = output.instances().iter().flat_map(|collection| collection.instance_ids());
    let instances: Vec<String> = ids.map(|id| id.to_ascii_lowercase()).collect();
    let failures: Vec<Failure> = output.errors().iter().map(|error| failure(error, now)).collect();
    if instances.is_empty() {
        let shortage = failures.iter().find(|failure| failure.class == FailureClass::OutOfResources);
        return Err(match (shortage, &failures[..]) {
            (Some(shortage), _) => error_of(group, shortage),
            (None, [only]) => or_unsupported(error_of(group, only)),
            (None, [first, ..]) => error_of(group, first),
            (None, []) => unexplained(group),
        });
    }
    Ok(LaunchResult { instances, failures })
}

fn failure(error: &LaunchInstancesError, now: SystemTime) -> Failure {
    let code = error.error_code().filter(|code| !code.is_empty()).unwrap_or(NO_CODE);
    Failure {
        class: class_of(code),
        code: code.to_owned(),
        message: shorten(error.error_message().unwrap_or_default(), MESSAGE_CHARS_MAX),
        at: now,
        is_explained: error.error_code().is_some(),
        is_eviction: false,
    }
}

fn unexplained(group: &str) -> CloudError {
    CloudError::refused(OPERATION, group, "nothing was launched, and AWS gave no reason")
}

/// The error of a call that launched nothing, for this reason. A launch that failed for a reason which may pass is no
/// call that may be repeated: with its token, it returns the same.
fn error_of(group: &str, failure: &Failure) -> CloudError {
    let fault = Box::new(Fault {
        operation: OPERATION.into(),
        subject: group.to_owned(),
        code: Some(failure.code.clone()),
        message: failure.message.clone(),
        source: None,
    });
    if failure.class == FailureClass::OutOfResources {
        return CloudError::OutOfResources(fault);
    }
    // CreateFleet, which it launches by, reports a denied RunInstances so (karpenter-provider-aws #1488).
    if is_denied(&failure.code) {
        return CloudError::Denied(fault);
    }
    CloudError::Refused(fault)
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::InstanceCollection;

    use super::*;

    fn error(code: &str) -> LaunchInstancesError {
        LaunchInstancesError::builder().error_code(code).error_message("none left").build()
    }

    fn read(instances: &[&str], errors: &[&str]) -> Result<LaunchResult, CloudError> {
        let ids = instances.iter().map(|id| (*id).to_owned()).collect();
        let output = LaunchInstancesOutput::builder()
            .instances(InstanceCollection::builder().set_instance_ids(Some(ids)).build())
            .set_errors(Some(errors.iter().map(|code| error(code)).collect()));
        launched("web", output.build(), SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn what_was_launched_counts_and_the_rest_has_its_reasons() {
        let part = read(&["i-1", "I-2"], &["InsufficientInstanceCapacity"]).expect("part of it");
        assert_eq!(part.instances, ["i-1", "i-2"]);
        let [failure] = &part.failures[..] else { panic!("{part:?}") };
        assert_eq!(
            (failure.class, failure.code.as_str()),
            (FailureClass::OutOfResources, "InsufficientInstanceCapacity")
        );
        assert_eq!((failure.message.as_str(), failure.is_explained), ("none left", true));
    }

    #[test]
    fn a_launch_of_nothing_is_an_error_with_the_clouds_code_and_text() {
        let refused = read(&[], &["InsufficientInstanceCapacity", "Other"]).expect_err("nothing was launched");
        let CloudError::OutOfResources(fault) = refused else { panic!("{refused}") };
        assert_eq!(
            (fault.code.as_deref(), fault.message.as_str()),
            (Some("InsufficientInstanceCapacity"), "none left")
        );
        let beside_others = read(&[], &["InvalidFleetConfiguration", "InsufficientInstanceCapacity"]);
        assert!(matches!(beside_others, Err(CloudError::OutOfResources(_))), "{beside_others:?}");
        assert!(matches!(read(&[], &["UnsupportedOperation"]), Err(CloudError::Unsupported(_))));
        let of_one_type = read(&[], &["UnsupportedOperation", "InvalidFleetConfiguration"]);
        assert!(matches!(of_one_type, Err(CloudError::Refused(_))), "{of_one_type:?}");
        assert!(matches!(read(&[], &["InvalidParameterValue"]), Err(CloudError::Refused(_))));
        assert!(matches!(read(&[], &["UnauthorizedOperation"]), Err(CloudError::Denied(_))), "as the call itself");
        // An image that is not shared with the account, for one.
        assert!(matches!(read(&[], &["AuthFailure"]), Err(CloudError::Denied(_))), "no call that may be repeated");
        // With its token, the call would return the same again.
        assert!(matches!(read(&[], &["RequestLimitExceeded"]), Err(CloudError::Refused(_))));
        assert!(matches!(read(&[], &[]), Err(CloudError::Refused(_))));
    }
}
