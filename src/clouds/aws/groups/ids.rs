//! Provider IDs: `aws:///<zone>/<instance>`.

use crate::cloud::{ProviderId, Recognition};

const PREFIX: &str = "aws:///";

/// The provider ID that the kubelet sets for an instance.
pub(in crate::clouds::aws) fn provider_id(zone: &str, instance: &str) -> ProviderId {
    format!("{PREFIX}{zone}/{instance}").into()
}

/// The zone and the instance of an ID of EC2's form, in any case.
fn parse(id: &str) -> Option<(&str, &str)> {
    let prefix = id.get(..PREFIX.len()).filter(|prefix| prefix.eq_ignore_ascii_case(PREFIX))?;
    let (zone, instance) = id.get(prefix.len()..)?.split_once('/')?;
    instance.get(..2).filter(|start| start.eq_ignore_ascii_case("i-"))?;
    let number = instance.get(2..)?;
    // A placeholder holds its group's name, which may contain anything but a colon. Fargate's IDs have a third part.
    let placeholder = number.get(..12).is_some_and(|start| start.eq_ignore_ascii_case("placeholder-"));
    let alphanumeric = !number.is_empty() && number.chars().all(|letter| letter.is_ascii_alphanumeric());
    (placeholder || alphanumeric).then_some((zone, instance))
}

/// The instance's own ID, as EC2 writes it.
pub(in crate::clouds::aws) fn instance_of(id: &ProviderId) -> Option<String> {
    let (_, instance) = parse(id.as_str())?;
    Some(instance.to_ascii_lowercase()).filter(|instance| !instance.starts_with("i-placeholder-"))
}

/// What the ID of a placeholder of this group begins with. Any zone of the region would do, but it must not depend on the
/// group's zones: the ID must not change with them.
pub(super) fn placeholder_prefix(region: &str, group: &str) -> String {
    provider_id(&format!("{region}a"), &format!("i-placeholder-{group}-")).to_string()
}

/// Whether an ID belongs to an instance of this region. The group's name cannot be read from a placeholder, because it
/// is unclear where the name ends.
pub(in crate::clouds::aws) fn recognise(region: &str, id: &str) -> Recognition {
    match parse(id) {
        Some((zone, _)) if is_zone_of(region, zone) => Recognition::Ours,
        _ => Recognition::Foreign,
    }
}

// us-east-1a is a zone of us-east-1, and so is the local zone us-east-1-bos-1a; us-east-11a is not.
fn is_zone_of(region: &str, zone: &str) -> bool {
    let zone = zone.to_ascii_lowercase();
    zone.strip_prefix(&region.to_ascii_lowercase())
        .is_some_and(|rest| rest.starts_with(|letter: char| letter == '-' || letter.is_ascii_lowercase()))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_and_placeholders_of_the_region_are_ours() {
        for (region, id) in [
            ("us-east-1", "aws:///us-east-1a/i-260942b3"),
            ("us-east-1", "AWS:///US-EAST-1A/I-260942B3"),
            ("us-east-1", "aws:///us-east-1a/i-placeholder-some.arbitrary.cluster.local"),
            (
                "eu-central-1",
                "aws:///eu-central-1c/i-placeholder-K3-EKS-spotr5xlasgsubnet02af43b02922e710f-10QH9H0C-14",
            ),
            ("us-west-2", "aws:///us-west-2-lax-1a/i-1"),
            ("us-east-1", "aws:///us-east-1a/i-placeholder-a/b-1"),
        ] {
            assert_eq!(recognise(region, id), Recognition::Ours, "{id}");
        }
    }

    #[test]
    fn everything_else_is_foreign() {
        for id in [
            "",
            "aws123",
            "aws://test-az/x",
            "aws:///",
            "aws:///us-east-1a",
            "aws:///us-east-1a/",
            "aws:///us-east-1a/i-",
            "aws:///us-east-11a/i-260942b3",
            "aws:///us-east-1/i-260942b3",
            "aws:///eu-west-1a/i-260942b3",
            "aws:///us-east-1a/0123456789abcdef/fargate-ip-10-0-0-1.ec2.internal",
            "aws:///us-east-1a/i-1/x",
            "eks-hybrid:///us-west-2/my-cluster/my-node-1",
            "azure:///subscriptions/x",
            "ä",
            "aws:///us-east-1a/ä",
        ] {
            assert_eq!(recognise("us-east-1", id), Recognition::Foreign, "{id}");
        }
    }

    #[test]
    fn an_instance_has_its_own_id_and_a_placeholder_has_none() {
        let instance = |id: &str| instance_of(&id.into());
        assert_eq!(instance("AWS:///us-east-1a/I-0AB"), Some("i-0ab".into()));
        assert_eq!(instance("aws:///us-east-1a/i-placeholder-asg-1"), None);
        assert_eq!(provider_id("us-east-1a", "i-0ab"), "aws:///us-east-1a/i-0ab".into());
    }
}
