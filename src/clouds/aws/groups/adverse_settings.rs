//! Settings of Auto Scaling groups that work against the Cluster Autoscaler: scaling policies, scheduled actions, and
//! features that replace or terminate instances without asking it.

mod by_itself;

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::time::Duration;

use aws_sdk_autoscaling::types::{
    AutoScalingGroup, InstanceRefresh, InstanceRefreshStatus, PredictiveScalingMode, ScalingPolicy,
};
use futures_util::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::Groups;
use super::reading::stop_rebalancing;
use crate::cloud::text::shell_word;
use crate::cloud::{AdverseKind, AdverseSetting, AdverseSettings, CloudError};
use crate::clouds::page_walk::PageWalk;

/// The most pages of policies or scheduled actions: 10,000 of them, which is a few dozen for each group that an account
/// may have by default.
const PAGES_MAX: usize = 100;
/// Instance refreshes are read group by group, this many at a time.
const REFRESHES_AT_ONCE: usize = 4;
/// The time limit for reading all instance refreshes.
const REFRESHES_LIMIT: Duration = Duration::from_secs(30);

impl Groups {
    /// Reads the groups and their policies.
    pub(in crate::clouds::aws) async fn adverse_settings(&self) -> AdverseSettings {
        let mut settings = AdverseSettings::default();
        let mut groups = Vec::new();
        if let Err(error) = self.describe_all(&mut |page| groups.extend(page.groups)).await {
            return AdverseSettings { unread: vec![error], ..settings };
        }
        let policies = self.named(Named::EnabledPolicies).await.unwrap_or_else(|error| {
            settings.unread.push(error);
            BTreeMap::new()
        });
        let schedules = self.named(Named::ScheduledActions).await.unwrap_or_else(|error| {
            settings.unread.push(error);
            BTreeMap::new()
        });
        let refreshes = self.refreshes(&groups, &mut settings.unread).await;
        groups.sort_by(|one, other| one.auto_scaling_group_name.cmp(&other.auto_scaling_group_name));
        for group in &groups {
            let name = group.auto_scaling_group_name().unwrap_or_default();
            settings.found.extend(policies.get(name).map(|policies| scaled_by(name, policies)));
            settings.found.extend(schedules.get(name).map(|actions| scheduled(name, actions)));
            settings.found.extend(rebalanced(name, group));
            settings.found.extend(replaced_before_interruption(name, group));
            settings.found.extend(maintained(name, group));
            settings.found.extend(refreshes.get(name).and_then(|refresh| refreshed(name, refresh)));
            settings.found.extend(by_itself::of(name, group));
        }
        settings
    }

    /// The latest instance refresh of each group. Where this call does not exist, there are no refreshes.
    async fn refreshes(
        &self,
        groups: &[AutoScalingGroup],
        unread: &mut Vec<CloudError>,
    ) -> HashMap<String, InstanceRefresh> {
        let names: Vec<String> = groups.iter().filter_map(|group| group.auto_scaling_group_name.clone()).collect();
        let mut waiting = names.len();
        let read = async |name: String| (self.scaling.describe_instance_refresh(&name).await, name);
        let mut reads = pin!(stream::iter(names).map(read).buffer_unordered(REFRESHES_AT_ONCE));
        let (until, mut refreshes) = (Instant::now() + REFRESHES_LIMIT, HashMap::new());
        let mut failed: Option<CloudError> = None;
        while let Ok(Some((read, name))) = timeout_at(until, reads.next()).await {
            waiting = waiting.saturating_sub(1);
            match read {
                Ok(refresh) => refreshes.extend(refresh.map(|refresh| (name, refresh))),
                // Without the permission, no group's refreshes can be read.
                Err(error @ CloudError::Denied(_)) => {
                    unread.push(error);
                    return refreshes;
                }
                Err(error) => {
                    tracing::debug!(group = name, %error, "instance refreshes of the group cannot be read");
                    failed = failed.or(Some(error).filter(CloudError::may_pass));
                }
            }
        }
        if waiting > 0 {
            let reason = format!("those of {waiting} groups were not read within {} s", REFRESHES_LIMIT.as_secs());
            failed = Some(CloudError::unreachable("DescribeInstanceRefreshes", "all", reason));
        }
        unread.extend(failed);
        refreshes
    }

    /// The names of all policies or scheduled actions, by group.
    async fn named(&self, what: Named) -> Result<BTreeMap<String, Vec<String>>, CloudError> {
        let (mut by_group, mut token) = (BTreeMap::<String, Vec<String>>::new(), None);
        let mut walk = PageWalk::default();
        for _ in 0..PAGES_MAX {
            let (names, next) = self.names_page(what, token).await?;
            for (group, name) in names {
                if let (Some(group), Some(name)) = (group, name) {
                    by_group.entry(group).or_default().push(name);
                }
            }
            token = walk.token(next).map_err(|why| CloudError::unintelligible(what.operation(), "all", why))?;
            if token.is_none() {
                return Ok(by_group);
            }
        }
        Err(CloudError::unintelligible(what.operation(), "all", format!("more than {PAGES_MAX} pages")))
    }

