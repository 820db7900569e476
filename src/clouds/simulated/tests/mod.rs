//! What simulated groups do, through the trait that `fleet` uses.

mod faults;
mod laws;
mod scale_set;
mod scaling_group;

use std::time::Duration;

use tokio::time::sleep;

use super::*;
use crate::cloud::{
    Cloud, Deletion, GroupReading, Instance, InstanceState, OperationHandle, ProviderId, Shortfall, WritableCloud,
};

/// The simulated cloud shows all launch activity, regardless of the shortfall.
const ANY: Shortfall = Shortfall { missing: 1, since: std::time::SystemTime::UNIX_EPOCH };

/// A source with one group, and calls to it.
struct Fixture(Simulated);

impl Fixture {
    fn of(plan: GroupPlan) -> Self {
        assert_eq!(plan.name, "pool");
        Self(Simulated::with_groups(7, [plan]))
    }

    async fn read(&self) -> GroupReading {
        self.0.observe(&"pool".into()).await.expect("readable").expect("there")
    }

    async fn desired(&self) -> u32 {
        self.read().await.desired
    }

    async fn instances(&self) -> Vec<Instance> {
        self.read().await.instances.expect("listed")
    }

    async fn count(&self, state: InstanceState) -> usize {
        self.instances().await.iter().filter(|instance| instance.state == state).count()
    }

    async fn set(&self, to: u32) -> Option<OperationHandle> {
        self.0.set_capacity(&self.read().await, to).await.expect("accepted").handle
    }

    async fn delete(&self, ids: &[ProviderId]) -> Deletion {
        self.0.delete_instances(&self.read().await, ids).await.expect("accepted")
    }

    async fn first(&self, count: usize) -> Vec<ProviderId> {
        self.instances().await.iter().take(count).map(|instance| instance.id.clone()).collect()
    }
}

async fn pass(secs: u64) {
    sleep(Duration::from_secs(secs)).await;
}

fn allocation_failed() -> PlannedFailure {
    PlannedFailure::out_of_resources("AllocationFailed", "No capacity in this region.")
}

/// The events of one source of each kind after the same calls.
async fn story(seed: u64) -> Vec<String> {
    let plan = |plan: GroupPlan| {
        let sometimes = LaunchOutcome::fails(allocation_failed(), seconds(2, 9));
        plan.sized(0, 50, 5).evicted_every(seconds(10, 60)).launches(Pick::Chance(0.3), sometimes)
    };
    let source = Simulated::with_groups(seed, [plan(GroupPlan::aws("a")), plan(GroupPlan::azure("z"))]);
    source.faults(|faults| {
        faults.rates.latency = Duration::ZERO..=Duration::from_millis(300);
        faults.rates.throttled = 0.1;
    });
    for to in [12, 4, 9, 20] {
        for group in ["a", "z"] {
            if let Ok(Some(reading)) = source.observe(&group.into()).await {
                let _ = source.set_capacity(&reading, to).await;
            }
        }
        pass(30).await;
    }
    source.world(|world, _| world.events().map(|event| format!("{:?} {event}", event.at)).collect())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_events() {
    let story_of_one = story(1).await;
    assert!(story_of_one.len() > 50, "{}", story_of_one.len());
    assert_eq!(story_of_one, story(1).await);
    assert_ne!(story_of_one, story(2).await);
}

#[tokio::test(start_paused = true)]
async fn changes_apply_when_they_are_due_even_if_read_late() {
    let source = Simulated::with_groups(1, [GroupPlan::aws("pool").launch_time(seconds(10, 10))]);
    source.world(|world, now| world.set_capacity(now, "pool", 1, None)).expect("accepted");
    pass(3600).await;
    let ran = source.world(|world, _| world.events().find(|event| event.what.contains("is running")).cloned());
    assert!(ran.expect("it ran").at < Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn subscribers_receive_the_events() {
    let source = Simulated::demo(&Settings::default());
    let mut events = source.subscribe();
    let reading = source.observe(&"web".into()).await.expect("readable").expect("there");
    source.set_capacity(&reading, 5).await.expect("accepted");
    let mut heard = Vec::new();
    // The clock is paused, so these two minutes take no time.
    let _ = tokio::time::timeout(Duration::from_secs(120), source.run_demo()).await;
    while let Ok(event) = events.try_recv() {
        heard.push(event.to_string());
    }
    assert_eq!(heard.first().map(String::as_str), Some("web: 3 instances launching, capacity 2 → 5"));
    assert_eq!(heard.iter().filter(|line| line.starts_with("web: i-0") && line.ends_with("is running")).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_large_source_is_complete_at_once() {
    let source = Simulated::large(1000, 100);
    let listing = source.list().await.expect("readable");
    assert_eq!(listing.groups.len(), 1000);
    assert!(
        listing
            .groups
            .iter()
            .all(|group| group.desired == 100
                && group.instances.as_ref().is_some_and(|instances| instances.len() == 100))
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_group_is_missing_until_it_is_restored() {
    let fixture = Fixture::of(GroupPlan::azure("pool").sized(0, 9, 3));
    assert!(fixture.0.remove_group("pool"));
    assert!(fixture.0.observe(&"pool".into()).await.expect("readable").is_none());
    assert!(fixture.0.list().await.expect("readable").groups.is_empty());
    assert!(fixture.0.restore_group("pool"));
    assert_eq!(fixture.desired().await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_configured_world_has_the_configured_groups_instances_and_failures() {
    let settings = Settings { groups: 5, instances: 13, error_rate: 0.5, ..Settings::default() };
    let source = Simulated::configured(&settings);
    let told =
        source.world(|world, _| world.groups().map(|group| (group.plan().style, group.capacity())).collect::<Vec<_>>());
    let (aws, azure) = (GroupStyle::AutoScaling, GroupStyle::ScaleSet);
    assert_eq!(told, [(aws, 3), (azure, 3), (aws, 3), (azure, 2), (aws, 2)]);
    let mut failed = 0;
    for _ in 0..200 {
        failed += u32::from(source.list().await.is_err());
    }
    assert!(
        (50..120).contains(&failed),
        "{failed} of 200 readings failed, where 80 are expected: conflicts are for writes"
    );
}
