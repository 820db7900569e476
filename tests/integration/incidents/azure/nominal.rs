//! Scale sets whose capacity is a nominal number: a write adds or deletes the difference from the number before,
//! whatever lives (dataplat/dbatools #10540).

use headcount::clouds::simulated::{GroupPlan, LaunchOutcome, Pick, PlannedFailure, Sizing};

use super::{arm, capacities_written, capacity, errors, pool, quick, refs};
use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::setup::Setup;
use crate::peers::headcount::{eventually, refused, run};

fn nominal(sizes: (u32, u32, u32)) -> GroupPlan {
    pool("pool", sizes).sizing(Sizing::Nominal)
}

/// A flexible scale set with a capacity of 9, of which three VMs were deleted one by one.
async fn drifted(max: u32) -> Setup<Arm> {
    let arm = arm([nominal((0, max, 9))]);
    arm.group_details("pool", |details| details.flexible = true);
    let mut setup = Setup::open(arm).await;
    setup.emulator.simulated().evict("pool", 3).expect("it exists");
    setup.client.until("three are gone", async |client| client.nodes_in("pool", 1).await.len() == 6).await;
    assert_eq!(capacity(&setup.emulator, "pool"), Some(9), "the capacity counts them all the same");
    setup
}

fn live(arm: &Arm) -> Option<u32> {
    arm.simulated().world(|world, _| world.group("pool").map(|group| group.live()))
}

/// Takes back everything that is listed as missing, as CA does, and all that is not listed.
async fn give_up(setup: &mut Setup<Arm>) {
    let missing = setup.client.nodes_in("pool", 2).await;
    if !missing.is_empty() {
        setup.client.delete("pool", &refs(&missing)).await.expect("nothing to delete in the cloud");
    }
    setup.client.decrease("pool", -3).await.expect("nothing to lower");
}

#[tokio::test]
async fn vmss_nominal_drift_cleaned_up() {
    let mut setup = drifted(20).await;
    setup.client.until("the target is what lives", async |client| client.target("pool").await == 6).await;
    give_up(&mut setup).await;
    // Headcount knows of the next change once it has read the set again.
    setup.emulator.simulated().add_instances("pool", 1).expect("it exists");
    setup.client.until("another read", async |client| client.nodes_in("pool", 1).await.len() == 7).await;
    assert_eq!(setup.client.target("pool").await, 7);
    assert_eq!(capacities_written(&setup.emulator, "pool"), [0; 0], "a lower capacity would delete live VMs");
    assert_eq!((live(&setup.emulator), capacity(&setup.emulator, "pool")), (Some(7), Some(10)));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());

    let output = run(&["compare", "--config", &setup.config(), "-o", "json"]);
    let compared = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(compared.contains("\"unfilled\": 3"), "{compared}");
    let check = run(&["check", "--config", &setup.config(), "-o", "json"]);
    let found = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(found.contains("HC410") && found.contains("counts 3 VMs that do not exist"), "{found}");
}

