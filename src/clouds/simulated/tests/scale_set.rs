//! Scale sets.

use super::*;
use crate::cloud::{CloudError, Counts, Progress};

impl Fixture {
    async fn follow(&self, handle: &Option<OperationHandle>) -> Progress {
        self.0.follow(handle.as_ref().expect("a handle")).await.expect("known")
    }
}

fn delete_fails() -> DeleteOutcome {
    DeleteOutcome::FailsLater(PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "They stay."))
}

#[tokio::test(start_paused = true)]
async fn an_increase_is_an_operation_that_ends_when_the_machines_run() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 2).launch_time(seconds(8, 15)));
    let handle = fixture.set(5).await;
    assert_eq!((fixture.desired().await, fixture.count(InstanceState::Creating).await), (5, 3));
    assert!(matches!(fixture.follow(&handle).await, Progress::Running { .. }));
    pass(16).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 5);
    assert_eq!(fixture.follow(&handle).await, Progress::Succeeded);
    assert!(fixture.instances().await.iter().all(|instance| instance.counts == Counts::UntilDeleted));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_instance_leaves_the_capacity_under_both_accountings() {
    for (accounting, while_going) in [(Accounting::OnAccept, 3), (Accounting::WhenGone, 5)] {
        let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 5).accounting(accounting));
        let deletion = fixture.delete(&fixture.first(2).await).await;
        assert_eq!((fixture.desired().await, fixture.count(InstanceState::Deleting).await), (while_going, 2));
        pass(20).await;
        assert_eq!((fixture.desired().await, fixture.instances().await.len()), (3, 3));
        assert_eq!(fixture.follow(&deletion.handle).await, Progress::Succeeded);
        assert!(fixture.0.killed_unnamed().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_later_changes_nothing() {
    for (accounting, while_going) in [(Accounting::OnAccept, 3), (Accounting::WhenGone, 5)] {
        let plan = GroupPlan::azure("pool").sized(0, 9, 5).accounting(accounting);
        let fixture = Fixture::of(plan.deletions(Pick::Always, delete_fails()));
        let deletion = fixture.delete(&fixture.first(2).await).await;
        assert_eq!((fixture.desired().await, fixture.count(InstanceState::Running).await), (while_going, 3));
        pass(20).await;
        assert_eq!((fixture.desired().await, fixture.count(InstanceState::Running).await), (5, 5));
        let progress = fixture.follow(&deletion.handle).await;
        assert!(matches!(progress, Progress::Failed(why) if why.code.starts_with("CannotAllocateRemaining")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_can_fail_in_part() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 6).deletions(Pick::First(2), delete_fails()));
    let deletion = fixture.delete(&fixture.first(5).await).await;
    pass(20).await;
    assert_eq!((fixture.desired().await, fixture.count(InstanceState::Running).await), (3, 3));
    assert!(matches!(fixture.follow(&deletion.handle).await, Progress::Failed(_)));
}

#[tokio::test(start_paused = true)]
async fn a_capacity_below_the_live_instances_kills_at_once_and_is_recorded() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 5));
    let newest: Vec<_> = fixture.first(5).await.split_off(3);
    fixture.set(3).await;
    let killed: Vec<_> = fixture.0.killed_unnamed().into_iter().map(|killed| killed.id).rev().collect();
    assert_eq!(killed, newest);
    pass(20).await;
    assert_eq!((fixture.desired().await, fixture.instances().await.len()), (3, 3));
}

