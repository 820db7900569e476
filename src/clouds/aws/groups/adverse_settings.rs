//! Settings of Auto Scaling groups that work against the Cluster Autoscaler: scaling policies, and the process by which a
//! group terminates instances of its own choice.

use std::collections::BTreeMap;

use aws_sdk_autoscaling::types::AutoScalingGroup;

use super::Groups;
use crate::cloud::{AdverseSetting, AdverseSettings, CloudError};

/// Most pages of policies: 10,000 policies, a few dozen for each group that an account may have by default.
const PAGES_MAX: usize = 100;

impl Groups {
    /// Reads the groups and their policies.
    pub(in crate::clouds::aws) async fn adverse_settings(&self) -> AdverseSettings {
        let mut settings = AdverseSettings::default();
        let mut groups = Vec::new();
        if let Err(error) = self.describe_all(&mut |page| groups.extend(page)).await {
            return AdverseSettings { unread: vec![error], ..settings };
        }
        let policies = self.policies().await.unwrap_or_else(|error| {
            settings.unread.push(error);
            BTreeMap::new()
        });
        groups.sort_by(|one, other| one.auto_scaling_group_name.cmp(&other.auto_scaling_group_name));
        for group in &groups {
            let name = group.auto_scaling_group_name().unwrap_or_default();
            settings.found.extend(policies.get(name).map(|policies| scaled_by(name, policies)));
            settings.found.extend(rebalanced(name, group));
        }
        settings
    }

    /// The names of the enabled policies, by group.
    async fn policies(&self) -> Result<BTreeMap<String, Vec<String>>, CloudError> {
        let (mut policies, mut token) = (BTreeMap::<String, Vec<String>>::new(), None);
        for _ in 0..PAGES_MAX {
            let page = self.scaling.describe_policies(token).await?;
            for policy in page.scaling_policies.unwrap_or_default() {
                let (group, name) = (policy.auto_scaling_group_name, policy.policy_name);
                if let (Some(group), Some(name), true) = (group, name, policy.enabled.unwrap_or(true)) {
                    policies.entry(group).or_default().push(name);
                }
            }
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(policies);
            }
        }
        Err(CloudError::unintelligible("DescribePolicies", "all", format!("more than {PAGES_MAX} pages")))
    }
}

fn scaled_by(name: &str, policies: &[String]) -> AdverseSetting {
    AdverseSetting {
        group: name.into(),
        effect: format!("its size is also set by scaling policies: {}", policies.join(", ")),
        advice: format!(
            "delete them: aws autoscaling delete-policy --auto-scaling-group-name {name} --policy-name {}",
            policies.first().map_or("", String::as_str)
        ),
    }
}

/// A group in several zones rebalances them by terminating instances, unless the process is suspended or new instances are
/// protected from scale-in. Headcount can terminate protected instances all the same.
fn rebalanced(name: &str, group: &AutoScalingGroup) -> Option<AdverseSetting> {
    const PROCESS: &str = "AZRebalance";
    let zones = group.availability_zones().len();
    let suspended = group.suspended_processes().iter().any(|suspended| suspended.process_name() == Some(PROCESS));
    if zones < 2 || suspended || group.new_instances_protected_from_scale_in == Some(true) {
        return None;
    }
    Some(AdverseSetting {
        group: name.into(),
        effect: format!("it spans {zones} zones and terminates instances in use to rebalance them ({PROCESS})"),
        advice: format!(
            "aws autoscaling suspend-processes --auto-scaling-group-name {name} --scaling-processes {PROCESS}, or \
             protect new instances from scale-in"
        ),
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
    use aws_sdk_autoscaling::types::{ScalingPolicy, SuspendedProcess};

    use super::super::super::Settings;
    use super::super::super::sdk::fake::Fake;
    use super::*;
    use crate::cloud::{Cloud, NodeGroupSpec};

    fn group(name: &str, zones: &[&str]) -> AutoScalingGroupBuilder {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        AutoScalingGroup::builder().auto_scaling_group_name(name).set_availability_zones(Some(zones))
    }

    fn policy(group: &str, name: &str, enabled: bool) -> ScalingPolicy {
        ScalingPolicy::builder().auto_scaling_group_name(group).policy_name(name).enabled(enabled).build()
    }

    async fn adverse_settings(fake: &Fake) -> (Vec<String>, Vec<String>) {
        let names = ["a", "b"].map(|name| NodeGroupSpec { min: 0, max: 9, name: name.to_owned() });
        let aws = fake.aws(Settings { node_groups: names.to_vec(), ..Settings::default() });
        let AdverseSettings { found, unread } = aws.adverse_settings().await;
        let found = found.into_iter().map(|setting| format!("{}: {}", setting.group, setting.effect));
        (found.collect(), unread.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn enabled_policies_are_found_on_every_page_and_those_of_other_groups_are_ignored() {
        let fake = Fake::with(vec![group("a", &["z1"]).build(), group("b", &["z1"]).build()]);
        fake.state(|state| {
            state.page = 2;
            state.policies = vec![
                policy("other", "cpu", true),
                policy("a", "off", false),
                policy("b", "cpu", true),
                policy("other", "cpu", true),
                policy("b", "queue", true),
            ];
        });
        let (found, unread) = adverse_settings(&fake).await;
        assert_eq!(found, ["b: its size is also set by scaling policies: cpu, queue"]);
        assert!(unread.is_empty(), "{unread:?}");
    }

    #[tokio::test]
    async fn rebalancing_is_found_if_it_can_terminate_instances() {
        let suspended = SuspendedProcess::builder().process_name("AZRebalance").build();
        for (group, rebalanced) in [
            (group("a", &["z1"]), false),
            (group("a", &["z1", "z2"]), true),
            (group("a", &["z1", "z2"]).suspended_processes(suspended), false),
            (group("a", &["z1", "z2"]).new_instances_protected_from_scale_in(true), false),
        ] {
            let (found, _) = adverse_settings(&Fake::with(vec![group.build()])).await;
            assert_eq!(!found.is_empty(), rebalanced, "{found:?}");
        }
    }

    #[tokio::test]
    async fn rebalancing_is_found_even_if_the_policies_cannot_be_read() {
        let fake = Fake::with(vec![group("a", &["z1", "z2"]).build()]);
        fake.fail("DescribePolicies", "AccessDenied", "not allowed", 403);
        let (found, unread) = adverse_settings(&fake).await;
        assert_eq!(found.len(), 1);
        assert!(unread[0].starts_with("denied: DescribePolicies"), "{unread:?}");
    }
}