#[tokio::test]
async fn vmss_nominal_drift_grows() {
    let mut setup = drifted(20).await;
    give_up(&mut setup).await;
    setup.client.increase("pool", 2).await.expect("accepted");
    assert_eq!(setup.client.target("pool").await, 8);
    setup.client.until("two more run", async |client| client.nodes_in("pool", 1).await.len() == 8).await;
    assert_eq!(capacities_written(&setup.emulator, "pool"), [11], "the capacity and two");
    assert_eq!((live(&setup.emulator), setup.client.target("pool").await), (Some(8), 8));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn what_is_unfilled_takes_up_the_maximum_until_the_set_has_shown_that_it_is_nominal() {
    let mut setup = drifted(10).await;
    setup.client.until("the target is what lives", async |client| client.target("pool").await == 6).await;
    let max = async |client: &mut crate::peers::headcount::Client| client.node_groups().await[0].max_size;
    assert_eq!(max(&mut setup.client).await, 7, "10 less the three that do not exist");
    let (_, message) = refused(setup.client.increase("pool", 2).await);
    assert!(message.contains("counts 3 VMs that do not exist"), "{message}");
    setup.client.increase("pool", 1).await.expect("within the maximum, however the set counts");
    setup.client.until("seven run", async |client| client.nodes_in("pool", 1).await.len() == 7).await;
    assert_eq!(capacities_written(&setup.emulator, "pool"), [10]);
}

#[tokio::test]
async fn vmss_nominal_failure_cleaned_up() {
    let failure = PlannedFailure::out_of_resources("AllocationFailed", "There is no capacity.");
    let plan = nominal((0, 20, 6)).launches(Pick::Always, LaunchOutcome::fails(failure, quick()));
    let mut setup = Setup::open(arm([plan])).await;
    setup.client.increase("pool", 4).await.expect("accepted");
    setup.client.until("four failed", async |client| errors(client, "pool").await.len() == 4).await;
    assert_eq!(setup.client.target("pool").await, 10);
    let failed = setup.client.nodes_in("pool", 2).await;
    setup.client.delete("pool", &refs(&failed)).await.expect("they never existed");
    assert_eq!((setup.client.target("pool").await, setup.client.nodes("pool").await.len()), (6, 6));

    setup.emulator.simulated().replan("pool", |plan| plan.launches_fine()).expect("it exists");
    setup.client.increase("pool", 1).await.expect("accepted");
    setup.client.until("it runs", async |client| client.nodes_in("pool", 1).await.len() == 7).await;
    assert_eq!(capacities_written(&setup.emulator, "pool"), [10, 11], "never lowered");
    assert_eq!(live(&setup.emulator), Some(7));
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn vmss_reinstated_scale_up() {
    for sizing in [Sizing::Nominal, Sizing::Actual] {
        let failure = PlannedFailure::out_of_resources("AllocationFailed", "There is no capacity.");
        let plan = pool("pool", (5, 20, 5)).sizing(sizing);
        let plan = plan.launches(Pick::Always, LaunchOutcome::fails(failure, quick()));
        let arm = arm([plan]);
        let mut setup = Setup::with(arm, |options| options.node_groups = vec!["9:20:pool".to_owned()]).await;
        setup.client.increase("pool", 4).await.expect("accepted");
        setup.client.until("four failed", async |client| errors(client, "pool").await.len() == 4).await;
        let failed = setup.client.nodes_in("pool", 2).await;
        setup.client.delete("pool", &refs(&failed)).await.expect("they never existed");
        assert_eq!(setup.client.target("pool").await, 5);

        setup.emulator.simulated().replan("pool", |plan| plan.launches_fine()).expect("it exists");
        setup.client.increase("pool", 3).await.expect("accepted");
        assert_eq!(capacities_written(&setup.emulator, "pool"), [9, 12], "{sizing:?}: a write reaches Azure");
        eventually("at least three more live", || live(&setup.emulator) >= Some(8)).await;
        assert!(setup.emulator.simulated().killed_unnamed().is_empty());
    }
}

#[tokio::test]
async fn a_set_whose_capacity_is_known_to_be_actual_is_lowered() {
    let failure = PlannedFailure::out_of_resources("AllocationFailed", "There is no capacity.");
    let plan = pool("pool", (0, 20, 6)).launches(Pick::Always, LaunchOutcome::fails(failure, quick()));
    let actual = "groups: [{match: pool, capacityIs: actual}]".to_owned();
    let mut setup = Setup::with(arm([plan]), |options| options.more = actual).await;
    setup.client.increase("pool", 4).await.expect("accepted");
    setup.client.until("four failed", async |client| errors(client, "pool").await.len() == 4).await;
    let failed = setup.client.nodes_in("pool", 2).await;
    setup.client.delete("pool", &refs(&failed)).await.expect("they never existed");
    assert_eq!(setup.client.target("pool").await, 6);
    let lowered = async |_: &mut crate::peers::headcount::Client| capacity(&setup.emulator, "pool") == Some(6);
    setup.client.clone().until("the capacity is lowered", lowered).await;
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}
