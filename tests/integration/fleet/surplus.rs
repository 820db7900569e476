//! Instances that the cloud launched itself.

use std::time::Duration;

use headcount::cloud::InstanceState;
use headcount::clouds::simulated::{CallKind, Simulated};
use tokio::time::sleep;

use super::fixture::{Fixture, kinds};

#[tokio::test(start_paused = true)]
async fn a_surplus_of_the_clouds_own_neither_grows_the_group_nor_blocks_it() {
    for (kind, plan) in kinds() {
        let fixture = Fixture::with([plan.sized(0, 20, 10)]).await;
        fixture.cloud().launch_surplus("g", 4, Duration::from_secs(300)).expect("exists");
        fixture.until("it is listed", |fixture| fixture.instances("g", InstanceState::Running).len() == 14).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(
            (fixture.target("g"), fixture.capacity("g")),
            (10, 10),
            "{kind}: no write was requested, and none \
        is sent"
        );
        assert_eq!(fixture.calls(CallKind::SetCapacity), 0, "{kind}");

        fixture.increase("g", 2).await.expect(kind);
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (12, 12), "{kind}");
        let victim = fixture.instances("g", InstanceState::Running)[0].clone();
        fixture.delete("g", &[victim]).await.expect(kind);
        assert_eq!(fixture.target("g"), 11, "{kind}");
        sleep(Duration::from_secs(600)).await;
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (11, 11), "{kind}: the cloud removed its surplus");
        fixture.no_instance_was_killed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_during_a_surplus_writes_nothing_and_serves_the_group() {
    for (kind, plan) in kinds() {
        let cloud = Simulated::with_groups(7, [plan.sized(0, 20, 10)]);
        cloud.launch_surplus("g", 4, Duration::from_secs(300)).expect("exists");
        let fixture = Fixture::cold([("sim", cloud)]);
        fixture.ready().await;
        fixture.until("it is served", |fixture| fixture.fleet.snapshot().group("g").is_some()).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!((fixture.target("g"), fixture.capacity("g")), (10, 10), "{kind}");
        assert_eq!(fixture.calls(CallKind::SetCapacity), 0, "{kind}: a start writes nothing");
        fixture.increase("g", 2).await.expect(kind);
        assert_eq!(fixture.capacity("g"), 12, "{kind}");
        fixture.no_instance_was_killed();
    }
}
