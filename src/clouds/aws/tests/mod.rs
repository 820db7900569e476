//! [`Aws`] as a whole, with an AWS in memory behind it.

mod instance_types;
mod launch_spec;
mod listing;
mod prices;
mod properties;
mod writes;

use std::sync::Arc;

use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
use aws_sdk_autoscaling::types::{
    AutoScalingGroup, Instance, InstanceRequirements, InstancesDistribution, LaunchConfiguration, LaunchTemplate,
    LaunchTemplateOverrides, LaunchTemplateSpecification, LifecycleState, MemoryMiBRequest, MixedInstancesPolicy,
    TagDescription,
};
use aws_sdk_ec2::types::{
    ArchitectureType, ArchitectureValues, BlockDeviceMapping, EbsBlockDevice, Image, InstanceType as Ec2Type,
    LaunchTemplateBlockDeviceMapping, LaunchTemplateCpuOptions, LaunchTemplateEbsBlockDevice,
    LaunchTemplateInstanceMarketOptions, LaunchTemplateInstanceNetworkInterfaceSpecification, LaunchTemplateVersion,
    MarketType, ResponseLaunchTemplateData,
};
use aws_sdk_eks::types::{self as eks, Nodegroup};

use super::sdk::cache;
use super::sdk::connect::Clients;
use super::sdk::fake::Fake;
use super::{Aws, Settings};
use crate::cloud::{
    Cloud, CloudError, GroupReading, LaunchSpec, LocalDisks, OperatingSystem, ProviderId, ReservedProfile, Taint,
    TaintEffect, WritableCloud,
};

impl Fake {
    /// The [`Aws`] under test, with this fake behind it.
    pub(super) fn aws(&self, settings: Settings) -> Aws {
        let clients = Clients {
            region: "us-east-1".to_owned(),
            clock: Arc::default(),
            scaling: Arc::new(self.clone()),
            ec2: Arc::new(self.clone()),
            eks: Arc::new(self.clone()),
            shifts: Arc::new(self.clone()),
            sts: Arc::new(self.clone()),
            pricing: Some(Arc::new(self.clone())),
            credentials: None,
        };
        Aws::over(settings, clients)
    }
}

fn group(name: &str) -> AutoScalingGroupBuilder {
    AutoScalingGroup::builder()
        .auto_scaling_group_name(name)
        .min_size(0)
        .desired_capacity(1)
        .max_size(10)
        .availability_zones("us-east-1b")
        .availability_zones("us-east-1a")
}

fn tag(key: &str, value: &str) -> TagDescription {
    TagDescription::builder().key(key).value(value).build()
}

fn named(names: &[&str]) -> Settings {
    let specs = names.iter().map(|name| format!("0:10:{name}").parse().expect("a good spec"));
    Settings { node_groups: specs.collect(), ..Settings::default() }
}

fn discovering(queries: &[&str]) -> Settings {
    let queries = queries.iter().map(|query| query.parse().expect("a good query"));
    Settings { auto_discovery: queries.collect(), ..Settings::default() }
}

fn with_instances(name: &str, states: &[&str]) -> AutoScalingGroup {
    let instance = |(number, state): (usize, &&str)| {
        Instance::builder()
            .instance_id(format!("i-{number}"))
            .availability_zone("us-east-1a")
            .lifecycle_state(LifecycleState::from(*state))
            .build()
    };
    group(name).set_instances(Some(states.iter().enumerate().map(instance).collect())).build()
}

async fn observed(aws: &Aws, name: &str) -> GroupReading {
    aws.observe(&name.into()).await.expect("readable").expect("present")
}

fn names(groups: &[GroupReading]) -> Vec<&str> {
    groups.iter().map(|group| group.name.as_str()).collect()
}

fn id(number: usize) -> ProviderId {
    format!("aws:///us-east-1a/i-{number}").into()
}

#[tokio::test]
async fn a_placeholder_is_recognised_and_never_terminated() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let placeholder = basis.placeholder("3-0");
    assert_eq!(placeholder.as_str(), "aws:///us-east-1a/i-placeholder-asg-3-0");
    assert_eq!(aws.recognise(placeholder.as_str()), crate::cloud::Recognition::Ours);
    let deletion = aws.delete_instances(&basis, &[placeholder]).await.expect("a response");
    assert_eq!((deletion.accepted.len(), deletion.refused.len()), (0, 1));
    assert!(fake.calls("TerminateInstance").is_empty());
}
