//! Reads that look older than our last write, and are younger: an instance that they list was launched since.

use std::time::Duration;

use headcount::cloud::ProviderId;
use headcount::clouds::simulated::{GroupPlan, Span};
use tonic::Code;

use super::{FOREVER, capacity, desired_written, group, instance_id, open, texts};
use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, Client, refused};

/// AWS begins to launch some time after a write. An instance is proof from one second after the write on.
fn patient(sizes: (u32, u32, u32), scale_in_lag: Span) -> GroupPlan {
    let mut plan = group("web", sizes);
    plan.acts_after = Duration::from_millis(1500)..=Duration::from_millis(1800);
    plan.scale_in_lag = scale_in_lag;
    plan
}

async fn running(client: &mut Client) -> usize {
    client.nodes_in("web", 1).await.len()
}

/// Grows a group, and waits until all instances run.
async fn grown(plan: GroupPlan, by: i32, to: usize) -> Setup<Aws> {
    let mut setup = open([plan]).await;
    setup.client.increase("web", by).await.expect("accepted");
    setup.client.until("all run", async |client| running(client).await == to).await;
    setup
}

#[tokio::test]
async fn asg_reset_by_hand_after_scale_up() {
    let mut setup = grown(patient((0, 20, 3), FOREVER..=FOREVER), 5, 8).await;
    setup.emulator.simulated().set_desired_externally("web", 3).expect("it exists");
    setup.client.until("3 is true", async |client| client.target("web").await == 3).await;
    let mut caller = setup.server().untimed_client(AUTOSCALER_TIMEOUT).await;
    // On a busy machine, the autoscaler's time may end before the reads that show it.
    let is_aborted = async |_: &mut Client| refused(caller.increase("web", 4).await).0 == Code::Aborted;
    setup.client.until("seven have no room for the eight that live", is_aborted).await;
    setup.client.increase("web", 5).await.expect("eight have");
    assert_eq!(desired_written(&setup.emulator, "web"), [8, 8]);
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_lowered_by_hand_within_seconds() {
    let at_once = Duration::from_millis(100)..=Duration::from_millis(200);
    let mut setup = grown(patient((0, 20, 3), at_once), 5, 8).await;
    setup.emulator.simulated().set_desired_externally("web", 4).expect("it exists");
    setup.client.until("four live", async |client| running(client).await == 4).await;
    setup.client.until("4 is true", async |client| client.target("web").await == 4).await;
    setup.client.increase("web", 1).await.expect("4 is true");
    assert_eq!(desired_written(&setup.emulator, "web"), [8, 5]);
    assert_eq!(setup.client.target("web").await, 5);
}

#[tokio::test]
async fn asg_decrease_by_another_blocks_growth() {
    let mut setup = grown(patient((0, 20, 10), FOREVER..=FOREVER), 3, 13).await;
    for node in setup.client.nodes_in("web", 1).await.iter().take(2) {
        let terminate = |world: &mut headcount::clouds::simulated::World, now| {
            world.terminate(now, "web", instance_id(node), true).map(|_| ())
        };
        setup.emulator.simulated().world(terminate).expect("it is listed");
    }
    setup.client.until("11 is true", async |client| client.target("web").await == 11).await;
    setup.client.increase("web", 1).await.expect("there is room");
    assert_eq!(desired_written(&setup.emulator, "web"), [13, 12]);
    setup.client.until("it shows", async |client| client.target("web").await == 12).await;
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_warm_pool_takes_back() {
    let mut plan = patient((0, 20, 3), FOREVER..=FOREVER);
    plan.acts_after = FOREVER..=FOREVER;
    let mut setup = open([plan]).await;
    let nodes = setup.client.nodes_in("web", 1).await;
    let returned = nodes[0].clone();
    setup.client.delete("web", &texts(&nodes[..1])).await.expect("accepted");
    let deleted = setup.emulator.simulated().elapsed();
    assert_eq!(setup.client.target("web").await, 2);
    let since = |setup: &Setup<Aws>| setup.emulator.simulated().elapsed() - deleted;
    setup.client.clone().until("it is gone for a while", async |_| since(&setup) > Duration::from_millis(1200)).await;
    setup
        .emulator
        .simulated()
        .world(|world, now| world.take_back(now, "web", &ProviderId::from(returned.clone())))
        .expect("it exists");
    let is_back = async |client: &mut Client| client.nodes_in("web", 1).await.contains(&returned);
    setup.client.until("it runs again", is_back).await;
    assert!(since(&setup) < Duration::from_secs(25), "by proof, and not by time");
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (3, 3));
}
