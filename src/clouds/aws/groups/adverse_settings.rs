//! Settings of Auto Scaling groups that work against the Cluster Autoscaler: scaling policies, and everything by which a group
//! replaces or terminates instances of its own choice.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::time::Duration;

use aws_sdk_autoscaling::types::{AutoScalingGroup, InstanceRefresh, InstanceRefreshStatus};
use futures_util::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::Groups;
use crate::cloud::text::shell_word;
use crate::cloud::{AdverseSetting, AdverseSettings, CloudError};

/// Most pages of policies: 10,000 policies, a few dozen for each group that an account may have by default.
const PAGES_MAX: usize = 100;
/// Instance refreshes are read group by group, so many at a time.
const REFRESHES_AT_ONCE: usize = 4;
/// ... and for this long at most.
const REFRESHES_LIMIT: Duration = Duration::from_secs(30);

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
        let refreshes = self.refreshes(&groups, &mut settings.unread).await;
        groups.sort_by(|one, other| one.auto_scaling_group_name.cmp(&other.auto_scaling_group_name));
        for group in &groups {
            let name = group.auto_scaling_group_name().unwrap_or_default();
            settings.found.extend(policies.get(name).map(|policies| scaled_by(name, policies)));
            settings.found.extend(rebalanced(name, group));
            settings.found.extend(replaced_before_interruption(name, group));
            settings.found.extend(maintained(name, group));
            settings.found.extend(refreshes.get(name).and_then(|refresh| refreshed(name, refresh)));
        }
        settings
    }

    /// The latest instance refresh of each group. A place without this call has no refreshes.
    async fn refreshes(
        &self,
        groups: &[AutoScalingGroup],
        unread: &mut Vec<CloudError>,
    ) -> HashMap<String, InstanceRefresh> {
        let names: Vec<String> = groups.iter().filter_map(|group| group.auto_scaling_group_name.clone()).collect();
        let read = async |name: String| (self.scaling.describe_instance_refresh(&name).await, name);
        let mut reads = pin!(stream::iter(names).map(read).buffer_unordered(REFRESHES_AT_ONCE));
        let (until, mut refreshes) = (Instant::now() + REFRESHES_LIMIT, HashMap::new());
        while let Ok(Some((read, name))) = timeout_at(until, reads.next()).await {
            match read {
                Ok(refresh) => refreshes.extend(refresh.map(|refresh| (name, refresh))),
                // Without the permission, no group's can be read.
                Err(error @ CloudError::Denied(_)) => {
                    unread.push(error);
                    break;
                }
                Err(error) => tracing::debug!(group = name, %error, "instance refreshes cannot be read"),
            }
        }
        refreshes
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

/// An instance refresh that is under way replaces instances of its own choice.
fn refreshed(name: &str, refresh: &InstanceRefresh) -> Option<AdverseSetting> {
    use InstanceRefreshStatus::{Baking, Cancelling, InProgress, Pending, RollbackInProgress};
    let status = refresh.status()?;
    matches!(status, Baking | Cancelling | InProgress | Pending | RollbackInProgress).then(|| AdverseSetting {
        group: name.into(),
        effect: format!(
            "an instance refresh is under way ({}, {} % done): it replaces instances without draining their nodes",
            status.as_str(),
            refresh.percentage_complete().unwrap_or_default()
        ),
        advice: format!(
            "wait for its end, or stop it: aws autoscaling cancel-instance-refresh --auto-scaling-group-name {}",
            shell_word(name)
        ),
    })
}

fn scaled_by(name: &str, policies: &[String]) -> AdverseSetting {
    AdverseSetting {
        group: name.into(),
        effect: format!("its size is also set by scaling policies: {}", policies.join(", ")),
        advice: format!(
            "delete them: aws autoscaling delete-policy --auto-scaling-group-name {} --policy-name {}",
            shell_word(name),
            shell_word(policies.first().map_or("", String::as_str))
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
            "aws autoscaling suspend-processes --auto-scaling-group-name {} --scaling-processes {PROCESS}, or \
             protect new instances from scale-in",
            shell_word(name)
        ),
    })
}

/// Capacity rebalancing launches a replacement for each Spot instance at risk, and terminates the old one without draining its node.
fn replaced_before_interruption(name: &str, group: &AutoScalingGroup) -> Option<AdverseSetting> {
    (group.capacity_rebalance() == Some(true)).then(|| AdverseSetting {
        group: name.into(),
        effect: "replaces Spot instances at risk by itself (capacity rebalancing), beyond its size for a while"
            .to_owned(),
        advice: format!(
            "drain such nodes with a termination handler instead: aws autoscaling update-auto-scaling-group \
             --auto-scaling-group-name {} --no-capacity-rebalance",
            shell_word(name)
        ),
    })
}

/// A maintenance policy lets the group exceed or undercut its size while it replaces instances.
fn maintained(name: &str, group: &AutoScalingGroup) -> Option<AdverseSetting> {
    let policy = group.instance_maintenance_policy()?;
    let (least, most) = (policy.min_healthy_percentage()?, policy.max_healthy_percentage()?);
    (most > 100 || (0..100).contains(&least)).then(|| AdverseSetting {
        group: name.into(),
        effect: format!("replaces unhealthy and old instances by itself, between {least} % and {most} % of its size"),
        advice: format!(
            "the surplus is listed and does no harm; to end it: aws autoscaling update-auto-scaling-group \
             --auto-scaling-group-name {} --instance-maintenance-policy MinHealthyPercentage=-1,MaxHealthyPercentage=-1",
            shell_word(name)
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
        let AdverseSettings { found, unread, .. } = aws.adverse_settings().await;
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

    #[tokio::test]
    async fn an_instance_refresh_is_found_while_it_is_under_way() {
        let refresh = |status| InstanceRefresh::builder().status(status).percentage_complete(40).build();
        let fake = Fake::with(vec![group("a", &["z1"]).build(), group("b", &["z1"]).build()]);
        fake.state(|state| {
            state.refreshes.insert("a".to_owned(), refresh(InstanceRefreshStatus::Successful));
            state.refreshes.insert("b".to_owned(), refresh(InstanceRefreshStatus::InProgress));
        });
        let (found, unread) = adverse_settings(&fake).await;
        assert_eq!(
            found,
            [
                "b: an instance refresh is under way (InProgress, 40 % done): it replaces instances without draining their nodes"
            ]
        );
        assert!(unread.is_empty(), "{unread:?}");
        fake.fail("DescribeInstanceRefreshes", "AccessDenied", "not allowed", 403);
        assert!(adverse_settings(&fake).await.1[0].starts_with("denied: DescribeInstanceRefreshes"));
    }

    #[test]
    fn settings_that_replace_instances_are_found() {
        let policy = |least, most| {
            let policy = aws_sdk_autoscaling::types::InstanceMaintenancePolicy::builder();
            policy.min_healthy_percentage(least).max_healthy_percentage(most).build()
        };
        let with = |least, most| {
            maintained("web", &group("web", &["z1"]).instance_maintenance_policy(policy(least, most)).build())
        };
        assert!(with(-1, -1).is_none() && with(100, 100).is_none());
        assert!(with(90, 120).is_some_and(|found| found.effect.contains("between 90 % and 120 %")));
        let spot =
            |on| replaced_before_interruption("my web", &group("my web", &["z1"]).capacity_rebalance(on).build());
        assert!(spot(true).is_some_and(|found| found.advice.contains("--auto-scaling-group-name 'my web'")));
        assert!(spot(false).is_none());
    }
}
