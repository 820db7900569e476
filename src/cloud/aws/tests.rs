//! The whole of [`Aws`] over an AWS in memory.

use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
use aws_sdk_autoscaling::types::{
    AutoScalingGroup, Instance, InstanceRequirements, LaunchConfiguration, LaunchTemplate, LaunchTemplateOverrides,
    LaunchTemplateSpecification, LifecycleState, MemoryMiBRequest, MixedInstancesPolicy, TagDescription,
};
use aws_sdk_ec2::types::{
    ArchitectureType, ArchitectureValues, BlockDeviceMapping, EbsBlockDevice, Image, InstanceType as Ec2Type,
    LaunchTemplateBlockDeviceMapping, LaunchTemplateEbsBlockDevice, LaunchTemplateVersion, ResponseLaunchTemplateData,
};
use aws_sdk_eks::types::{self as eks, Nodegroup};

use super::fake::Fake;
use super::{Aws, Settings};
use crate::cloud::{Cloud, CloudError, GroupReading, Machine, OperatingSystem, ProviderId, ReservedProfile};

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

mod listing {
    use super::*;

    #[tokio::test]
    async fn names_go_by_the_hundred_and_pages_are_followed() {
        let every: Vec<String> = (0..101).map(|number| format!("asg-{number:03}")).collect();
        let fake = Fake::with(every.iter().map(|name| group(name).build()).collect());
        fake.state(|state| state.page = 40);
        let texts: Vec<&str> = every.iter().map(String::as_str).collect();
        let listing = fake.aws(named(&texts)).list().await.expect("readable");
        assert_eq!(names(&listing.groups), texts);
        let calls = fake.calls("DescribeAutoScalingGroups");
        assert_eq!(calls, ["100 names", "100 names", "100 names", "1 names"]);
    }

    #[tokio::test]
    async fn nothing_configured_describes_nothing() {
        let fake = Fake::with(vec![group("somebody-elses").build()]);
        let listing = fake.aws(Settings::default()).list().await.expect("readable");
        assert!(listing.groups.is_empty() && fake.calls("DescribeAutoScalingGroups").is_empty());
    }

    #[tokio::test]
    async fn several_discoveries_are_a_union_and_within_one_all_tags_hold() {
        let fake = Fake::with(vec![
            group("a").tags(tag("a", "1")).build(),
            group("b").tags(tag("b", "2")).build(),
            group("ab").tags(tag("a", "1")).tags(tag("b", "2")).build(),
            group("none").tags(tag("a", "2")).build(),
        ]);
        let listed = async |queries: &[&str]| {
            let listing = fake.aws(discovering(queries)).list().await.expect("readable");
            names(&listing.groups).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(listed(&["asg:tag=a=1", "asg:tag=b=2"]).await, ["a", "ab", "b"]);
        assert_eq!(listed(&["asg:tag=a=1,b"]).await, ["ab"]);
        assert_eq!(listed(&["asg:tag=a"]).await, ["a", "ab", "none"]);
        assert_eq!(fake.calls("DescribeAutoScalingGroups"), ["tag:a", "tag:b", "tag:a,tag-key", "tag-key"]);
    }

    #[tokio::test]
    async fn an_explicit_group_wins_over_discovery_and_the_first_over_the_second() {
        let fake = Fake::with(vec![group("asg").tags(tag("a", "1")).build()]);
        let mut settings = discovering(&["asg:tag=a"]);
        settings.node_groups = ["2:5:asg", "1:4:asg"].map(|spec| spec.parse().expect("a good spec")).to_vec();
        let aws = fake.aws(settings);
        let listing = aws.list().await.expect("readable");
        assert_eq!(listing.groups.len(), 1);
        assert_eq!((listing.groups[0].min, listing.groups[0].max), (2, 5));
        let reading = observed(&aws, "asg").await;
        assert_eq!((reading.min, reading.max), (2, 5), "one read alone says the same");
    }

    #[tokio::test]
    async fn one_bad_group_is_named_and_a_missing_one_is_absent() {
        let fake = Fake::with(vec![group("good").build(), group("bad").set_desired_capacity(None).build()]);
        let listing = fake.aws(named(&["good", "bad", "missing"])).list().await.expect("readable");
        assert_eq!(names(&listing.groups), ["good"]);
        assert_eq!(listing.broken, [("bad".into(), "no desired capacity".to_owned())]);
        assert_eq!(listing.absent, ["missing".into()]);
    }

    #[tokio::test]
    async fn a_group_that_is_gone_is_none_and_a_failed_call_is_an_error() {
        let fake = Fake::with(vec![group("asg").build()]);
        let aws = fake.aws(named(&["asg"]));
        assert!(aws.observe(&"gone".into()).await.expect("readable").is_none());
        fake.fail("DescribeAutoScalingGroups", "Throttling", "Rate exceeded", 400);
        assert!(matches!(aws.observe(&"asg".into()).await, Err(CloudError::Throttled { .. })));
        fake.fail("DescribeAutoScalingGroups", "AccessDenied", "no", 403);
        assert!(matches!(aws.list().await, Err(CloudError::Denied(_))), "a failed query is not an empty one");
    }
}

mod writes {
    use super::*;

