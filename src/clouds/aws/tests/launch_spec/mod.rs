//! What a group launches.

mod eks_nodes;
mod images;
mod template_versions;

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

fn mixed(base: Option<LaunchTemplateSpecification>, overrides: Vec<LaunchTemplateOverrides>) -> MixedInstancesPolicy {
    let template = LaunchTemplate::builder().set_launch_template_specification(base);
    MixedInstancesPolicy::builder().launch_template(template.set_overrides(Some(overrides)).build()).build()
}

fn over(name: &str) -> LaunchTemplateOverrides {
    LaunchTemplateOverrides::builder().instance_type(name).build()
}

async fn launch_spec(fake: &Fake, name: &str) -> Result<LaunchSpec, CloudError> {
    let aws = fake.aws(Settings::default());
    aws.launch_spec(&observed(&aws, name).await).await
}

async fn types(fake: &Fake, name: &str) -> Vec<String> {
    launch_spec(fake, name).await.expect("a launch spec").types
}

#[tokio::test]
async fn instance_types_come_from_overrides_templates_and_configurations() {
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
async fn a_group_is_spot_capacity_only_if_all_of_its_nodes_are() {
    let spot_options = LaunchTemplateInstanceMarketOptions::builder().market_type(MarketType::Spot).build();
    let spot = ResponseLaunchTemplateData::builder()
        .instance_type(Ec2Type::from("m5.large"))
        .instance_market_options(spot_options);
    let distributed = |base: i32, percentage: Option<i32>| {
        let distribution = InstancesDistribution::builder().on_demand_base_capacity(base);
        let distribution = distribution.set_on_demand_percentage_above_base_capacity(percentage).build();
        let mut policy = mixed(Some(template("lt", None)), vec![over("a"), over("b")]);
        policy.instances_distribution = Some(distribution);
        policy
    };
    let own =
        |name: &str| LaunchTemplateOverrides::builder().launch_template_specification(template(name, None)).build();
    let fake = Fake::with(vec![
        group("all").mixed_instances_policy(distributed(0, Some(0))).build(),
        group("base").mixed_instances_policy(distributed(1, Some(0))).build(),
        group("half").mixed_instances_policy(distributed(0, Some(50))).build(),
        group("default").mixed_instances_policy(distributed(0, None)).build(),
        group("template").launch_template(template("spot", None)).build(),
        group("some-templates").mixed_instances_policy(mixed(None, vec![own("spot"), own("lt")])).build(),
    ]);
    fake.state(|state| {
        state.templates.insert("lt@$Default".into(), of_type("m5.large"));
        state.templates.insert("spot@$Default".into(), version(spot.build()));
    });
    for (name, is_spot) in [
        ("all", true),
        ("base", false),
        ("half", false),
        ("default", false),
        ("template", true),
        ("some-templates", false),
    ] {
        assert_eq!(launch_spec(&fake, name).await.expect(name).is_spot, is_spot, "{name}");
    }
}

#[tokio::test]
async fn a_group_without_launch_settings_is_an_error_of_its_own() {
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
    for (name, expected) in [
        ("nowhere", "neither a launch template nor a launch configuration"),
        ("missing", "the launch template has no version $Default"),
        ("typeless", "names an instance type"),
        ("zoneless", "no availability zones"),
        ("bare-policy", "neither a launch template nor a launch configuration"),
        ("bare-override", "names an instance type"),
    ] {
        let error = launch_spec(&fake, name).await.expect_err(name).to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_template_is_looked_up_once_and_its_default_version_again_later() {
    let fake = Fake::with(vec![group("asg").launch_template(template("lt", None)).build()]);
    fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("old")));
    let aws = fake.aws(Settings::default());
    let reading = observed(&aws, "asg").await;
    for _ in 0..3 {
        assert_eq!(aws.launch_spec(&reading).await.expect("a launch spec").types, ["old"]);
    }
    assert_eq!(fake.calls("DescribeLaunchTemplateVersions").len(), 1);
    assert_eq!(fake.calls("DescribeAutoScalingGroups").len(), 1, "the reading was remembered");
    fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("new")));
    tokio::time::advance(cache::MOVING_TTL).await;
    let moved = aws.launch_spec(&reading).await.expect("a launch spec");
    assert_eq!(moved.types, ["new"]);
    assert!(moved.is_floating, "it can move again");
}

