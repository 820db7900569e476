//! Properties of every simulated world.

use fastrand::Rng;

use super::*;
use crate::cloud::FailureClass;

fn troubled(plan: GroupPlan) -> GroupPlan {
    let failure = |class, code: &str| PlannedFailure { class, code: code.to_owned(), message: String::new() };
    let allocation = failure(FailureClass::OutOfResources, "AllocationFailed");
    let extension = failure(FailureClass::Other, "VMExtensionProvisioningFailed");
    let stay = failure(FailureClass::Other, "CannotAllocateRemainingVMsInAvailabilitySet");
    plan.sized(0, 200, 20)
        .launches(Pick::Chance(0.1), LaunchOutcome::fails(allocation.clone(), seconds(1, 20)))
        .launches(Pick::Chance(0.1), LaunchOutcome::rolls_back(allocation, seconds(1, 20)))
        .launches(Pick::Chance(0.1), LaunchOutcome::Breaks { failure: extension, after: seconds(1, 20) })
        .deletions(Pick::Chance(0.2), DeleteOutcome::FailsLater(stay))
        .evicted_every(seconds(5, 60))
}

/// One write by a careful client: it only raises the capacity that it just read, deletes by name, and lowers the
/// capacity at most to the listed instances.
async fn write(fixture: &Fixture, rng: &mut Rng) -> bool {
    let reading = fixture.read().await;
    let instances = reading.instances.clone().expect("listed");
    let listed = u32::try_from(instances.len()).expect("few");
    let launching = fixture.0.launch_activity(&reading.name, ANY).await.expect("readable").under_way;
    match rng.u32(0..3) {
        0 => fixture.0.set_capacity(&reading, reading.desired + rng.u32(1..4)).await.is_ok(),
        1 => {
            // An Auto Scaling group lowers its capacity again if an instance that is being terminated is named again.
            let may_go = |one: &&Instance| reading.etag.is_some() || one.state != InstanceState::Deleting;
            let named: Vec<_> =
                instances.iter().filter(may_go).filter(|_| rng.u32(0..5) == 0).map(|one| one.id.clone()).collect();
            fixture.0.delete_instances(&reading, &named).await.is_ok_and(|deletion| !deletion.accepted.is_empty())
        }
        // During a launch, the capacity cannot be lowered safely: the instance could exceed it.
        _ if launching == 0 && listed < reading.desired => fixture.0.set_capacity(&reading, listed).await.is_ok(),
        _ => false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_careful_client_kills_no_unnamed_instance() {
    for seed in 0..50 {
        for plan in [
            GroupPlan::aws("pool"),
            GroupPlan::azure("pool").accounting(Accounting::OnAccept),
            GroupPlan::azure("pool").accounting(Accounting::WhenGone),
            GroupPlan::azure("pool").overlap(Overlap::Preempt),
        ] {
            let fixture = Fixture(Simulated::with_groups(seed, [troubled(plan)]));
            let mut rng = Rng::with_seed(seed);
            let mut written = 0;
            for _ in 0..60 {
                written += u32::from(write(&fixture, &mut rng).await);
                pass(rng.u64(0..8)).await;
            }
            assert!(written > 15, "seed {seed}: {written}");
            assert_eq!(fixture.0.killed_unnamed(), [], "seed {seed}, {:?}", fixture.read().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_without_writes_reaches_its_capacity() {
    for seed in 0..50 {
        let fixture = Fixture(Simulated::with_groups(
            seed,
            [
                troubled(GroupPlan::aws("pool")),
                troubled(GroupPlan::azure("blue")),
                troubled(GroupPlan::azure("green").accounting(Accounting::OnAccept)),
            ],
        ));
        let mut rng = Rng::with_seed(seed);
        for _ in 0..30 {
            for name in ["pool", "blue", "green"] {
                // Any write, including those that kill.
                let reading = fixture.0.observe(&name.into()).await.expect("readable").expect("there");
                let ids: Vec<_> = reading.instances.iter().flatten().take(2).map(|one| one.id.clone()).collect();
                drop(fixture.0.delete_instances(&reading, &ids).await);
                drop(fixture.0.set_capacity(&reading, rng.u32(0..50)).await);
            }
            pass(rng.u64(0..30)).await;
        }
        for name in ["pool", "blue", "green"] {
            fixture.0.replan(name, GroupPlan::launches_fine).expect("there");
            fixture.0.replan(name, |plan| plan.evictions = None).expect("there");
        }
        pass(600).await;
        assert!(!fixture.0.killed_unnamed().is_empty(), "seed {seed}: such a client kills");
        fixture.0.world(|world, _| {
            for group in world.groups() {
                assert!(group.members().all(|member| matches!(member.phase, Phase::Running | Phase::Broken)));
                let lost = group.capacity().checked_sub(group.live());
                assert!(lost.is_some_and(|lost| lost == 0 || group.name() != "pool"), "seed {seed}: {group:?}");
                assert!(group.operations().all(|operation| operation.ending.is_some()));
            }
        });
    }
}
