//! Auto Scaling groups.

use super::*;
use crate::cloud::{CloudError, Counts};

#[tokio::test(start_paused = true)]
async fn launches_take_time() {
    let fixture = Fixture::of(GroupPlan::aws("pool").launch_time(seconds(8, 15)));
    assert_eq!(fixture.set(3).await, None, "an Auto Scaling group has no operations");
    assert_eq!((fixture.desired().await, fixture.instances().await.len()), (3, 0));
    pass(5).await;
    assert_eq!(fixture.count(InstanceState::Creating).await, 3);
    pass(15).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 3);
    assert!(fixture.instances().await.iter().all(|instance| instance.counts == Counts::Yes));
}

#[tokio::test(start_paused = true)]
async fn a_launch_under_way_is_known_before_it_is_listed() {
    let fixture = Fixture::of(
        GroupPlan::aws("pool").launches(Pick::Always, LaunchOutcome::fails(allocation_failed(), seconds(60, 60))),
    );
    fixture.set(2).await;
    pass(10).await;
    let activity = fixture.0.launch_activity(&"pool".into(), ANY).await.expect("readable");
    assert_eq!((activity.under_way, activity.failures.len(), fixture.instances().await.len()), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn failed_launches_are_reported_and_retried() {
    let fixture = Fixture::of(
        GroupPlan::aws("pool")
            .sized(0, 9, 1)
            .launches(Pick::First(4), LaunchOutcome::fails(allocation_failed(), seconds(10, 10))),
    );
    fixture.set(3).await;
    pass(15).await;
    let activity = fixture.0.launch_activity(&"pool".into(), ANY).await.expect("readable");
    assert_eq!(activity.failures.len(), 2);
    assert_eq!(activity.failures[0].code, "AllocationFailed");
    assert_eq!(fixture.desired().await, 3, "the desired capacity stays");
    pass(40).await;
    let activity = fixture.0.launch_activity(&"pool".into(), ANY).await.expect("readable");
    assert_eq!(activity.failures.len(), 4);
    assert!(activity.failures[0].at > activity.failures[3].at, "newest first");
    pass(40).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_has_the_message_of_aws() {
    let ice = PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "There is no capacity.");
    let fixture = Fixture::of(GroupPlan::aws("pool").launches(Pick::Always, LaunchOutcome::fails(ice, seconds(1, 1))));
    fixture.set(1).await;
    pass(5).await;
    let message = fixture.0.world(|world, _| world.group("pool")?.activities().next()?.status_message());
    assert_eq!(
        message.as_deref(),
        Some(
            "Could not launch On-Demand Instances. InsufficientInstanceCapacity - There is no capacity. Launching EC2 \
             instance failed."
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_termination_lowers_the_capacity_when_it_is_accepted() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(1, 9, 3));
    let ids = fixture.first(2).await;
    let deletion = fixture.delete(&ids).await;
    assert_eq!((deletion.accepted, deletion.handle), (ids.clone(), None));
    assert_eq!((fixture.desired().await, fixture.count(InstanceState::Deleting).await), (1, 2));
    let going = fixture.instances().await.into_iter().find(|instance| instance.state == InstanceState::Deleting);
    assert_eq!(going.map(|instance| instance.counts), Some(Counts::No));
    assert_eq!(fixture.delete(&ids).await.already_gone, ids, "going already");
    pass(60).await;
    assert_eq!((fixture.desired().await, fixture.instances().await.len()), (1, 1));
    let refused = fixture.delete(&fixture.first(1).await).await.refused;
    assert!(matches!(&refused[..], [(_, CloudError::Refused(fault))] if fault.message.contains("min size")));
    assert!(fixture.0.killed_unnamed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_capacity_below_the_live_instances_kills_after_twenty_seconds() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 5));
    fixture.set(3).await;
    pass(15).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 5, "not yet");
    pass(10).await;
    let killed = fixture.0.killed_unnamed();
    assert_eq!(killed.len(), 2);
    assert!(killed.iter().all(|killed| killed.capacity == 3 && &*killed.group == "pool"));
}

#[tokio::test(start_paused = true)]
async fn a_capacity_raised_back_in_time_kills_no_instance() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 5));
    fixture.set(3).await;
    pass(10).await;
    fixture.set(5).await;
    pass(60).await;
    assert_eq!((fixture.count(InstanceState::Running).await, fixture.0.killed_unnamed().len()), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn a_surplus_that_ended_by_itself_shortens_no_later_one() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 5));
    fixture.set(4).await;
    pass(12).await;
    fixture.0.evict("pool", 1).expect("there");
    fixture.set(3).await;
    pass(15).await;
    assert_eq!((fixture.count(InstanceState::Running).await, fixture.0.killed_unnamed().len()), (4, 0), "not yet");
    pass(10).await;
    assert_eq!((fixture.count(InstanceState::Running).await, fixture.0.killed_unnamed().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_arrives_after_the_capacity_fell_costs_another_one() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 3));
    fixture.set(4).await;
    pass(2).await;
    fixture.set(3).await;
    pass(60).await;
    assert_eq!((fixture.instances().await.len(), fixture.0.killed_unnamed().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn instances_that_others_kill_are_not_attributed_to_the_caller() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 5));
    fixture.0.set_desired_externally("pool", 2).expect("accepted");
    pass(60).await;
    assert!(fixture.0.killed_unnamed().is_empty());
    assert_eq!(fixture.0.world(|world, _| world.kills().len()), 3);
}

#[tokio::test(start_paused = true)]
async fn a_lost_instance_is_replaced() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 3));
    assert_eq!(fixture.0.evict("pool", 2).expect("there").len(), 2);
    assert_eq!((fixture.desired().await, fixture.instances().await.len()), (3, 1));
    pass(60).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_instance_is_terminated_and_replaced() {
    let failure = PlannedFailure::other("LifecycleHookAbandoned", "The hook gave up.");
    let fixture = Fixture::of(
        GroupPlan::aws("pool").launches(Pick::First(1), LaunchOutcome::Breaks { failure, after: seconds(5, 5) }),
    );
    fixture.set(1).await;
    pass(8).await;
    assert_eq!(fixture.count(InstanceState::Deleting).await, 1);
    pass(60).await;
    assert_eq!((fixture.desired().await, fixture.count(InstanceState::Running).await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn standby_is_not_part_of_the_capacity() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 2).standby(1));
    let standby: Vec<_> = fixture.instances().await.into_iter().filter(|one| one.counts == Counts::No).collect();
    assert!(matches!(&standby[..], [one] if one.state == InstanceState::Running));
    pass(60).await;
    fixture.delete(&[standby[0].id.clone()]).await;
    assert_eq!(fixture.desired().await, 2);
    assert!(fixture.0.killed_unnamed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_capacity_out_of_bounds_is_refused() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(1, 3, 2));
    let reading = fixture.read().await;
    assert_eq!((reading.min, reading.max, reading.floor), (1, 3, 1));
    for to in [0, 4] {
        assert!(matches!(fixture.0.set_capacity(&reading, to).await, Err(CloudError::Refused(_))), "{to}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_launches_are_suspended_launches_nothing() {
    let fixture = Fixture::of(GroupPlan::aws("pool"));
    fixture
        .0
        .replan("pool", |plan| plan.growth = crate::cloud::Permit::Withheld("Launch is suspended".to_owned()))
        .expect("there");
    fixture.set(2).await;
    pass(60).await;
    assert_eq!((fixture.desired().await, fixture.instances().await.len()), (2, 0));
    fixture.0.replan("pool", |plan| plan.growth = crate::cloud::Permit::Granted).expect("there");
    pass(60).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 2);
}
