//! Reads of machines: uninformative states, and lists that are slow or fail.

use std::time::Duration;

use super::{arm, capacities_written, capacity, deletions, endless, errors, pool, refs};
use crate::emulators::arm::Arm;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint, HttpResponse};
use crate::peers::headcount::Client;

/// Makes Headcount read the machines again, by a new etag of their scale set.
fn touch(arm: &Arm) {
    arm.simulated().replan("pool", |_| {}).expect("it exists");
}

#[tokio::test]
async fn vmss_running_machine_reported_failed() {
    for flexible in [false, true] {
        let arm = arm([pool("pool", (0, 10, 5))]);
        arm.group_details("pool", |details| (details.flexible, details.spot) = (flexible, true));
        let mut setup = Setup::open(arm).await;
        let nodes = setup.client.nodes_in("pool", 1).await;
        assert_eq!(nodes.len(), 5);
        setup.emulator.group_details("pool", |details| {
            details.shown_as = [
                ("0", ("Succeeded", Some("stopped"))),
                ("1", ("Failed", Some("stopped"))),
                ("2", ("Failed", None)),
                // Evicted: in-tree lists it as failed.
                ("3", ("Failed", Some("deallocated"))),
            ]
            .map(|(id, shown)| (id.to_owned(), shown))
            .into();
        });
        touch(&setup.emulator);
        setup.client.until("the eviction shows", async |client| errors(client, "pool").await.len() == 1).await;
        let running = [&nodes[..3], &nodes[4..]].concat();
        assert_eq!(setup.client.nodes_in("pool", 1).await, running, "flexible: {flexible}");
        assert_eq!(
            (setup.client.nodes_in("pool", 2).await, setup.client.target("pool").await),
            (nodes[3..4].into(), 5)
        );

        // A new process has not seen them running, but they are older than any node takes to start.
        setup.emulator.group_details("pool", |details| details.created_ago = Duration::from_secs(21 * 60));
        setup.restart().await;
        assert_eq!(setup.client.nodes_in("pool", 1).await, running, "flexible: {flexible}");
        setup.emulator.group_details("pool", |details| details.shown_as.clear());
        touch(&setup.emulator);
        setup.client.until("all run", async |client| client.nodes_in("pool", 1).await == nodes).await;
    }
}

#[tokio::test]
async fn vmss_instance_view_slow() {
    for hangs in [true, false] {
        let mut setup = Setup::open(arm([pool("pool", (0, 10, 3))])).await;
        let nodes = setup.client.nodes_in("pool", 1).await;
        let view = "expand=instanceView";
        if hangs {
            setup.emulator.hold("GET", view, HoldPoint::BeforeResponse);
        } else {
            setup.emulator.script("GET", view, 10_000, HttpResponse::new(504).body("upstream request timeout"));
        }
        setup.client.increase("pool", 2).await.expect("the capacity is enough");
        setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("the named machine is known");
        assert_eq!(setup.client.target("pool").await, 4);
        assert_eq!(capacities_written(&setup.emulator, "pool"), [5]);
        assert_eq!(deletions(&setup.emulator), [["0"]]);
        if hangs {
            setup.emulator.release();
        }
        // Without the views, the lists without them show the running machines.
        let four_run = async |client: &mut crate::peers::headcount::Client| {
            client.nodes_in("pool", 1).await.len() == 4 && client.nodes("pool").await.len() == 4
        };
        setup.client.until("four run", four_run).await;
        if !hangs {
            setup.restart().await;
            assert_eq!(setup.client.nodes_in("pool", 1).await.len(), 4, "served from the start");
        }
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

#[tokio::test]
async fn vmss_thousand_machines() {
    let mut setup = Setup::open(arm([pool("pool", (0, 1_000, 990))])).await;
    setup.client.until("it is served", async |client| client.node_groups().await.len() == 1).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    assert_eq!(nodes.len(), 990);
    // The list takes longer than any caller waits.
    setup.emulator.hold("GET", "virtualMachineScaleSets/pool/virtualMachines", HoldPoint::BeforeEffect);
    setup.client.increase("pool", 5).await.expect("written without listing the machines");
    setup.client.delete("pool", &refs(&nodes)[..3]).await.expect("written without listing the machines");
    assert_eq!(setup.client.target("pool").await, 992);
    assert_eq!(capacities_written(&setup.emulator, "pool"), [995]);
    assert_eq!(deletions(&setup.emulator).concat().len(), 3);
    setup.emulator.release();
    setup.client.until("they are gone", async |client| client.nodes("pool").await.len() == 992).await;
    assert_eq!((setup.client.target("pool").await, capacity(&setup.emulator, "pool")), (992, Some(992)));
}

#[tokio::test]
async fn vmss_os_provisioning_timed_out() {
    for flexible in [false, true] {
        let plan = pool("pool", (2, 10, 2)).launch_time(endless());
        let arm = arm([plan]);
        arm.group_details("pool", |details| details.flexible = flexible);
        let mut setup = Setup::open(arm).await;
        setup.client.increase("pool", 1).await.expect("accepted");
        let creating =
            async |client: &mut Client| client.nodes_in("pool", 2).await.iter().any(|id| !id.contains("placeholder"));
        setup.client.until("it is being created", creating).await;
        // 21 minutes later, it still is.
        setup.emulator.group_details("pool", |details| details.created_ago = Duration::from_secs(21 * 60));
        touch(&setup.emulator);
        let reads = |setup: &Setup<Arm>| setup.emulator.requests_with("GET", "virtualMachines").len();
        let before = reads(&setup);
        setup.client.clone().until("it is read again", async |_| reads(&setup) > before + 2).await;
        setup.emulator.group_details("pool", |details| {
            details.shown_as = [("2".to_owned(), ("Failed", None))].into();
        });
        touch(&setup.emulator);
        setup.client.until("it failed", async |client| errors(client, "pool").await.len() == 1).await;
        let failed = setup.client.nodes_in("pool", 2).await;
        setup
            .client
            .delete("pool", &refs(&failed))
            .await
            .expect("it is no node, and does not count toward the minimum");
    }
}
