//! Instances that AWS launches beyond the desired capacity for reasons of its own: instance refresh, rebalancing,
//! maintenance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headcount::cloud::Permit;
use tonic::Code;

use super::{FOREVER, aws, capacity, desired_written, group, open, terminations, texts};
use crate::emulators::aws::{Aws, error};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, Client, refused_in_time};

/// AWS launches this many beyond the desired capacity, and keeps them for the whole test.
fn surplus(aws: &Aws, name: &str, count: u32) {
    let launch = |world: &mut headcount::clouds::simulated::World, now| world.launch_surplus(now, name, count, FOREVER);
    aws.simulated().world(launch).expect("it exists");
}

/// Waits until Headcount has read its groups several more times.
async fn read_again(client: &mut Client, aws: &Aws) {
    let reads = aws.reads();
    let before = reads();
    client.until("the groups are read again", async |_| reads() > before + 4).await;
}

async fn live(client: &mut Client, name: &str) -> usize {
    client.nodes_in(name, 1).await.len()
}

#[tokio::test]
async fn asg_refresh_surplus_at_start() {
    // An instance refresh with a maximum healthy percentage of 200. The maximum leaves room for some of it.
    let aws = aws([group("web", (0, 12, 10)), group("other", (0, 100, 10))]);
    surplus(&aws, "web", 4);
    surplus(&aws, "other", 9);
    let mut setup = Setup::open(aws).await;
    for _ in 0..3 {
        let client = &mut setup.client;
        client.until("both are served", async |client| client.node_groups().await.len() == 2).await;
        read_again(client, &setup.emulator).await;
        assert_eq!((client.target("web").await, live(client, "web").await), (10, 14));
        assert_eq!((client.target("other").await, live(client, "other").await), (10, 19));
        setup.restart().await;
    }
    for name in ["web", "other"] {
        assert!(desired_written(&setup.emulator, name).is_empty(), "no write was requested");
    }
    assert!(terminations(&setup.emulator).is_empty());
}

#[tokio::test]
async fn asg_rebalance_after_scale_up() {
    let mut setup = open([group("web", (0, 12, 10)), group("shrunk", (0, 30, 10))]).await;
    let client = &mut setup.client;
    client.increase("web", 2).await.expect("12 at most");
    client.until("they run", async |client| live(client, "web").await == 12).await;
    surplus(&setup.emulator, "web", 3);
    client.until("they show", async |client| live(client, "web").await == 15).await;
    read_again(client, &setup.emulator).await;
    assert_eq!((client.target("web").await, desired_written(&setup.emulator, "web")), (12, vec![12]));

    // A deletion of ours does not make the cloud's own surplus ours.
    let victims = client.nodes_in("shrunk", 1).await[..2].to_vec();
    client.delete("shrunk", &texts(&victims)).await.expect("deleted");
    surplus(&setup.emulator, "shrunk", 3);
    client.until("they show", async |client| live(client, "shrunk").await == 11).await;
    read_again(client, &setup.emulator).await;
    assert_eq!((client.target("shrunk").await, capacity(&setup.emulator, "shrunk")), (8, 8));
    assert!(desired_written(&setup.emulator, "shrunk").is_empty());
}

#[tokio::test]
async fn asg_refresh_with_slow_activities() {
    const ACTIVITIES: &str = "Action=DescribeScalingActivities";
    for is_denied in [true, false] {
        let mut setup = open([group("web", (0, 200, 10))]).await;
        let client = &mut setup.client;
        client.increase("web", 2).await.expect("accepted");
        client.until("they run", async |client| live(client, "web").await == 12).await;
        if is_denied {
            let text = "User is not authorized to perform this action.";
            setup.emulator.script("POST", ACTIVITIES, 10_000, error(403, "AccessDenied", text));
        } else {
            setup.emulator.hold("POST", ACTIVITIES, HoldPoint::BeforeResponse);
        }
        for more in [3, 50] {
            surplus(&setup.emulator, "web", more);
            read_again(client, &setup.emulator).await;
        }
        client.until("all show", async |client| live(client, "web").await == 65).await;
        client.increase("web", 1).await.expect("accepted");
        read_again(client, &setup.emulator).await;
        assert_eq!((client.target("web").await, desired_written(&setup.emulator, "web")), (13, vec![12, 13]));
        setup.emulator.release();
    }
}

