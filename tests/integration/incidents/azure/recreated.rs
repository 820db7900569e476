//! Scale sets and VMs that are deleted and created again under their names.

use headcount::clouds::simulated::Overlap;

use super::{arm, deletions, endless, pool, refs};
use crate::emulators::Emulator;
use crate::emulators::arm::error;
use crate::emulators::setup::Setup;
use crate::peers::headcount::refused;

/// The scale set itself, not its VMs.
const SET: &str = "/virtualMachineScaleSets/pool";

#[tokio::test]
async fn vmss_recreated_under_its_name() {
    let plan = pool("pool", (0, 20, 6)).overlap(Overlap::Preempt).delete_time(endless());
    let mut setup = Setup::open(arm([plan.clone()])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.client.delete("pool", &refs(&nodes)[3..4]).await.expect("accepted");
    assert_eq!(setup.client.target("pool").await, 5);

    // Another operation preempts the deletion, and then the scale set is replaced. For a while it cannot be read.
    setup.emulator.script("GET", SET, 6, error(503, "ServerTimeout", "The request timed out."));
    setup.emulator.simulated().set_desired_externally("pool", 7).expect("it exists");
    setup.server().logged("another operation preempted an operation of the node group");
    setup.emulator.simulated().create_group(plan);
    setup.server().logged("node group was deleted and created again under its name");
    setup.client.until("all of the new one run", async |client| client.nodes_in("pool", 1).await.len() == 6).await;
    assert_eq!(setup.client.nodes_in("pool", 1).await, nodes, "they have the same IDs");
    assert_eq!(setup.client.target("pool").await, 6);

    // The keeper has carried out all that it had to do before this call.
    setup.client.increase("pool", 1).await.expect("accepted");
    assert_eq!(deletions(&setup.emulator).len(), 1, "nothing is sent to the new one");
    setup.client.until("seven run", async |client| client.nodes_in("pool", 1).await.len() == 7).await;
}

#[tokio::test]
async fn a_deletion_is_not_carried_out_on_a_set_that_was_created_since() {
    let plan = pool("pool", (0, 20, 4));
    let mut setup = Setup::with(arm([plan.clone()]), |options| options.refresh = "10m".to_owned()).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    setup.emulator.simulated().create_group(plan);
    let (_, message) = refused(setup.client.delete("pool", &refs(&nodes)[..1]).await);
    assert!(message.contains("created again under its name"), "{message}");
    assert!(deletions(&setup.emulator).is_empty());
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("named again, now that the new one is known");
    assert_eq!(deletions(&setup.emulator).len(), 1);
}
