use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
use aws_sdk_autoscaling::types::{ScalingPolicy, ScheduledUpdateGroupAction, SuspendedProcess};

use super::super::super::Settings;
use super::super::super::sdk::fake::Fake;
use super::*;
use crate::cloud::{Cloud, NodeGroupSpec};

/// A group that has no finding of its own.
fn group(name: &str, zones: &[&str]) -> AutoScalingGroupBuilder {
    let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
    let group = AutoScalingGroup::builder().auto_scaling_group_name(name).set_availability_zones(Some(zones));
    group.new_instances_protected_from_scale_in(true)
}

fn policy(group: &str, name: &str, enabled: bool) -> ScalingPolicy {
    ScalingPolicy::builder().auto_scaling_group_name(group).policy_name(name).enabled(enabled).build()
}

async fn adverse_settings(fake: &Fake) -> (Vec<String>, Vec<String>) {
    let names = ["a", "b"].map(|name| NodeGroupSpec { min: 0, max: 9, name: name.to_owned() });
    let aws = fake.aws(Settings { node_groups: names.to_vec(), ..Settings::default() });
    let AdverseSettings { found, unread, .. } = aws.adverse_settings().await;
    let found = found.into_iter().filter(|setting| setting.kind != AdverseKind::Unprotected);
    let found = found.map(|setting| format!("{}: {}", setting.group, setting.effect));
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
    let policies = "b: its size is also set by scaling policies: cpu, queue; the Cluster Autoscaler sees targets";
    assert!(found.len() == 1 && found[0].starts_with(policies), "{found:?}");
    assert!(unread.is_empty(), "{unread:?}");
}

#[tokio::test]
async fn scheduled_actions_are_found_on_every_page() {
    let fake = Fake::with(vec![group("a", &["z1"]).build(), group("b", &["z1"]).build()]);
    let action = |group: &str, name: &str| {
        ScheduledUpdateGroupAction::builder().auto_scaling_group_name(group).scheduled_action_name(name).build()
    };
    fake.state(|state| {
        state.page = 1;
        state.scheduled = vec![action("b", "night"), action("other", "x"), action("b", "day")];
    });
    let (found, unread) = adverse_settings(&fake).await;
    assert!(
        found.len() == 1 && found[0].starts_with("b: its size is also set by scheduled actions: night, day;"),
        "{found:?}"
    );
    assert!(unread.is_empty(), "{unread:?}");
    fake.fail("DescribeScheduledActions", "AccessDenied", "not allowed", 403);
    assert!(adverse_settings(&fake).await.1[0].starts_with("denied: DescribeScheduledActions"));
}

#[tokio::test]
async fn rebalancing_is_found_if_it_can_terminate_instances() {
    let suspended = SuspendedProcess::builder().process_name("AZRebalance").build();
    for (group, rebalanced) in [
        (group("a", &["z1"]), false),
        (group("a", &["z1", "z2"]).new_instances_protected_from_scale_in(false), true),
        (group("a", &["z1", "z2"]).new_instances_protected_from_scale_in(false).suspended_processes(suspended), false),
        (group("a", &["z1", "z2"]).new_instances_protected_from_scale_in(true), false),
    ] {
        let (found, _) = adverse_settings(&Fake::with(vec![group.build()])).await;
        assert_eq!(!found.is_empty(), rebalanced, "{found:?}");
    }
}

#[tokio::test]
async fn rebalancing_is_found_even_if_the_policies_cannot_be_read() {
    let unprotected = group("a", &["z1", "z2"]).new_instances_protected_from_scale_in(false).build();
    let fake = Fake::with(vec![unprotected]);
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
        ["b: an instance refresh is under way (InProgress, 40 % done): it replaces instances without draining their \
             nodes, and the Cluster Autoscaler sees nodes go that it did not name"]
    );
    assert!(unread.is_empty(), "{unread:?}");
    fake.fail("DescribeInstanceRefreshes", "AccessDenied", "not allowed", 403);
    assert!(adverse_settings(&fake).await.1[0].starts_with("denied: DescribeInstanceRefreshes"));
    fake.fail("DescribeInstanceRefreshes", "Throttling", "slow down", 400);
    let (found, unread) = adverse_settings(&fake).await;
    assert!(unread.len() == 1 && unread[0].starts_with("throttled: DescribeInstanceRefreshes"), "{unread:?}");
    assert_eq!(found.len(), 1, "the other one was read");
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
    let says_what_is_seen = |found: &AdverseSetting| found.effect.contains("the Cluster Autoscaler sees");
    let maintained = with(90, 120).expect("a finding");
    assert!(maintained.effect.contains("between 90 % and 120 %") && says_what_is_seen(&maintained), "{maintained:?}");
    let spot = |on| replaced_before_interruption("my web", &group("my web", &["z1"]).capacity_rebalance(on).build());
    let replaced = spot(true).expect("a finding");
    assert!(replaced.advice.contains("--auto-scaling-group-name 'my web'") && says_what_is_seen(&replaced));
    assert!(spot(false).is_none());
}