#[tokio::test]
async fn asg_scale_up_during_surplus() {
    let mut stuck = group("stuck", (0, 30, 4));
    stuck.removal = Permit::Withheld("an evacuation".to_owned());
    let aws = aws([group("web", (0, 30, 10)), group("start", (0, 30, 10)), group("huge", (0, 30, 4)), stuck]);
    surplus(&aws, "start", 4);
    surplus(&aws, "huge", 5);
    surplus(&aws, "stuck", 5);
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    client.until("all are served", async |client| client.node_groups().await.len() == 4).await;
    surplus(&setup.emulator, "web", 4);
    client.until("they show", async |client| live(client, "web").await == 14).await;
    for name in ["web", "start"] {
        client.increase(name, 1).await.expect("the surplus does not block it");
        assert_eq!(desired_written(&setup.emulator, name), [11], "the capacity plus the requested size");
        assert_eq!(client.target(name).await, 11);
        let victim = client.nodes_in(name, 1).await.remove(0);
        client.delete(name, &[&victim]).await.expect("the surplus does not block a deletion");
        assert_eq!((client.target(name).await, capacity(&setup.emulator, name)), (10, 10));
    }
    // More than twice the capacity, for no known reason.
    let mut caller = setup.server().untimed_client(AUTOSCALER_TIMEOUT).await;
    let client = &mut setup.client;
    for (name, why) in [("huge", "the cloud may be about to delete some"), ("stuck", "(an evacuation)")] {
        let (code, message) = refused_in_time(async || caller.increase(name, 1).await).await;
        assert_eq!(code, Code::Aborted);
        assert!(message.contains("its live instances (9) exceed its capacity (4)"), "{message}");
        assert!(message.contains(why), "{message}");
    }
    assert!(desired_written(&setup.emulator, "huge").is_empty());
    client.increase("huge", 6).await.expect("this makes room for all live instances");
    assert_eq!(desired_written(&setup.emulator, "huge"), [10]);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_surplus_moves() {
    let aws = aws([group("web", (0, 100, 30)), group("other", (0, 10, 1))]);
    surplus(&aws, "web", 1);
    let simulated = Arc::clone(aws.simulated());
    let ended = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&ended);
    let served = Arc::new(AtomicBool::new(false));
    let is_served = Arc::clone(&served);
    // Each read shows another surplus: a larger one until the group is served.
    let reads = aws.reads();
    let moving = tokio::spawn(async move {
        let mut seen = 0;
        while !is_over.load(Ordering::Relaxed) {
            if reads() > seen {
                seen = reads();
                let lasts = if is_served.load(Ordering::Relaxed) { Duration::from_millis(2_500) } else { FOREVER };
                simulated.world(|world, now| world.launch_surplus(now, "web", 1, lasts)).expect("it exists");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    assert_eq!(client.target("web").await, 30, "served from the second read on");
    served.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        // The cloud removes the oldest first: by the time of the call, it might have removed one of those itself.
        let victim = client.nodes_in("web", 1).await.remove(20);
        client.delete("web", &[&victim]).await.expect("the surplus does not block it");
        read_again(client, &setup.emulator).await;
    }
    assert_eq!((client.target("web").await, capacity(&setup.emulator, "web")), (27, 27));
    client.increase("web", 2).await.expect("nor here");
    assert_eq!(desired_written(&setup.emulator, "web"), [29]);
    ended.store(true, Ordering::Relaxed);
    moving.await.expect("no panic");
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}