    #[tokio::test]
    async fn capacity_is_set_once_and_in_units() {
        let over = LaunchTemplateOverrides::builder().instance_type("m5.large").weighted_capacity("3").build();
        let policy = |overrides| {
            let template = LaunchTemplate::builder().set_overrides(Some(overrides)).build();
            MixedInstancesPolicy::builder().launch_template(template).build()
        };
        let unequal = LaunchTemplateOverrides::builder().instance_type("m5.xlarge").weighted_capacity("6").build();
        let fake = Fake::with(vec![
            group("plain").build(),
            group("weighted").mixed_instances_policy(policy(vec![over.clone()])).build(),
            group("unequal").mixed_instances_policy(policy(vec![over, unequal])).build(),
        ]);
        let aws = fake.aws(Settings::default());
        aws.set_capacity(&observed(&aws, "plain").await, 3).await.expect("accepted");
        aws.set_capacity(&observed(&aws, "weighted").await, 3).await.expect("accepted");
        let refused = aws.set_capacity(&observed(&aws, "unequal").await, 3).await;
        assert!(matches!(refused, Err(CloudError::Refused(_))), "{refused:?}");
        assert_eq!(fake.calls("SetDesiredCapacity"), ["plain=3", "weighted=9"]);
    }

    #[tokio::test]
    async fn a_failed_write_is_not_sent_again() {
        let fake = Fake::with(vec![group("asg").build()]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        fake.fail("SetDesiredCapacity", "ScalingActivityInProgress", "busy", 400);
        assert!(matches!(aws.set_capacity(&basis, 3).await, Err(CloudError::Conflict(_))));
        fake.fail("SetDesiredCapacity", "ValidationError", "AutoScalingGroup name not found", 400);
        assert!(matches!(aws.set_capacity(&basis, 3).await, Err(CloudError::NotFound(_))));
        assert_eq!(fake.calls("SetDesiredCapacity").len(), 2);
    }

    #[tokio::test]
    async fn one_instance_is_terminated_alone_and_several_in_one_call() {
        let fake = Fake::with(vec![with_instances("asg", &["InService"; 150])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        let deletion = aws.delete_instances(&basis, &[id(0)]).await.expect("accepted");
        assert_eq!(deletion.accepted, [id(0)]);
        let ids: Vec<_> = (0..120).map(id).collect();
        let deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
        assert_eq!(deletion.accepted, ids);
        assert_eq!(fake.calls("TerminateInstance"), ["i-0"]);
        let batches: Vec<_> = fake.calls("TerminateInstances").iter().map(|call| call.split(',').count()).collect();
        assert_eq!(batches, [100, 20]);
    }

    #[tokio::test]
    async fn what_is_going_gone_or_not_of_the_group_costs_no_call() {
        let fake = Fake::with(vec![with_instances("asg", &["InService", "Terminating:Wait", "Terminated"])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        let foreign: ProviderId = "eks-hybrid:///x".into();
        let ids = [id(1), id(2), id(99), id(0), id(0), "AWS:///us-east-1a/I-0".into(), foreign.clone()];
        let deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
        assert_eq!(deletion.accepted, [id(0)]);
        assert_eq!(deletion.already_gone, [id(1), id(2), id(99)]);
        assert_eq!(deletion.refused.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&foreign]);
        assert_eq!(fake.calls("TerminateInstance"), ["i-0"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_aws_does_not_know_falls_back_to_single_calls() {
        let fake = Fake::with(vec![with_instances("asg", &["InService"; 20])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        let ids: Vec<_> = (0..20).map(id).collect();
        fake.fail(
            "TerminateInstances",
            "ValidationError",
            "Value null at 'instanceId' failed to satisfy constraint",
            400,
        );
        let mut deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
        deletion.accepted.sort_by_key(|id| ids.iter().position(|one| one == id));
        assert_eq!(deletion.accepted, ids);
        aws.delete_instances(&basis, &ids[..2]).await.expect("accepted");
        assert_eq!(fake.calls("TerminateInstances").len(), 1, "not tried again at once");
        assert_eq!(fake.calls("TerminateInstance").len(), 22);
        tokio::time::advance(super::super::cache::UNKNOWN_FORM_TTL).await;
        aws.delete_instances(&basis, &ids).await.expect("accepted");
        assert_eq!(fake.calls("TerminateInstances").len(), 2, "tried again later");
    }

    #[tokio::test]
    async fn a_batch_with_an_open_outcome_is_the_callers_to_settle() {
        let fake = Fake::with(vec![with_instances("asg", &["InService"; 2])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        fake.fail("TerminateInstances", "", "<!doctype html>", 500);
        let error = aws.delete_instances(&basis, &[id(0), id(1)]).await.expect_err("unknown");
        assert!(error.outcome_unknown());
        assert!(fake.calls("TerminateInstance").is_empty(), "nothing is sent before the group is read again");
        aws.delete_instances(&basis, &[id(0), id(1)]).await.expect("accepted");
        assert_eq!(fake.calls("TerminateInstances").len(), 1);
        assert_eq!(fake.calls("TerminateInstance").len(), 2);
    }

    #[tokio::test]
    async fn a_busy_group_or_a_missing_instance_says_nothing_of_the_batch_form() {
        let fake = Fake::with(vec![with_instances("asg", &["InService"; 3])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        let ids = [id(0), id(1), id(2)];
        fake.fail("TerminateInstances", "ResourceContention", "busy", 500);
        assert!(matches!(aws.delete_instances(&basis, &ids).await, Err(CloudError::Conflict(_))));
        fake.fail("TerminateInstances", "ValidationError", "No managed instance found for instance ID: i-1", 400);
        fake.fail("TerminateInstance i-1", "ValidationError", "No managed instance found for instance ID: i-1", 400);
        let deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
        assert_eq!((deletion.accepted.len(), deletion.already_gone), (2, vec![id(1)]));
        aws.delete_instances(&basis, &ids).await.expect("accepted");
        assert_eq!(fake.calls("TerminateInstances").len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn one_busy_instance_is_tried_three_times_and_the_others_go_on() {
        let fake = Fake::with(vec![with_instances("asg", &["InService"; 3])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        fake.fail("TerminateInstances", "ValidationError", "InstanceId is required", 400);
        for _ in 0..3 {
            fake.fail("TerminateInstance i-1", "ResourceContention", "busy", 500);
        }
        fake.fail("TerminateInstance i-2", "ScalingActivityInProgress", "busy", 400);
        let mut deletion = aws.delete_instances(&basis, &[id(0), id(1), id(2)]).await.expect("accepted");
        deletion.accepted.sort();
        assert_eq!(deletion.accepted, [id(0), id(2)]);
        assert!(matches!(deletion.refused.as_slice(), [(refused, CloudError::Conflict(_))] if *refused == id(1)));
        assert_eq!(fake.calls("TerminateInstance").len(), 6);
    }

    #[tokio::test]
    async fn throttling_stops_what_is_not_sent_yet() {
        let fake = Fake::with(vec![with_instances("asg", &["InService"; 40])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        let ids: Vec<_> = (0..40).map(id).collect();
        fake.fail("TerminateInstances", "ValidationError", "InstanceId is required", 400);
        fake.fail("TerminateInstance i-9", "Throttling", "Rate exceeded", 400);
        let deletion = aws.delete_instances(&basis, &ids).await.expect("some accepted");
        assert_eq!(deletion.accepted.len() + deletion.refused.len(), 40);
        assert!(fake.calls("TerminateInstance").len() < 40);
        assert!(deletion.refused.iter().all(|(_, error)| matches!(error, CloudError::Throttled { .. })));
        fake.fail("TerminateInstance", "AccessDenied", "no", 403);
        let denied = aws.delete_instances(&basis, &[id(0)]).await;
        assert!(matches!(denied, Err(CloudError::Denied(_))), "nothing was accepted");
    }
}

mod machine {
    use super::*;

    fn version(data: ResponseLaunchTemplateData) -> LaunchTemplateVersion {
        LaunchTemplateVersion::builder().launch_template_data(data).build()
    }

    fn of_type(name: &str) -> LaunchTemplateVersion {
        version(ResponseLaunchTemplateData::builder().instance_type(Ec2Type::from(name)).build())
    }

    fn template(name: &str, version: Option<&str>) -> LaunchTemplateSpecification {
        let builder = LaunchTemplateSpecification::builder().launch_template_name(name);
        builder.set_version(version.map(str::to_owned)).build()
    }

    fn mixed(
        base: Option<LaunchTemplateSpecification>,
        overrides: Vec<LaunchTemplateOverrides>,
    ) -> MixedInstancesPolicy {
        let template = LaunchTemplate::builder().set_launch_template_specification(base);
        MixedInstancesPolicy::builder().launch_template(template.set_overrides(Some(overrides)).build()).build()
    }

    fn over(name: &str) -> LaunchTemplateOverrides {
        LaunchTemplateOverrides::builder().instance_type(name).build()
    }

    async fn machine(fake: &Fake, name: &str) -> Result<Machine, CloudError> {
        let aws = fake.aws(Settings::default());
        aws.machine(&observed(&aws, name).await).await
    }

    async fn types(fake: &Fake, name: &str) -> Vec<String> {
        machine(fake, name).await.expect("a machine").types
    }

    #[tokio::test]
    async fn the_types_come_from_wherever_the_group_has_them() {
        let own = LaunchTemplateOverrides::builder().launch_template_specification(template("arm", Some("3"))).build();
        let fake = Fake::with(vec![
            group("configuration").launch_configuration_name("lc").build(),
            group("template").launch_template(template("lt", None)).build(),
            group("latest").launch_template(template("lt", Some("$Latest"))).build(),
            group("numbered").launch_template(template("lt", Some("1"))).build(),
            group("mixed")
                .mixed_instances_policy(mixed(Some(template("lt", None)), vec![over("b"), over("a"), over("b")]))
                .build(),
            group("base").mixed_instances_policy(mixed(Some(template("lt", None)), vec![])).build(),
            group("own").mixed_instances_policy(mixed(Some(template("lt", None)), vec![over("a"), own])).build(),
        ]);
        fake.state(|state| {
            let configuration = LaunchConfiguration::builder().instance_type("from-lc").build();
            state.configurations.insert("lc".into(), configuration);
            for (key, name) in
                [("lt@$Default", "default"), ("lt@$Latest", "latest"), ("lt@1", "one"), ("arm@3", "m6g.large")]
            {
                state.templates.insert(key.into(), of_type(name));
            }
        });
        assert_eq!(types(&fake, "configuration").await, ["from-lc"]);
        assert_eq!(types(&fake, "template").await, ["default"]);
        assert_eq!(types(&fake, "latest").await, ["latest"]);
        assert_eq!(types(&fake, "numbered").await, ["one"]);
        assert_eq!(types(&fake, "mixed").await, ["b", "a"]);
        assert_eq!(types(&fake, "base").await, ["default"]);
        assert_eq!(types(&fake, "own").await, ["a", "m6g.large"]);
    }

    #[tokio::test]
    async fn a_machine_that_is_not_described_is_an_error_of_its_group_alone() {
        let fake = Fake::with(vec![
            group("nowhere").build(),
            group("missing").launch_template(template("gone", None)).build(),
            group("typeless").launch_template(template("empty", None)).build(),
            group("zoneless").set_availability_zones(None).launch_template(template("lt", None)).build(),
            group("bare-policy").mixed_instances_policy(MixedInstancesPolicy::builder().build()).build(),
            group("bare-override")
                .mixed_instances_policy(mixed(None, vec![LaunchTemplateOverrides::builder().build()]))
                .build(),
        ]);
        fake.state(|state| {
            state.templates.insert("lt@$Default".into(), of_type("m5.large"));
            state.templates.insert("empty@$Default".into(), version(ResponseLaunchTemplateData::builder().build()));
        });
        for (name, complaint) in [
            ("nowhere", "neither a launch template nor a launch configuration"),
            ("missing", "no version $Default of this launch template"),
            ("typeless", "names an instance type"),
            ("zoneless", "no availability zones"),
            ("bare-policy", "neither a launch template nor a launch configuration"),
            ("bare-override", "names an instance type"),
        ] {
            let error = machine(&fake, name).await.expect_err(name).to_string();
            assert!(error.contains(complaint), "{name}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_template_is_looked_up_once_and_a_moving_version_again_later() {
        let fake = Fake::with(vec![group("asg").launch_template(template("lt", None)).build()]);
        fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("old")));
        let aws = fake.aws(Settings::default());
        let reading = observed(&aws, "asg").await;
        for _ in 0..3 {
            assert_eq!(aws.machine(&reading).await.expect("a machine").types, ["old"]);
        }
        assert_eq!(fake.calls("DescribeLaunchTemplateVersions").len(), 1);
        assert_eq!(fake.calls("DescribeAutoScalingGroups").len(), 1, "the reading was remembered");
        fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("new")));
        tokio::time::advance(super::super::cache::RESOLVED_TTL).await;
        assert_eq!(aws.machine(&reading).await.expect("a machine").types, ["new"]);
    }

    #[tokio::test]
    async fn a_reading_that_is_out_of_date_is_read_again() {
        let fake = Fake::with(vec![group("asg").launch_template(template("lt", Some("2"))).build()]);
        fake.state(|state| state.templates.insert("lt@2".into(), of_type("two")));
        let aws = fake.aws(Settings::default());
        let reading = GroupReading { recipe: 7, ..observed(&aws, "asg").await };
        assert_eq!(aws.machine(&reading).await.expect("a machine").types, ["two"]);
        assert_eq!(fake.calls("DescribeAutoScalingGroups").len(), 2);
    }

    #[tokio::test]
    async fn requirements_are_asked_with_the_images_architecture() {
        let needs = || {
            let memory = MemoryMiBRequest::builder().min(4096).build();
            LaunchTemplateOverrides::builder()
                .instance_requirements(InstanceRequirements::builder().memory_mib(memory).build())
                .build()
        };
        let imageless = template("imageless", None);
        let fake = Fake::with(vec![
            group("arm").mixed_instances_policy(mixed(Some(template("arm", None)), vec![needs()])).build(),
            group("imageless").mixed_instances_policy(mixed(Some(imageless), vec![needs(), needs()])).build(),
        ]);
        fake.state(|state| {
            state.page = 2;
            state.types = ["m5.large", "c5.large", "m5.xlarge", "a1.large", "c5.large"].map(str::to_owned).to_vec();
            let data = ResponseLaunchTemplateData::builder().image_id("ami-1").build();
            state.templates.insert("arm@$Default".into(), version(data));
            state.templates.insert("imageless@$Default".into(), version(ResponseLaunchTemplateData::builder().build()));
            let image = Image::builder().image_id("ami-1").architecture(ArchitectureValues::Arm64).build();
            state.images.insert("ami-1".into(), image);
        });
        assert_eq!(types(&fake, "arm").await, ["a1.large", "c5.large", "m5.large", "m5.xlarge"]);
        assert_eq!(types(&fake, "imageless").await, ["a1.large", "c5.large", "m5.large", "m5.xlarge"]);
        let asked = fake.state(|state| state.requirements.clone());
        assert_eq!(asked.len(), 6, "three pages each, the second override from memory");
        assert_eq!(asked[0].0, [ArchitectureType::Arm64]);
        assert_eq!(asked[0].1.memory_mib().and_then(|range| range.min), Some(4096));
        assert_eq!(asked[3].0, [ArchitectureType::Arm64, ArchitectureType::X8664]);
        fake.state(|state| state.types.clear());
        let error = machine(&fake, "arm").await.expect_err("no types").to_string();
        assert!(error.contains("no instance type satisfies"), "{error}");
    }

    #[tokio::test]
    async fn zones_region_and_volume() {
        let mapping = |gib| {
            let ebs = LaunchTemplateEbsBlockDevice::builder().volume_size(gib).build();
            LaunchTemplateBlockDeviceMapping::builder().device_name("/dev/xvda").ebs(ebs).build()
        };
        let data = ResponseLaunchTemplateData::builder().instance_type(Ec2Type::M5Large);
        let fake = Fake::with(vec![
            group("sized").launch_template(template("sized", None)).build(),
            group("by-image").launch_template(template("by-image", None)).build(),
            group("local")
                .set_availability_zones(Some(vec!["us-east-1-bos-1a".into()]))
                .launch_template(template("sized", None))
                .build(),
        ]);
        fake.state(|state| {
            let sized = data.clone().block_device_mappings(mapping(50)).build();
            state.templates.insert("sized@$Default".into(), version(sized));
            state.templates.insert("by-image@$Default".into(), version(data.image_id("ami-1").build()));
            let ebs = EbsBlockDevice::builder().volume_size(20).build();
            let mapping = BlockDeviceMapping::builder().device_name("/dev/xvda").ebs(ebs).build();
            let image = Image::builder().root_device_name("/dev/xvda").block_device_mappings(mapping).build();
            state.images.insert("ami-1".into(), image);
        });
        let sized = machine(&fake, "sized").await.expect("a machine");
        assert_eq!(sized.zones, ["us-east-1a", "us-east-1b"], "sorted");
        assert_eq!((sized.region.as_str(), sized.operating_system), ("us-east-1", OperatingSystem::Linux));
        assert_eq!(sized.ephemeral_storage_bytes, Some(50 << 30));
        assert!(sized.labels.is_empty() && sized.reserved.is_none());
        let by_image = machine(&fake, "by-image").await.expect("a machine");
        assert_eq!(by_image.ephemeral_storage_bytes, Some(20 << 30));
        let local = machine(&fake, "local").await.expect("a machine");
        assert_eq!(local.region, "us-east-1");
        let zone = local.labels.get("topology.ebs.csi.aws.com/zone").map(String::as_str);
        assert_eq!(zone, Some("us-east-1-bos-1a"));
    }

    fn managed(name: &str) -> AutoScalingGroup {
        group(name)
            .launch_template(template("lt", None))
            .tags(tag("eks:cluster-name", "prod"))
            .tags(tag("eks:nodegroup-name", "workers"))
            .build()
    }

    #[tokio::test(start_paused = true)]
    async fn a_managed_node_group_adds_its_labels_and_taints() {
        let fake = Fake::with(vec![managed("eks-workers-1")]);
        let taint = eks::Taint::builder().key("k").effect(eks::TaintEffect::NoSchedule).build();
        let nodegroup = Nodegroup::builder().nodegroup_name("workers").labels("team", "a").taints(taint).disk_size(80);
        fake.state(|state| {
            state.templates.insert("lt@$Default".into(), of_type("m5.large"));
            state.nodegroups.insert("prod/workers".into(), nodegroup.build());
        });
        let aws = fake.aws(Settings::default());
        let reading = observed(&aws, "eks-workers-1").await;
        let first = aws.machine(&reading).await.expect("a machine");
        assert_eq!(first.reserved, Some(ReservedProfile::Eks));
        assert_eq!(first.labels.get("eks.amazonaws.com/nodegroup").map(String::as_str), Some("workers"));
        assert!(!first.labels.contains_key("nodegroup-name"));
        assert_eq!((first.taints.len(), first.taints[0].value.as_str()), (1, ""));
        assert_eq!(first.ephemeral_storage_bytes, Some(80 << 30));
        assert_eq!(aws.machine(&reading).await.expect("a machine"), first);
        assert_eq!(fake.calls("DescribeNodegroup").len(), 1);
        tokio::time::advance(super::super::cache::NODEGROUP_TTL).await;
        fake.fail("DescribeNodegroup", "ThrottlingException", "slow down", 429);
        assert_eq!(aws.machine(&reading).await.expect("a machine"), first, "the last answer stays in force");
    }

    #[tokio::test]
    async fn a_managed_node_group_that_cannot_be_read_costs_no_template() {
        let fake = Fake::with(vec![managed("eks-workers-1")]);
        fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("m5.large")));
        fake.fail("DescribeNodegroup", "AccessDeniedException", "no", 403);
        let machine = machine(&fake, "eks-workers-1").await.expect("a machine");
        assert_eq!((machine.reserved, machine.labels.len()), (Some(ReservedProfile::Eks), 0));
    }
}

mod types {
    use super::*;

    #[tokio::test]
    async fn unknown_types_are_left_out() {
        let fake = Fake::with(Vec::new());
        let known: Vec<String> = (0..150).map(|number| format!("m5.{number}xlarge")).collect();
        fake.state(|state| state.types = known.clone());
        let aws = fake.aws(Settings::default());
        let mut asked = known.clone();
        asked.insert(3, "x9.large".to_owned());
        let found = aws.instance_types(&asked).await.expect("readable");
        assert_eq!(found.iter().map(|found| &found.name).collect::<Vec<_>>(), known.iter().collect::<Vec<_>>());
        assert_eq!(fake.calls("DescribeInstanceTypes").len(), 3);
        assert!(aws.instance_types(&["x9.large".to_owned()]).await.expect("readable").is_empty());
        assert!(aws.instance_types(&[]).await.expect("readable").is_empty());
    }

    #[tokio::test]
    async fn a_refusal_that_names_nothing_is_met_one_by_one() {
        let fake = Fake::with(Vec::new());
        fake.state(|state| state.types = vec!["a.large".into(), "b.large".into()]);
        fake.fail("DescribeInstanceTypes a.large,b.large", "InvalidParameterValue", "no", 400);
        let found = fake.aws(Settings::default()).instance_types(&["a.large".into(), "b.large".into()]).await;
        assert_eq!(found.expect("readable").len(), 2);
        fake.fail("DescribeInstanceTypes", "RequestLimitExceeded", "no", 503);
        let throttled = fake.aws(Settings::default()).instance_types(&["a.large".into()]).await;
        assert!(matches!(throttled, Err(CloudError::Throttled { .. })));
    }

    #[tokio::test]
    async fn the_whole_catalog_is_paged() {
        let fake = Fake::with(Vec::new());
        fake.state(|state| state.types = (0..250).map(|number| format!("m5.{number}xlarge")).collect());
        let found = fake.aws(Settings::default()).all_instance_types().await.expect("readable");
        assert_eq!((found.len(), fake.calls("DescribeInstanceTypes").len()), (250, 3));
    }
}

#[tokio::test]
async fn a_placeholder_is_recognised_and_never_terminated() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let placeholder = aws.placeholder(&basis, "3-0");
    assert_eq!(placeholder.as_str(), "aws:///us-east-1a/i-placeholder-asg-3-0");
    assert_eq!(aws.recognise(placeholder.as_str()), crate::cloud::Recognition::Ours);
    let deletion = aws.delete_instances(&basis, &[placeholder]).await.expect("answered");
    assert_eq!((deletion.accepted.len(), deletion.refused.len()), (0, 1));
    assert!(fake.calls("TerminateInstance").is_empty());
}
