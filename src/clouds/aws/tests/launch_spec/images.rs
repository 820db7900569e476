//! What a launch spec says while its image cannot be read.

use super::*;

const THROTTLED: (&str, &str, u16) = ("RequestLimitExceeded", "slow down", 503);
const DENIED: (&str, &str, u16) = ("UnauthorizedOperation", "not allowed", 403);
const GONE: (&str, &str, u16) = ("InvalidAMIID.NotFound", "no such image", 400);

const KUBEADM: &str = "#!/bin/bash\nkubeadm join --config /run/join.yaml\n";
const POWERSHELL: &str = "<powershell>\nC:\\join.ps1\n</powershell>\n";
const SCRIPT: &str = "#!/bin/bash\n/opt/join\n";

/// A launch template with this image and user data.
fn launching(image: &str, user_data: &str) -> LaunchTemplateVersion {
    let data = ResponseLaunchTemplateData::builder().instance_type(Ec2Type::M5Large).image_id(image);
    version(data.user_data(aws_smithy_types::base64::encode(user_data)).build())
}

/// An EKS image of Windows with a volume of 50 GiB.
fn windows_image() -> Image {
    let ebs = EbsBlockDevice::builder().volume_size(50).build();
    let mapping = BlockDeviceMapping::builder().device_name("/dev/sda1").ebs(ebs).build();
    Image::builder()
        .name("Windows_Server-2022-English-Core-EKS_Optimized-1.33-2025.08.13")
        .platform("windows".into())
        .root_device_name("/dev/sda1")
        .block_device_mappings(mapping)
        .build()
}

/// Groups whose launch templates have these user data, all with the same image.
fn groups_of(user_data: &[(&str, &str)]) -> Fake {
    let of = |name: &str| group(name).launch_template(template(name, None)).build();
    let fake = Fake::with(user_data.iter().map(|(name, _)| of(name)).collect());
    fake.state(|state| {
        for (name, text) in user_data {
            state.templates.insert(format!("{name}@$Default"), launching("ami-1", text));
        }
        state.images.insert("ami-1".into(), windows_image());
    });
    fake
}

fn fail(fake: &Fake, (code, message, status): (&'static str, &'static str, u16)) {
    fake.fail("DescribeImages", code, message, status);
}

