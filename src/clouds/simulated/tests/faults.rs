//! Faults of calls and responses.

use super::*;
use crate::cloud::CloudError;

#[tokio::test(start_paused = true)]
async fn an_error_before_the_effect_changes_nothing() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 2));
    let reading = fixture.read().await;
    let retry_after = Some(Duration::from_secs(30));
    fixture.0.faults(|faults| {
        faults.script(Some(CallKind::SetCapacity), None, 1, CallFault::Throttled { retry_after });
        faults.script(Some(CallKind::SetCapacity), None, 1, CallFault::Unreachable);
    });
    let throttled = fixture.0.set_capacity(&reading, 5).await;
    assert!(matches!(throttled, Err(CloudError::Throttled { retry_after: Some(_), .. })));
    assert!(matches!(fixture.0.set_capacity(&reading, 5).await, Err(CloudError::Unreachable(_))));
    assert_eq!(fixture.desired().await, 2);
    assert!(fixture.0.set_capacity(&reading, 5).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_hides_an_effect() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 2));
    fixture.0.faults(|faults| faults.script(Some(CallKind::SetCapacity), Some("pool"), 1, CallFault::LostResponse));
    let lost = fixture.0.set_capacity(&fixture.read().await, 5).await;
    assert!(lost.is_err_and(|error| error.outcome_unknown()));
    assert_eq!(fixture.desired().await, 5);
}

#[tokio::test(start_paused = true)]
async fn calls_take_their_time_both_ways() {
    let fixture = Fixture::of(GroupPlan::aws("pool").sized(0, 9, 2));
    fixture.0.faults(|faults| faults.rates.latency = seconds(1, 1));
    let (before, _) = (fixture.0.elapsed(), fixture.read().await);
    assert_eq!(fixture.0.elapsed() - before, Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn instances_are_read_before_the_capacity_of_a_scale_set() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 3));
    fixture.0.faults(|faults| faults.rates.latency = seconds(1, 1));
    let name = "pool".into();
    let evict = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        fixture.0.evict("pool", 1)
    };
    let (reading, evicted) = tokio::join!(fixture.0.observe(&name), evict);
    let reading = reading.expect("readable").expect("there");
    assert_eq!((reading.instances.map(|instances| instances.len()), reading.desired), (Some(3), 2));
    assert!(evicted.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_response_can_be_wrong_once() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 99, 90));
    fixture.0.faults(|faults| {
        faults.script_read(Some(CallKind::Observe), "pool", 1, ReadFault::Capacity(0));
        faults.script_read(Some(CallKind::Observe), "pool", 1, ReadFault::Missing);
        faults.script_read(Some(CallKind::List), "pool", 1, ReadFault::Broken);
    });
    assert_eq!(fixture.desired().await, 0);
    assert!(fixture.0.observe(&"pool".into()).await.expect("readable").is_none());
    assert_eq!(fixture.desired().await, 90);
    let listing = fixture.0.list().await.expect("readable");
    assert_eq!((listing.groups.len(), listing.broken.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stale_response_shows_an_earlier_state() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 2));
    let stale = ReadFault::Stale(Duration::from_secs(10));
    fixture.0.faults(|faults| faults.script_read(None, "pool", 2, stale));
    pass(60).await;
    let now = fixture.0.world(|world, _| world.group("pool").map(Group::reading)).expect("there");
    fixture.0.set_capacity(&now, 5).await.expect("accepted");
    pass(5).await;
    assert_eq!(fixture.read().await.desired, 2);
    pass(6).await;
    assert_eq!(fixture.read().await.desired, 5);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_down_does_not_respond() {
    let fixture = Fixture::of(GroupPlan::aws("pool"));
    fixture.0.faults(|faults| faults.down = true);
    assert!(matches!(fixture.0.list().await, Err(CloudError::Unreachable(_))));
    fixture.0.faults(Faults::clear);
    assert!(fixture.0.list().await.is_ok());
    assert_eq!(fixture.0.calls().iter().map(|call| call.kind).collect::<Vec<_>>(), [CallKind::List, CallKind::List]);
}
