use super::*;

fn error_of(code: &str, message: &str, status: u16) -> CloudError {
    let code = Some(code.to_owned()).filter(|code| !code.is_empty());
    let call = FailedCall { code, message: message.to_owned(), status: Some(status), ..FailedCall::default() };
    classify("Operation", "subject", call, None)
}

/// The word that an error begins with.
fn name(error: &CloudError) -> String {
    error.to_string().split(": ").next().unwrap_or_default().to_owned()
}

#[test]
fn error_codes_have_a_meaning() {
    for (code, message, status, meaning) in [
        ("Throttling", "Rate exceeded", 400, "throttled"),
        ("RequestLimitExceeded", "Request limit exceeded.", 503, "throttled"),
        ("", "Rate exceeded", 400, "throttled"),
        ("", "", 429, "throttled"),
        ("ResourceContention", "You already have a pending update", 500, "conflict"),
        ("ScalingActivityInProgress", "Scaling activity is in progress", 400, "conflict"),
        ("AccessDenied", "User is not authorized to perform", 403, "denied"),
        ("UnauthorizedOperation", "You are not authorized", 403, "denied"),
        ("ExpiredToken", "The security token included in the request is expired", 403, "denied"),
        ("InvalidClientTokenId", "The security token included in the request is invalid", 403, "denied"),
        ("", "Forbidden", 403, "denied"),
        ("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup x not found", 400, "not found"),
        ("ValidationError", "Instance Id not found - No managed instance found for instance ID: i-1", 400, "not found"),
        ("InvalidLaunchTemplateId.NotFound", "The launch template does not exist", 400, "not found"),
        ("InvalidLaunchTemplateName.NotFoundException", "x", 400, "not found"),
        ("ResourceNotFoundException", "No node group found for name: x.", 404, "not found"),
        ("InvalidInstanceType", "The following supplied instance types do not exist: [x.y]", 400, "not found"),
        ("ValidationError", "New SetDesiredCapacity value 12 is above max value 10", 400, "refused"),
        (
            "ValidationError",
            "Terminating instance without replacement will violate group's min size constraint",
            400,
            "refused",
        ),
        ("InvalidParameterValue", "x", 400, "refused"),
        ("VcpuLimitExceeded", "x", 400, "out of resources"),
        ("LimitExceededFault", "x", 400, "out of resources"),
        ("InternalFailure", "x", 500, "unreachable"),
        ("ServiceUnavailable", "x", 503, "unreachable"),
        ("", "<html>", 500, "unreachable"),
        ("", "a proxy gave up", 408, "unreachable"),
        ("", "not XML", 200, "invalid response"),
    ] {
        assert_eq!(name(&error_of(code, message, status)), meaning, "{code} {message} {status}");
    }
}

#[test]
fn a_call_without_a_response_is_unreachable_and_one_that_was_not_sent_is_not() {
    let error_of = |call| name(&classify("Operation", "subject", call, None));
    assert_eq!(error_of(FailedCall::default()), "unreachable");
    assert_eq!(error_of(FailedCall { no_credentials: true, ..FailedCall::default() }), "denied");
    assert_eq!(error_of(FailedCall { not_sent: true, ..FailedCall::default() }), "refused");
}

#[test]
fn missing_credentials_are_not_confused_with_an_unreachable_network() {
    for (chain, lacks) in [
        ("the credential provider was not enabled: no credentials found in chain", true),
        ("an error occurred while loading credentials: failed to load IMDS session token: request forbidden", true),
        ("an error occurred while loading credentials: dispatch failure: io error: connection refused", false),
        ("identity resolver timed out after 5s", false),
        ("the body could not be read", false),
    ] {
        assert_eq!(lacks_credentials(chain), lacks, "{chain}");
    }
}

#[test]
fn the_batch_form_is_unknown_only_if_aws_refuses_the_form_itself() {
    assert!(is_unknown_form(&error_of("ValidationError", "1 validation error detected: instanceId is null", 400)));
    assert!(is_unknown_form(&error_of("", "<!doctype html>", 500)));
    assert!(!is_unknown_form(&error_of("ValidationError", "it violates group's min size constraint", 400)));
    assert!(!is_unknown_form(&error_of("ValidationError", "instance i-1 not found", 400)));
    assert!(!is_unknown_form(&error_of("Throttling", "Rate exceeded", 400)));
    assert!(!is_unknown_form(&error_of("ResourceContention", "x", 500)));
}

#[test]
fn a_body_that_is_not_awss_is_said_to_be_none() {
    use aws_sdk_autoscaling::operation::describe_auto_scaling_groups::DescribeAutoScalingGroupsError as Failed;
    use aws_smithy_types::body::SdkBody;

    let status = 502_u16.try_into().expect("a status");
    let response = HttpResponse::new(status, SdkBody::from("<html>"));
    let error =
        cloud_error("DescribeAutoScalingGroups", "web", SdkError::service_error(Failed::unhandled("?"), response));
    assert!(matches!(error, CloudError::Unreachable(_)), "{error}");
    assert!(error.to_string().contains("HTTP 502, and its body is not an error of AWS"), "{error}");
}

#[test]
fn a_write_without_a_connection_was_not_sent() {
    let of = |message: &str| {
        let call = FailedCall { message: message.to_owned(), ..FailedCall::default() };
        name(&of_write(classify("Operation", "subject", call, None)))
    };
    assert_eq!(of("dispatch failure: io error: client error (Connect): tcp connect error"), "not sent");
    assert_eq!(of("dispatch failure: io error: client error (SendRequest)"), "unreachable");
}

#[test]
fn only_what_is_no_error_of_aws_tells_that_a_form_of_a_call_is_unknown() {
    assert!(!is_unknown_form(&error_of("ServiceUnavailable", "x", 503)));
    assert!(is_unknown_form(&error_of("", "<html>", 500)));
    assert!(is_unknown_form(&error_of("ValidationError", "2 parameters are unknown", 400)));
}
