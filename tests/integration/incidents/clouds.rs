//! Both clouds at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headcount::clouds::simulated::{GroupPlan, Simulated};
use tonic::Code;

use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, Client, ConfigFile, Server, refused, refused_in_time};

fn source(name: &str, emulator: &impl Emulator, group: &str) -> String {
    let settings: String = emulator.settings().iter().map(|line| format!("      {line}\n")).collect();
    format!("  - name: {name}\n    {}:\n{settings}      nodeGroups: [\"0:10:{group}\"]\n", emulator.cloud())
}

#[tokio::test]
async fn an_outage_of_one_cloud_changes_nothing_for_the_other() {
    let quick = Duration::from_millis(100)..=Duration::from_millis(200);
    let aws = Aws::start(Arc::new(Simulated::with_groups(
        1,
        [GroupPlan::aws("asg").sized(0, 10, 2).launch_time(quick.clone())],
    )));
    let arm =
        Arm::start(Arc::new(Simulated::with_groups(2, [GroupPlan::azure("vmss").sized(0, 10, 3).launch_time(quick)])));
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources:\n{}{}",
        source("us", &aws, "asg"),
        source("eu", &arm, "vmss")
    ));
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    assert_eq!((client.target("asg").await, client.target("vmss").await), (2, 3));
    let node = client.nodes("vmss").await[0].id.clone();
    let (code, message) = refused(client.delete("asg", &[&node]).await);
    assert!(code == Code::InvalidArgument && message.contains("belongs to node group vmss"), "{message}");

    arm.simulated().faults(|faults| faults.down = true);
    server.logged("cannot be listed");
    client.increase("asg", 2).await.expect("the other cloud can still grow");
    client.until("four run", async |client| client.nodes_in("asg", 1).await.len() == 4).await;
    assert_eq!((client.node_groups().await.len(), client.target("vmss").await), (2, 3));
    let mut caller = server.untimed_client(AUTOSCALER_TIMEOUT).await;
    let (code, _) = refused_in_time(async || caller.increase("vmss", 1).await).await;
    assert_eq!(code, Code::Unavailable);

    arm.simulated().faults(|faults| faults.down = false);
    client.until("it is back", async |client| client.increase("vmss", 1).await.is_ok()).await;
    assert_eq!(client.target("vmss").await, 4);
}

#[tokio::test]
async fn unreachable_cloud_slows_no_other() {
    let plan = |plan: GroupPlan| Arc::new(Simulated::with_groups(1, [plan.sized(0, 10, 2)]));
    let (aws, arm) = (Aws::start(plan(GroupPlan::aws("asg"))), Arm::start(plan(GroupPlan::azure("vmss"))));
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources:\n{}{}",
        source("us", &aws, "asg"),
        source("eu", &arm, "vmss")
    ));
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    assert_eq!((client.target("asg").await, client.target("vmss").await), (2, 2));
    arm.simulated().faults(|faults| faults.down = true);
    server.logged("cannot be listed");
    // Each request is held from now on, as at a host that is gone.
    arm.hold("GET", "", HoldPoint::BeforeResponse);
    // CA waits for each. On a machine that has no time for the test, not every response comes in time, but most do.
    let in_time = async |client: &mut Client| {
        let began = Instant::now();
        let (code, message) = refused(client.increase("vmss", 1).await);
        assert_eq!(code, Code::Unavailable, "{message}");
        began.elapsed() < Duration::from_millis(1_500)
    };
    let (mut quick, mut slow) = (0, 0);
    while quick < slow + 3 {
        if in_time(&mut client).await {
            quick += 1
        } else {
            slow += 1
        }
        assert!(slow < 10, "{quick} of {} responses came in time", quick + slow);
    }
    client.increase("asg", 1).await.expect("the other cloud is there");

    arm.simulated().faults(|faults| faults.down = false);
    arm.release();
    client.until("it is back", async |client| client.increase("vmss", 1).await.is_ok()).await;
    assert_eq!(client.target("vmss").await, 3);
}

#[tokio::test]
async fn two_sources_one_group() {
    let quick = Duration::from_millis(100)..=Duration::from_millis(200);
    let plan = |plan: GroupPlan| Arc::new(Simulated::with_groups(1, [plan.sized(0, 10, 2).launch_time(quick.clone())]));
    matched_twice(&Aws::start(plan(GroupPlan::aws("web"))), "web").await;
    matched_twice(&Arm::start(plan(GroupPlan::azure("web"))), "web").await;
    matched_twice(&Arm::start(plan(GroupPlan::azure("web"))), "WEB").await;
}

/// Two sources match the only group of a cloud; the second one spells its name so.
async fn matched_twice(emulator: &impl Emulator, spelled: &str) {
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources:\n{}{}",
        source("us", emulator, "web"),
        source("all", emulator, spelled)
    ));
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    let name = client.node_groups().await.remove(0).id;
    let warning = server.logged("two sources match the same node group");
    assert!(warning.contains("us") && warning.contains("all"), "{warning}");
    for target in [3, 4] {
        client.increase(&name, 1).await.expect("it grows");
        client.refresh().await.expect("both sources can be read");
        let ids: Vec<_> = client.node_groups().await.into_iter().map(|group| group.id).collect();
        assert_eq!((ids, client.target(&name).await), (vec![name.clone()], target));
    }
    client.until("four run", async |client| client.nodes_in(&name, 1).await.len() == 4).await;
    let node = client.nodes_in(&name, 1).await.remove(0);
    assert_eq!(client.group_of(&node).await, Some(name));
    assert_eq!(server.lines_with("two sources match the same node group").len(), 1);
}