#[tokio::test]
async fn launch_settings_that_changed_since_the_reading_are_read_again() {
    let fake = Fake::with(vec![group("asg").launch_template(template("lt", Some("2"))).build()]);
    fake.state(|state| state.templates.insert("lt@2".into(), of_type("two")));
    let aws = fake.aws(Settings::default());
    let reading = GroupReading { launch_fingerprint: 7, ..observed(&aws, "asg").await };
    assert_eq!(aws.launch_spec(&reading).await.expect("a launch spec").types, ["two"]);
    assert_eq!(fake.calls("DescribeAutoScalingGroups").len(), 2);
}

#[tokio::test]
async fn requirements_are_resolved_for_the_images_architecture() {
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
    let error = launch_spec(&fake, "arm").await.expect_err("no types").to_string();
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
    let sized = launch_spec(&fake, "sized").await.expect("a launch spec");
    assert_eq!(sized.zones, ["us-east-1a", "us-east-1b"], "sorted");
    assert_eq!((sized.region.as_str(), sized.operating_system), ("us-east-1", OperatingSystem::Linux));
    assert_eq!(sized.ephemeral_storage_bytes, Some(50 << 30));
    assert!(sized.labels.is_empty() && sized.reserved.is_none());
    let by_image = launch_spec(&fake, "by-image").await.expect("a launch spec");
    assert_eq!(by_image.ephemeral_storage_bytes, Some(20 << 30));
    let local = launch_spec(&fake, "local").await.expect("a launch spec");
    assert_eq!(local.region, "us-east-1");
    let zone = local.labels.get("topology.ebs.csi.aws.com/zone").map(String::as_str);
    assert_eq!(zone, Some("us-east-1-bos-1a"));
}

#[tokio::test]
async fn user_data_interfaces_and_cpu_options_of_a_launch_template_are_used() {
    let user_data = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  instance:\n    localStorage:\n      \
                     strategy: RAID0\n  kubelet:\n    config:\n      maxPods: 58\n    flags:\n    - \
                     --node-labels=team=ml\n    - --register-with-taints=gpu=true:NoSchedule\n";
    let interface =
        |kind: &str| LaunchTemplateInstanceNetworkInterfaceSpecification::builder().interface_type(kind).build();
    let cpus = LaunchTemplateCpuOptions::builder().core_count(4).threads_per_core(1).build();
    let fake = Fake::with(vec![group("asg").launch_template(template("lt", None)).build()]);
    fake.state(|state| {
        let data = ResponseLaunchTemplateData::builder()
            .instance_type(Ec2Type::from("p4d.24xlarge"))
            .user_data(aws_smithy_types::base64::encode(user_data))
            .network_interfaces(interface("efa"))
            .network_interfaces(interface("efa-only"))
            .network_interfaces(interface("interface"))
            .cpu_options(cpus);
        state.templates.insert("lt@$Default".into(), version(data.build()));
    });
    let spec = launch_spec(&fake, "asg").await.expect("a launch spec");
    assert_eq!((spec.reserved, spec.max_pods), (Some(ReservedProfile::Eks), Some(58)));
    assert_eq!((spec.cpus_max, spec.local_disks), (Some(4), LocalDisks::Joined));
    assert_eq!(spec.devices, [("vpc.amazonaws.com/efa".to_owned(), 2)].into());
    assert_eq!(spec.labels.get("team").map(String::as_str), Some("ml"));
    let taint = Taint { key: "gpu".into(), value: "true".into(), effect: TaintEffect::NoSchedule };
    assert_eq!(spec.taints, [taint]);
}