/// The incident of #7432, scaled down from 86 machines: deletions fail, and a client assumed that they would succeed.
#[tokio::test(start_paused = true)]
async fn a_write_that_assumes_running_deletions_succeed_kills_others() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 99, 10).deletions(Pick::Always, delete_fails()));
    fixture.delete(&fixture.first(4).await).await;
    fixture.set(7).await;
    assert_eq!(fixture.0.killed_unnamed().len(), 3);
    pass(20).await;
    assert_eq!((fixture.desired().await, fixture.count(InstanceState::Running).await), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_failed_increase_keeps_its_capacity_or_returns_it() {
    for (rollback, afterwards) in [(false, 5), (true, 3)] {
        let outcome = LaunchOutcome::Fails { failure: allocation_failed(), after: seconds(3, 3), rollback };
        let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 2).launches(Pick::First(2), outcome));
        let handle = fixture.set(5).await;
        assert_eq!(fixture.desired().await, 5);
        pass(30).await;
        assert_eq!((fixture.desired().await, fixture.count(InstanceState::Running).await), (afterwards, 3));
        assert!(matches!(fixture.follow(&handle).await, Progress::Failed(why) if why.code == "AllocationFailed"));
        fixture.set(3).await;
        pass(30).await;
        assert_eq!((fixture.instances().await.len(), fixture.0.killed_unnamed().len()), (3, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_machine_is_listed_with_its_reason() {
    let failure = PlannedFailure::other("VMExtensionProvisioningFailed", "vmssCSE failed.");
    let outcome = LaunchOutcome::Breaks { failure, after: seconds(3, 3) };
    let fixture = Fixture::of(GroupPlan::azure("pool").launches(Pick::Every(2), outcome));
    fixture.set(2).await;
    pass(20).await;
    let broken: Vec<_> = fixture.instances().await.into_iter().filter(|instance| instance.failure.is_some()).collect();
    assert!(matches!(&broken[..], [one] if one.state == InstanceState::Creating));
    fixture.delete(&[broken[0].id.clone()]).await;
    pass(20).await;
    assert_eq!((fixture.desired().await, fixture.instances().await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_quota_refuses_a_write_at_once() {
    let quota =
        PlannedFailure::out_of_resources("OperationNotAllowed", "exceeding approved Total Regional Cores quota");
    let fixture = Fixture::of(GroupPlan::azure("pool").launches(Pick::Always, LaunchOutcome::Refused(quota)));
    let refused = fixture.0.set_capacity(&fixture.read().await, 1).await;
    assert!(matches!(refused, Err(CloudError::OutOfResources(_))));
    assert_eq!(fixture.desired().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_with_an_old_etag_is_a_conflict() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 2));
    let old = fixture.read().await;
    fixture.0.set_desired_externally("pool", 4).expect("accepted");
    assert!(matches!(fixture.0.set_capacity(&old, 3).await, Err(CloudError::Conflict(_))));
    assert_eq!(fixture.desired().await, 4);
    let new = fixture.read().await;
    assert_ne!(old.etag, new.etag);
    assert!(fixture.0.set_capacity(&new, 5).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn overlapping_writes_conflict_or_preempt_as_planned() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 4).overlap(Overlap::Conflict));
    fixture.delete(&fixture.first(1).await).await;
    assert!(matches!(fixture.0.set_capacity(&fixture.read().await, 5).await, Err(CloudError::Conflict(_))));

    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 4).overlap(Overlap::Preempt));
    let deletion = fixture.delete(&fixture.first(1).await).await;
    fixture.set(5).await;
    assert_eq!(fixture.follow(&deletion.handle).await, Progress::Preempted);
    pass(30).await;
    assert_eq!((fixture.desired().await, fixture.count(InstanceState::Running).await), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn an_eviction_lowers_the_capacity() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 9));
    fixture.0.evict("pool", 2).expect("there");
    pass(60).await;
    assert_eq!((fixture.desired().await, fixture.instances().await.len()), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_listing_leaves_the_instances_out() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 3));
    let listing = fixture.0.list().await.expect("readable");
    assert!(matches!(&listing.groups[..], [group] if group.desired == 3 && group.instances.is_none()));
}

#[tokio::test(start_paused = true)]
async fn an_instance_of_another_scale_set_is_not_deleted_in_this_one() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 3));
    fixture.0.create_group(GroupPlan::azure("other").sized(0, 9, 3));
    let other = fixture.0.observe(&"other".into()).await.expect("readable").expect("there");
    let id = other.instances.expect("listed")[0].id.clone();
    assert_eq!(fixture.delete(std::slice::from_ref(&id)).await.already_gone, [id]);
    assert_eq!(fixture.count(InstanceState::Running).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_plan_can_change_while_the_group_exists() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 4));
    fixture.delete(&fixture.first(1).await).await;
    pass(30).await;
    fixture.0.replan("pool", |plan| plan.deletions_now(Pick::First(1), delete_fails())).expect("there");
    fixture.delete(&fixture.first(1).await).await;
    pass(30).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 3, "the first after the change fails");
    fixture.0.replan("pool", GroupPlan::deletions_fine).expect("there");
    fixture.delete(&fixture.first(1).await).await;
    pass(30).await;
    assert_eq!(fixture.count(InstanceState::Running).await, 2);
}