fn kind(spec: &LaunchSpec) -> (Option<ReservedProfile>, OperatingSystem) {
    (spec.reserved, spec.operating_system)
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_read_for_a_moment_fails_the_launch_spec_of_its_group_until_it_can() {
    let fake = groups_of(&[("bare", ""), ("script", SCRIPT)]);
    fake.state(|state| state.groups.push(group("other").launch_template(template("lt", None)).build()));
    fake.state(|state| state.templates.insert("lt@$Default".into(), of_type("m5.large")));
    for failure in [THROTTLED, ("InternalError", "try again", 500)] {
        let aws = fake.aws(Settings::default());
        let asked = fake.calls("DescribeImages").len();
        fail(&fake, failure);
        for name in ["bare", "script"] {
            let error = aws.launch_spec(&observed(&aws, name).await).await.expect_err(name);
            assert!(error.may_pass(), "{name}: retried soon: {error}");
        }
        aws.launch_spec(&observed(&aws, "other").await).await.expect("it has no image");
        assert_eq!(fake.calls("DescribeImages").len(), asked + 1, "groups of one image share the failed call");
        tokio::time::advance(cache::FAILED_CALL_TTL).await;
        let spec = aws.launch_spec(&observed(&aws, "bare").await).await.expect("a launch spec");
        assert_eq!(kind(&spec), (Some(ReservedProfile::Eks), OperatingSystem::Windows));
        assert_eq!((spec.ephemeral_storage_bytes, spec.is_provisional), (Some(50 << 30), false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_spec_does_without_its_image_for_a_moment_if_all_else_shows_the_kind_of_node() {
    let fake = groups_of(&[("kubeadm", KUBEADM), ("eks", "[settings.kubernetes]\n"), ("tagged", POWERSHELL)]);
    let tagged = group("tagged").launch_template(template("tagged", None)).tags(tag("eks:cluster-name", "prod"));
    fake.state(|state| state.groups[2] = tagged.build());
    for (name, reserved, system) in [
        ("kubeadm", None, OperatingSystem::Linux),
        ("eks", Some(ReservedProfile::Eks), OperatingSystem::Linux),
        ("tagged", Some(ReservedProfile::Eks), OperatingSystem::Windows),
    ] {
        let aws = fake.aws(Settings::default());
        fail(&fake, THROTTLED);
        let reading = observed(&aws, name).await;
        let spec = aws.launch_spec(&reading).await.expect(name);
        assert_eq!(kind(&spec), (reserved, system), "{name}");
        assert!(spec.is_provisional && spec.ephemeral_storage_bytes.is_none(), "{name}");
        tokio::time::advance(cache::FAILED_CALL_TTL).await;
        let spec = aws.launch_spec(&reading).await.expect(name);
        assert!(!spec.is_provisional && spec.ephemeral_storage_bytes.is_some(), "{name}");
    }
}

#[tokio::test]
async fn an_image_that_decides_the_instance_types_is_needed_whatever_else_is_known() {
    let fake = groups_of(&[("kubeadm", KUBEADM)]);
    let needs = LaunchTemplateOverrides::builder().instance_requirements(InstanceRequirements::builder().build());
    let policy = mixed(Some(template("kubeadm", None)), vec![needs.build()]);
    fake.state(|state| state.groups = vec![group("kubeadm").mixed_instances_policy(policy).build()]);
    fail(&fake, THROTTLED);
    let error = launch_spec(&fake, "kubeadm").await.expect_err("its architecture is unknown");
    assert!(error.may_pass(), "{error}");
}

#[tokio::test]
async fn an_image_that_may_not_be_read_or_is_gone_counts_as_one_of_eks_unless_the_user_data_shows_another_cluster() {
    let fake = groups_of(&[("bare", ""), ("script", SCRIPT), ("kubeadm", KUBEADM), ("windows", POWERSHELL)]);
    fake.state(|state| {
        state.groups.push(group("alias").launch_template(template("alias", None)).build());
        state.templates.insert("alias@$Default".into(), launching("resolve:ssm:/ours/image", SCRIPT));
        state.images.clear();
    });
    for failure in [Some(DENIED), Some(GONE), None] {
        for (name, reserved, system) in [
            ("bare", Some(ReservedProfile::Eks), OperatingSystem::Linux),
            ("script", Some(ReservedProfile::Eks), OperatingSystem::Linux),
            ("kubeadm", None, OperatingSystem::Linux),
            ("windows", Some(ReservedProfile::Eks), OperatingSystem::Windows),
            ("alias", Some(ReservedProfile::Eks), OperatingSystem::Linux),
        ] {
            fake.state(|state| state.failures.clear());
            failure.into_iter().for_each(|failure| fail(&fake, failure));
            let spec = launch_spec(&fake, name).await.expect(name);
            assert_eq!((kind(&spec), spec.is_provisional), ((reserved, system), false), "{name} {failure:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_that_was_read_before_stays_in_use() {
    let fake = groups_of(&[("bare", "")]);
    let aws = fake.aws(Settings::default());
    let reading = observed(&aws, "bare").await;
    let first = aws.launch_spec(&reading).await.expect("a launch spec");
    let mut ttl = cache::IMMUTABLE_TTL;
    for failure in [THROTTLED, DENIED, GONE] {
        tokio::time::advance(ttl).await;
        fail(&fake, failure);
        assert_eq!(aws.launch_spec(&reading).await.expect("a launch spec"), first, "{failure:?}");
        ttl = cache::FAILED_TTL;
    }
    assert_eq!(fake.calls("DescribeImages").len(), 4);
}

#[tokio::test]
async fn the_nodes_of_a_windows_image_have_the_label_of_its_build() {
    let fake = groups_of(&[("bare", ""), ("kubeadm", KUBEADM)]);
    for name in ["bare", "kubeadm"] {
        let spec = launch_spec(&fake, name).await.expect(name);
        let build = spec.labels.get("node.kubernetes.io/windows-build").map(String::as_str);
        assert_eq!(build, Some("10.0.20348"), "{name}: its name ends with a date in 2025");
    }
}
