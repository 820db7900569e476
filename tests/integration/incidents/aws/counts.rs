//! Which instances count as nodes, and how far a group can shrink.

use headcount::grpc::proto::Instance;

use super::{
    FOREVER, aws, capacity, desired_written, errors, exhausted, group, open, open_sleepy, terminations, texts,
};
use crate::emulators::Emulator;
use crate::emulators::setup::Setup;
use crate::peers::headcount::eventually;

/// An instance starts after the autoscaler last listed the nodes and before its request.
async fn launched_before_the_request() {
    let mut setup = open_sleepy([group("web", (0, 20, 6))]).await;
    setup.client.increase("web", 1).await.expect("6 → 7");
    setup.client.until("the placeholder is listed", async |client| client.nodes_in("web", 2).await.len() == 1).await;
    let missing = setup.client.nodes_in("web", 2).await;
    let live = || setup.emulator.simulated().world(|world, _| world.group("web").map(|group| group.live()));
    eventually("it is launched", || live() == Some(7)).await;
    setup.client.delete("web", &texts(&missing)).await.expect("nothing to do");
    assert_eq!(desired_written(&setup.emulator, "web"), [7], "never below the live instances");
    assert_eq!(setup.client.target("web").await, 7);
    setup.client.until("all are listed", async |client| client.nodes("web").await.len() == 7).await;
}

/// An instance starts after the reading from which the write was computed.
async fn launched_after_the_reading() {
    let mut setup = open([exhausted("web", (0, 20, 6))]).await;
    setup.client.increase("web", 1).await.expect("6 → 7");
    setup.client.until("the launch has failed", async |client| errors(client, "web").await.len() == 1).await;
    let missing = setup.client.nodes_in("web", 2).await;
    setup.client.delete("web", &texts(&missing)).await.expect("taken back");
    assert_eq!(setup.client.target("web").await, 6);
    assert_eq!(desired_written(&setup.emulator, "web"), [7, 6]);
    setup.emulator.group_details("web", |details| details.others = vec![("i-0late".to_owned(), "Pending".to_owned())]);
    eventually("raised back", || desired_written(&setup.emulator, "web") == [7, 6, 7]).await;
    setup.client.until("the instance is kept", async |client| client.target("web").await == 7).await;
    let is_late = |node: &Instance| node.id.ends_with("/i-0late");
    setup.client.until("it is listed", async |client| client.nodes("web").await.iter().any(is_late)).await;
    assert!(terminations(&setup.emulator).is_empty());
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_placeholder_race() {
    tokio::join!(launched_before_the_request(), launched_after_the_reading());
}

#[tokio::test]
async fn asg_below_min_no_capacity() {
    let mut setup = open([exhausted("spot", (30, 100, 1)), group("web", (0, 10, 1))]).await;
    setup.emulator.simulated().set_desired_externally("spot", 35).expect("it exists");
    let client = &mut setup.client;
    client.until("all have failed", async |client| errors(client, "spot").await.len() == 34).await;
    assert_eq!(client.target("spot").await, 35);
    let missing = client.nodes_in("spot", 2).await;
    client.delete("spot", &texts(&missing)).await.expect("success, although min prevents most of the reduction");
    assert_eq!(desired_written(&setup.emulator, "spot"), [30], "lowered to min, once");
    assert_eq!((client.target("spot").await, client.nodes("spot").await.len()), (1, 1), "no phantom nodes");

    client.delete("spot", &texts(&missing)).await.expect("a repeated deletion is a success");
    client.refresh().await.expect("refreshed");
    client.increase("web", 2).await.expect("other groups can still grow");
    client.until("it has grown", async |client| client.nodes_in("web", 1).await.len() == 3).await;
    assert_eq!(desired_written(&setup.emulator, "spot"), [30], "no write below min, and no further one");
    assert_eq!(client.nodes("spot").await.len(), 1);
    assert!(terminations(&setup.emulator).is_empty());
}

#[tokio::test]
async fn asg_decrease_with_placeholders() {
    let mut setup = open([exhausted("web", (0, 10, 4))]).await;
    setup.emulator.simulated().set_desired_externally("web", 6).expect("it exists");
    let client = &mut setup.client;
    client.until("two are missing", async |client| errors(client, "web").await.len() == 2).await;
    client.decrease("web", -1).await.expect("one missing instance is taken back");
    assert_eq!((client.target("web").await, client.nodes("web").await.len()), (5, 5));
    assert_eq!(desired_written(&setup.emulator, "web"), [5]);
    // After a scale-up that timed out, CA 1.36 takes back all of it, even if some instances started.
    client.decrease("web", -3).await.expect("all missing instances are taken back");
    assert_eq!((client.target("web").await, client.nodes_in("web", 1).await.len()), (4, 4));
    client.decrease("web", -1).await.expect("a decrease with no missing instance is a success");
    assert_eq!(desired_written(&setup.emulator, "web"), [5, 4], "lowered to the live instances, and no further");
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_terminating_masks_shortfall() {
    let slow = exhausted("web", (0, 10, 5)).delete_time(FOREVER..=FOREVER);
    let mut setup = open([slow]).await;
    let victims = setup.client.nodes_in("web", 1).await[..3].to_vec();
    setup.emulator.simulated().world(|world, now| {
        for victim in &victims {
            assert_eq!(world.terminate(now, "web", super::instance_id(victim), false), Ok(true), "to be replaced");
        }
    });
    let client = &mut setup.client;
    client.until("they are being terminated", async |client| client.nodes_in("web", 3).await.len() == 3).await;
    assert_eq!(client.nodes_in("web", 3).await, victims);
    assert_eq!(client.target("web").await, 5);
    assert_eq!(client.nodes_in("web", 1).await.len(), 2);
    client.until("the shortfall has a reason", async |client| errors(client, "web").await.len() == 3).await;
    assert_eq!((client.target("web").await, client.nodes_in("web", 2).await.len()), (5, 3));
    assert_eq!(capacity(&setup.emulator, "web"), 5);
}

#[tokio::test]
async fn asg_warm_pool() {
    let aws = aws([exhausted("web", (0, 10, 2))]);
    let warmed = ["Stopped", "Pending:Wait", "Running", "Hibernated", "Terminating"];
    let pool =
        warmed.iter().map(|state| (format!("i-0{}", state.len()), format!("Warmed:{state}"))).collect::<Vec<_>>();
    aws.group_details("web", |details| details.others = pool.clone());
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    assert_eq!((client.target("web").await, client.nodes_in("web", 1).await.len()), (2, 2));
    assert_eq!(client.nodes("web").await.len(), 2, "warmed instances are not nodes");
    let stopped = format!("aws:///us-east-1a/{}", pool[0].0);
    assert_eq!(client.group_of(&stopped).await, None);

    client.increase("web", 1).await.expect("computed without the warm pool");
    assert_eq!(desired_written(&setup.emulator, "web"), [3]);
    setup.emulator.group_details("web", |details| details.others[0].1 = "Pending".to_owned());
    client.until("it is taken out of the pool", async |client| client.nodes_in("web", 2).await == [&*stopped]).await;
    assert_eq!((client.target("web").await, client.nodes("web").await.len()), (3, 3));
    assert_eq!(client.group_of(&stopped).await.as_deref(), Some("web"));
    setup.emulator.group_details("web", |details| details.others[0].1 = "Warmed:Pending".to_owned());
    client.until("it is back", async |client| client.nodes_in("web", 2).await != [&*stopped]).await;
    assert_eq!(client.target("web").await, 3);
}
