//! Writes to a scale set that is not as expected: without an etag, with a surplus, or busy.

use std::time::Duration;

use headcount::clouds::simulated::CallFault;
use headcount::clouds::simulated::CallKind;

use super::{arm, capacities_written, capacity, deletions, pool, refs};
use crate::emulators::Emulator;
use crate::emulators::arm::{Etags, error};
use crate::emulators::setup::Setup;

/// The surplus stays longer than any test.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn vmss_own_surge() {
    for overprovision in [true, false] {
        let arm = arm([pool("pool", (0, 20, 5))]);
        arm.group_details("pool", |details| details.overprovision = overprovision);
        let mut setup = Setup::open(arm).await;
        setup.client.until("five run", async |client| client.nodes_in("pool", 1).await.len() == 5).await;
        setup.emulator.simulated().launch_surplus("pool", 3, LONG).expect("it exists");
        setup.emulator.simulated().replan("pool", |_| {}).expect("it exists");
        setup.client.until("the surplus is listed", async |client| client.nodes("pool").await.len() == 8).await;
        assert_eq!(setup.client.target("pool").await, 5, "overprovision: {overprovision}");
        setup.client.increase("pool", 2).await.expect("a surplus blocks no scale-up");
        assert_eq!(setup.client.target("pool").await, 7);
        assert_eq!(capacities_written(&setup.emulator, "pool"), [7]);
        let nodes = setup.client.nodes_in("pool", 1).await;
        setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("a surplus blocks no deletion");
        assert_eq!((setup.client.target("pool").await, deletions(&setup.emulator).concat().len()), (6, 1));
        setup.client.until("it is gone", async |_| capacity(&setup.emulator, "pool") == Some(6)).await;
        assert_eq!(capacities_written(&setup.emulator, "pool"), [7], "nothing was written that was not requested");
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

#[tokio::test]
async fn vmss_no_etag() {
    let arm = arm([pool("pool", (0, 20, 5))]);
    arm.behavior(|behavior| behavior.etags = Etags::Nowhere);
    let mut setup = Setup::open(arm).await;
    assert_eq!(setup.client.target("pool").await, 5);
    setup.emulator.forget_requests();
    for target in [7, 9] {
        setup.client.increase("pool", 2).await.expect("written without a precondition");
        assert_eq!(setup.client.target("pool").await, target);
    }
    let requests = setup.emulator.requests();
    let of_set: Vec<_> = requests.iter().filter(|request| request.path.ends_with("/pool")).collect();
    let writes: Vec<_> = of_set.iter().enumerate().filter(|(_, request)| request.method == "PATCH").collect();
    for (position, write) in &writes {
        assert_eq!(of_set[position - 1].method, "GET", "read immediately before");
        assert_eq!(write.header("if-match"), None);
    }
    let written: Vec<_> = writes.iter().map(|(_, write)| write.json()["sku"]["capacity"].as_u64()).collect();
    assert_eq!(written, [Some(7), Some(9)]);
    setup.client.until("nine run", async |client| client.nodes_in("pool", 1).await.len() == 9).await;
    assert_eq!(setup.server().lines_with("no etag").len(), 1, "one warning");
}

#[tokio::test]
async fn vmss_conflict_for_two_seconds() {
    let mut setup = Setup::open(arm([pool("pool", (0, 20, 5))])).await;
    let nodes = setup.client.nodes_in("pool", 1).await;
    // The pauses between five attempts add up to more than two seconds.
    let busy = error(409, "OperationNotAllowed", "Another operation is in progress on this scale set.");
    assert_eq!(busy.status, 409);
    let conflict = |faults: &mut headcount::clouds::simulated::Faults, kind| {
        faults.script(Some(kind), Some("pool"), 5, CallFault::Conflict);
    };
    setup.emulator.simulated().faults(|faults| conflict(faults, CallKind::SetCapacity));
    setup.client.increase("pool", 2).await.expect("retried until the set is free");
    assert_eq!(capacities_written(&setup.emulator, "pool").len(), 6);
    setup.emulator.simulated().faults(|faults| conflict(faults, CallKind::DeleteInstances));
    setup.client.delete("pool", &refs(&nodes)[..1]).await.expect("retried until the set is free");
    assert_eq!(deletions(&setup.emulator).len(), 6);
    assert_eq!(setup.client.target("pool").await, 6);
}
