//! Which code and class a failed launch gets.

use super::*;

fn is_classified(class: FailureClass, cases: &[(&str, &str)]) {
    for (message, code) in cases {
        let seen = shown(&[activity("Failed", "Launching a new EC2 instance", message, 1)], &[], 60);
        let failure = seen.failures.first().expect(message);
        assert_eq!((failure.class, failure.code.as_str()), (class, *code), "{message}");
    }
}

#[test]
fn failures_for_lack_of_capacity_or_quota_have_aws_codes() {
    is_classified(
        OutOfResources,
        &[
            (
                "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that \
             matches your request. Launching EC2 instance failed.",
                "InsufficientInstanceCapacity",
            ),
            (
                "We currently do not have sufficient p3.2xlarge capacity in the Availability Zone you requested \
             (us-east-1a). Our system will be working on provisioning additional capacity. Launching EC2 instance failed.",
                "InsufficientInstanceCapacity",
            ),
            (
                "You have requested more instances (7) than your current instance limit of 6 allows for the specified \
             instance type. Launching EC2 instance failed.",
                "InstanceLimitExceeded",
            ),
            (
                "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket \
             that the specified instance type belongs to. Launching EC2 instance failed.",
                "VcpuLimitExceeded",
            ),
            ("VcpuLimitExceeded - You have requested more.", "VcpuLimitExceeded"),
            ("Max spot instance count exceeded. Launching EC2 instance failed.", "MaxSpotInstanceCountExceeded"),
            (
                "There are not enough free addresses in subnet 'subnet-1' to satisfy the requested number of instances. \
             Launching EC2 instance failed.",
                "InsufficientFreeAddressesInSubnet",
            ),
            (
                "Your Spot request price of 0.01 is lower than the minimum required Spot request fulfillment price of \
                    0.2.",
                "SpotMaxPriceTooLow",
            ),
            ("UnfulfillableCapacity - x", "UnfulfillableCapacity"),
            (
                "The requested reservation does not have sufficient compatible and available capacity for this request. \
             Launching EC2 instance failed.",
                "ReservationCapacityExceeded",
            ),
            (
                "You've reached your quota for maximum Fleet Requests for this account. Launching EC2 instance failed.",
                "MaxFleetCountExceeded",
            ),
        ],
    );
}

#[test]
fn other_failures_have_aws_codes() {
    is_classified(
        Other,
        &[
            ("The image id '[ami-1]' does not exist. Launching EC2 instance failed.", "InvalidAMIID.NotFound"),
            ("InvalidAMIID.NotFound - The image id does not exist", "InvalidAMIID.NotFound"),
            (
                "You are not authorized to perform this operation. Encoded authorization failure message: abc. Launching \
             EC2 instance failed.",
                "UnauthorizedOperation",
            ),
            (
                "You are not authorized to use launch template: lt-1 (Service: Ec2, Code: UnauthorizedOperation)",
                "UnauthorizedOperation",
            ),
            ("The security group 'sg-1' does not exist. Launching EC2 instance failed.", "InvalidGroup.NotFound"),
            (
                "The specified launch template, with template ID lt-1, does not exist.",
                "InvalidLaunchTemplateId.NotFound",
            ),
            (
                "Your requested instance type (m8g.large) is not supported in your requested Availability Zone \
                    (us-east-1e).",
                "Unsupported",
            ),
            (
                "The requested configuration is currently not supported. Please check the documentation for supported \
                    configurations. Launching EC2 instance failed.",
                "Unsupported",
            ),
            ("SomethingBrandNew - nobody has seen it yet.", "SomethingBrandNew"),
            (
                "Could not launch On-Demand Instances. InvalidParameterValue - The architecture 'arm64' does not match that \
                 of the specified AMI, which is invalid. Launching EC2 instance failed.",
                "InvalidParameterValue",
            ),
            (
                "Value (x) for parameter iamInstanceProfile.name is invalid. Launching EC2 instance failed.",
                "LaunchFailed",
            ),
            (
                "Instance failed to complete user's Lifecycle Action: Lifecycle Action with token 1 was abandoned: \
             Heartbeat Timeout",
                "LifecycleActionAbandoned",
            ),
            ("Something went wrong in InService state. Launching EC2 instance failed.", "LaunchFailed"),
            ("", "LaunchFailed"),
        ],
    );
}