    async fn names_page(&self, what: Named, token: Option<String>) -> Result<NamesPage, CloudError> {
        match what {
            Named::EnabledPolicies => {
                let page = self.scaling.describe_policies(token).await?;
                let policies = page.scaling_policies.unwrap_or_default().into_iter();
                let enabled = policies.filter(|policy| policy.enabled.unwrap_or(true) && changes_capacity(policy));
                let named = enabled.map(|policy| (policy.auto_scaling_group_name, policy.policy_name));
                Ok((named.collect(), page.next_token))
            }
            Named::ScheduledActions => {
                let page = self.scaling.describe_scheduled_actions(token).await?;
                let actions = page.scheduled_update_group_actions.unwrap_or_default().into_iter();
                let named = actions.map(|action| (action.auto_scaling_group_name, action.scheduled_action_name));
                Ok((named.collect(), page.next_token))
            }
        }
    }
}

/// A predictive policy only forecasts unless it says otherwise.
fn changes_capacity(policy: &ScalingPolicy) -> bool {
    let predictive = policy.predictive_scaling_configuration.as_ref();
    predictive.is_none_or(|predictive| predictive.mode == Some(PredictiveScalingMode::ForecastAndScale))
}

/// What is listed for all groups at once.
#[derive(Clone, Copy)]
enum Named {
    EnabledPolicies,
    ScheduledActions,
}

impl Named {
    fn operation(self) -> &'static str {
        match self {
            Self::EnabledPolicies => "DescribePolicies",
            Self::ScheduledActions => "DescribeScheduledActions",
        }
    }
}

/// What a page names: groups, and something of theirs; and the token of the next page.
type NamesPage = (Vec<(Option<String>, Option<String>)>, Option<String>);

/// An instance refresh that is under way replaces instances without draining their nodes.
fn refreshed(name: &str, refresh: &InstanceRefresh) -> Option<AdverseSetting> {
    use InstanceRefreshStatus::{Baking, Cancelling, InProgress, Pending, RollbackInProgress};
    let status = refresh.status()?;
    matches!(status, Baking | Cancelling | InProgress | Pending | RollbackInProgress).then(|| AdverseSetting {
        group: name.into(),
        kind: AdverseKind::Resizes,
        effect: format!(
            "an instance refresh is under way ({}, {} % done): it replaces instances without draining their nodes, and \
             the Cluster Autoscaler sees nodes go that it did not name",
            status.as_str(),
            refresh.percentage_complete().unwrap_or_default()
        ),
        advice: format!(
            "wait until it ends, or stop it: aws autoscaling cancel-instance-refresh --auto-scaling-group-name {}",
            shell_word(name)
        ),
    })
}

fn scaled_by(name: &str, policies: &[String]) -> AdverseSetting {
    AdverseSetting {
        group: name.into(),
        kind: AdverseKind::Resizes,
        effect: format!(
            "its size is also set by scaling policies: {}; the Cluster Autoscaler sees targets that it did not set, and \
             AWS chooses the instances to terminate",
            policies.join(", ")
        ),
        advice: delete_each(name, "delete-policy", "--policy-name", policies),
    }
}

/// Scheduled actions set minimum, maximum and desired capacity at their times.
fn scheduled(name: &str, actions: &[String]) -> AdverseSetting {
    AdverseSetting {
        group: name.into(),
        kind: AdverseKind::Resizes,
        effect: format!(
            "its size is also set by scheduled actions: {}; the Cluster Autoscaler sees targets and bounds that it did \
             not set, and AWS chooses the instances to terminate",
            actions.join(", ")
        ),
        advice: delete_each(name, "delete-scheduled-action", "--scheduled-action-name", actions),
    }
}

fn delete_each(group: &str, command: &str, option: &str, names: &[String]) -> String {
    let group = shell_word(group);
    let delete = |name: &String| {
        format!("aws autoscaling {command} --auto-scaling-group-name {group} {option} {}", shell_word(name))
    };
    format!("delete them: {}", names.iter().map(delete).collect::<Vec<_>>().join(" && "))
}

/// A group in several zones rebalances them by terminating instances, unless the process is suspended or new instances
/// are protected from scale-in. Headcount can still terminate protected instances.
fn rebalanced(name: &str, group: &AutoScalingGroup) -> Option<AdverseSetting> {
    let stop = stop_rebalancing(group).filter(|_| group.new_instances_protected_from_scale_in != Some(true))?;
    let zones = group.availability_zones().len();
    Some(AdverseSetting {
        group: name.into(),
        kind: AdverseKind::Resizes,
        effect: format!(
            "it spans {zones} zones and terminates instances in use to rebalance them (AZRebalance): the Cluster \
             Autoscaler sees nodes go that it did not name"
        ),
        advice: format!("{stop}, or protect new instances from scale-in"),
    })
}

/// Capacity rebalancing launches a replacement for each Spot instance at risk, and terminates the old one without
/// draining its node.
fn replaced_before_interruption(name: &str, group: &AutoScalingGroup) -> Option<AdverseSetting> {
    (group.capacity_rebalance() == Some(true)).then(|| AdverseSetting {
        group: name.into(),
        kind: AdverseKind::Resizes,
        effect: "replaces Spot instances at risk by itself (capacity rebalancing): the Cluster Autoscaler sees more \
                 nodes than its target, then nodes go that it did not name"
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
        kind: AdverseKind::Resizes,
        effect: format!(
            "replaces unhealthy and old instances by itself, between {least} % and {most} % of its size: the Cluster \
             Autoscaler sees nodes go that it did not name, and more or fewer than its target meanwhile"
        ),
        advice: format!(
            "Headcount lists the surplus, and it does no harm; to end it: aws autoscaling update-auto-scaling-group \
             --auto-scaling-group-name {} --instance-maintenance-policy \
             MinHealthyPercentage=-1,MaxHealthyPercentage=-1",
            shell_word(name)
        ),
    })
}

#[cfg(test)]
mod tests;
