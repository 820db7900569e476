//! What the states of machines mean.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::*;
use crate::clouds::azure::arm::VirtualMachine;
use crate::clouds::azure::scale_set_cache::CachedMachines;
use crate::clouds::azure::throttle::Pace;

/// A set of one machine, and what the machine is read as.
async fn read(settings: Settings, set: ScaleSet, change: impl FnOnce(&mut VirtualMachine)) -> Instance {
    let name = set.name.clone();
    let fake = FakeApi::with(vec![set]);
    fake.change_machine(&name, 0, change);
    instances(&fake.azure(settings), &name).await.remove(0)
}

fn state(provisioning: &str, statuses: Option<&[&str]>) -> impl FnOnce(&mut VirtualMachine) {
    let provisioning = provisioning.to_owned();
    let statuses = statuses.map(|codes| codes.iter().map(|code| status(code)).collect());
    move |machine| {
        machine.provisioning_state = Some(provisioning);
        machine.statuses = statuses;
    }
}

fn summary(instance: &Instance) -> (InstanceState, Option<(FailureClass, &str)>) {
    (instance.state, instance.failure.as_ref().map(|failure| (failure.class, failure.code.as_str())))
}

const UNEXPLAINED: (FailureClass, &str) = (FailureClass::OutOfResources, "provisioning-state-failed");

#[tokio::test]
async fn a_failed_machine_is_a_failure_unless_it_is_on_or_its_state_is_unknown() {
    use InstanceState::{Creating, Deleting, Running};
    for kind in [|set| set, flexible] {
        for (provisioning, statuses, expected) in [
            ("Failed", Some(&[][..]), (Creating, Some(UNEXPLAINED))),
            ("Failed", Some(&["PowerState/stopped"]), (Creating, Some(UNEXPLAINED))),
            ("Failed", Some(&["PowerState/deallocated"]), (Creating, Some(UNEXPLAINED))),
            ("Failed", Some(&["PowerState/invalid"]), (Creating, Some(UNEXPLAINED))),
            ("Failed", Some(&["PowerState/running"]), (Running, None)),
            ("failed", Some(&["PowerState/Starting"]), (Running, None)),
            ("Failed", None, (Running, None)),
            ("Creating", Some(&["PowerState/running"]), (Creating, None)),
            ("Deleting", Some(&["PowerState/running"]), (Deleting, None)),
            ("Succeeded", Some(&["PowerState/deallocated"]), (Running, None)),
            ("Succeeded", None, (Running, None)),
            ("Migrating", Some(&[]), (Running, None)),
            ("Updating", None, (Running, None)),
        ] {
            let instance = read(named(&["pool"]), kind(set("pool", 1)), state(provisioning, statuses)).await;
            assert_eq!(summary(&instance), expected, "{provisioning} {statuses:?}");
        }
    }
}

#[tokio::test]
async fn the_reason_of_a_failure_comes_from_the_instance_view() {
    use FailureClass::{Other, OutOfResources};
    for (code, class) in [
        ("ZonalAllocationFailed", OutOfResources),
        ("SkuNotAvailable", OutOfResources),
        ("QuotaExceeded", OutOfResources),
        ("OSProvisioningTimedOut", Other),
        ("VMExtensionHandlerNonTransientError", Other),
        ("InvalidParameter", Other),
    ] {
        let told = InstanceViewStatus {
            code: format!("ProvisioningState/failed/{code}"),
            message: Some("because".to_owned()),
        };
        let instance = read(named(&["pool"]), set("pool", 1), |machine| {
            machine.provisioning_state = Some("Failed".to_owned());
            machine.statuses = Some(vec![told, status("PowerState/stopped")]);
        });
        let failure = instance.await.failure.expect("failed");
        assert_eq!((failure.class, failure.code.as_str(), failure.message.as_str()), (class, code, "because"));
    }
}

#[tokio::test]
async fn an_evicted_spot_machine_is_listed_as_in_tree_lists_it() {
    use InstanceState::{Creating, Running};
    let spot = ScaleSet { spot: true, ..set("pool", 1) };
    for (provisioning, code, expected) in [
        ("Succeeded", "PowerState/running", (Running, None)),
        ("Succeeded", "PowerState/stopped", (Running, None)),
        ("Succeeded", "PowerState/deallocated", (Running, None)),
        ("Failed", "PowerState/deallocating", (Creating, Some(UNEXPLAINED))),
        ("Failed", "PowerState/deallocated", (Creating, Some(UNEXPLAINED))),
    ] {
        let read = read(named(&["pool"]), spot.clone(), state(provisioning, Some(&[code]))).await;
        assert_eq!(summary(&read), expected, "{provisioning} {code}");
    }
}

const UNKNOWN: [&[&str]; 4] = [&[], &["PowerState/unknown"], &["PowerState/stopped"], &["PowerState/stopping"]];

#[tokio::test]
async fn a_machine_that_was_seen_running_is_not_failed_because_its_state_is_unknown() {
    for spot in [false, true] {
        for statuses in UNKNOWN {
            let fake = FakeApi::with(vec![ScaleSet { spot, ..set("pool", 1) }]);
            let azure = fake.azure(Settings { detailed_extension_messages: true, ..named(&["pool"]) });
            assert_eq!(states(&azure, "pool").await, [InstanceState::Running]);
            for provisioning in ["Failed", "Updating", "Failed"] {
                fake.change_machine("pool", 0, |machine| {
                    state(provisioning, Some(statuses))(machine);
                    machine.failed_extensions = vec![status("vmssCSE")];
                });
                let instance = instances(&azure, "pool").await.remove(0);
                assert_eq!(summary(&instance), (InstanceState::Running, None), "{provisioning} {statuses:?}");
            }
            fake.change_machine("pool", 0, |machine| machine.failed_extensions.clear());
            fake.change_machine("pool", 0, state("Failed", Some(&["PowerState/deallocated"])));
            let evicted = instances(&azure, "pool").await.remove(0);
            assert_eq!(summary(&evicted), (InstanceState::Creating, Some(UNEXPLAINED)));
        }
    }
}

#[tokio::test]
async fn a_machine_older_than_twenty_minutes_was_a_node() {
    let minutes = |minutes: u64| std::time::SystemTime::now().checked_sub(std::time::Duration::from_secs(minutes * 60));
    for statuses in UNKNOWN {
        for (age, expected) in
            [(21, (InstanceState::Running, None)), (19, (InstanceState::Creating, Some(UNEXPLAINED)))]
        {
            let instance = read(named(&["pool"]), set("pool", 1), |machine| {
                state("Failed", Some(statuses))(machine);
                machine.created = minutes(age);
            });
            assert_eq!(summary(&instance.await), expected, "{age} {statuses:?}");
        }
    }
    // It has failed before, so it never was a node.
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    fake.change_machine("pool", 0, state("Failed", Some(&[])));
    let failed = instances(&azure, "pool").await;
    fake.change_machine("pool", 0, |machine| machine.created = minutes(60));
    assert_eq!(instances(&azure, "pool").await, failed);
}

#[tokio::test]
async fn without_instance_views_machines_keep_their_last_known_state() {
    use InstanceState::{Creating, Deleting, Running};
    for (kind, list) in [(std::convert::identity as fn(ScaleSet) -> ScaleSet, "uniform"), (flexible, "flexible")] {
        let fake = FakeApi::with(vec![kind(set("pool", 5))]);
        let azure = fake.azure(named(&["pool"]));
        let provisioning = ["Succeeded", "Failed", "Failed", "Creating", "Succeeded"];
        for (number, name) in provisioning.iter().enumerate() {
            fake.change_machine("pool", number, state(name, Some(&["PowerState/unknown"])));
        }
        fake.change_machine("pool", 2, state("Failed", Some(&["PowerState/running"])));
        let before = instances(&azure, "pool").await;
        fake.change_machine("pool", 3, state("Succeeded", Some(&[])));
        fake.change_machine("pool", 4, state("Deleting", Some(&[])));
        fake.fail(list, CloudError::Unreachable(fault("GatewayTimeout", "HTTP 504")));
        let after = instances(&azure, "pool").await;
        assert_eq!(after[..3], before[..3]);
        let found: Vec<_> = after.iter().map(|instance| instance.state).collect();
        assert_eq!(found, [Running, Creating, Running, Running, Deleting]);
        assert_eq!(fake.calls(&format!("{list}-plain")).len(), 1, "for that read only");
        assert_eq!(azure.warnings().len(), 1);
    }
}

#[tokio::test]
async fn a_failed_node_extension_is_a_failure_if_that_is_configured() {
    for kind in [|set| set, flexible] {
        for (detailed, extension, failed) in
            [(true, "VMSScse", true), (true, "other", false), (false, "vmssCSE", false)]
        {
            let settings = Settings { detailed_extension_messages: detailed, ..named(&["pool"]) };
            let error = InstanceViewStatus { code: extension.to_owned(), message: Some("exit status 50".to_owned()) };
            let instance = read(settings, kind(set("pool", 1)), |machine| machine.failed_extensions = vec![error]);
            let instance = instance.await;
            let expected = failed.then_some((FailureClass::Other, "VMExtensionProvisioningFailed"));
            let state = if failed { InstanceState::Creating } else { InstanceState::Running };
            assert_eq!(summary(&instance), (state, expected), "{detailed} {extension}");
            if let Some(failure) = instance.failure {
                assert!(failure.message.ends_with(": [exit status 50]"), "{}", failure.message);
            }
        }
    }
}

#[tokio::test]
async fn a_machine_that_failed_by_an_extension_names_it() {
    let error = InstanceViewStatus { code: "monitoring".to_owned(), message: Some("no disk".to_owned()) };
    let instance = read(named(&["pool"]), set("pool", 1), |machine| {
        state("Failed", Some(&["PowerState/stopped"]))(machine);
        machine.failed_extensions = vec![error];
    });
    let failure = instance.await.failure.expect("failed");
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Other, "VMExtensionProvisioningFailed"));
    assert_eq!(failure.message, "monitoring: no disk");
}

#[tokio::test]
async fn an_update_keeps_the_last_known_state() {
    let fake = FakeApi::with(vec![set("pool", 4)]);
    let azure = fake.azure(named(&["pool"]));
    let all = |states: [&str; 4]| {
        for (number, name) in states.iter().enumerate() {
            fake.change_machine("pool", number, state(name, Some(&[])));
        }
    };
    all(["Creating", "Failed", "Succeeded", "Deleting"]);
    let before = instances(&azure, "pool").await;
    all(["Updating"; 4]);
    fake.change_machine("pool", 0, |machine| machine.provisioning_state = None);
    let after = instances(&azure, "pool").await;
    assert_eq!(after[..3], before[..3], "the failure and its time included");
    assert_eq!(after[3].state, InstanceState::Running, "what is updated is no longer being deleted");
}

#[tokio::test]
async fn a_failure_keeps_its_time_from_read_to_read() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    fake.change_machine("pool", 0, state("Failed", Some(&[])));
    let azure = fake.azure(named(&["pool"]));
    assert_eq!(instances(&azure, "pool").await, instances(&azure, "pool").await);
}

#[tokio::test]
async fn a_failed_deletion_shows_the_machine_again() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    fake.change_machine("pool", 0, state("Deleting", Some(&["PowerState/running"])));
    assert_eq!(states(&azure, "pool").await, [InstanceState::Deleting]);
    fake.change_machine("pool", 0, state("Failed", Some(&["PowerState/running"])));
    assert_eq!(states(&azure, "pool").await, [InstanceState::Running]);
}

#[tokio::test]
async fn a_machine_listed_twice_is_one() {
    let fake = FakeApi::with(vec![set("pool", 2)]);
    fake.change_machine("pool", 1, |machine| machine.id = id("POOL", 0).as_str().replace("azure://", ""));
    assert_eq!(instances(&fake.azure(named(&["pool"])), "pool").await.len(), 1);
}

#[tokio::test]
async fn overprovisioned_machines_are_not_counted() {
    let fake = FakeApi::with(vec![ScaleSet { overprovision: true, ..set("pool", 6) }]);
    for (number, name) in ["Succeeded", "Succeeded", "Deleting", "Creating", "Creating", "Creating"].iter().enumerate()
    {
        fake.change_machine("pool", number, state(name, None));
    }
    fake.change("pool", |set| set.capacity = Some(3));
    let azure = fake.azure(named(&["pool"]));
    let counted = async || -> Vec<_> {
        instances(&azure, "pool").await.iter().map(|instance| instance.counts == Counts::UntilDeleted).collect()
    };
    assert_eq!(counted().await, [true, true, true, true, false, false]);
    // A deletion has failed.
    fake.change_machine("pool", 2, state("Succeeded", None));
    assert_eq!(counted().await, [true, true, true, true, false, false], "what was counted is not extra later");
    fake.change("pool", |set| set.overprovision = false);
    assert_eq!(counted().await, [true; 6], "without it no machine is known to be extra");
}

#[tokio::test]
async fn running_machines_count_whatever_the_capacity_is() {
    let fake = FakeApi::with(vec![ScaleSet { overprovision: true, ..set("pool", 2) }]);
    fake.change_machine("pool", 1, state("Creating", None));
    fake.change("pool", |set| set.capacity = Some(0));
    let listed = instances(&fake.azure(named(&["pool"])), "pool").await;
    assert_eq!(listed.iter().map(|one| one.counts == Counts::UntilDeleted).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn after_instance_views_failed_the_next_lists_do_not_wait_for_them() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    instances(&azure, "pool").await;
    fake.fail("uniform", CloudError::Unreachable(fault("GatewayTimeout", "HTTP 504")));
    for plain in 1..4 {
        instances(&azure, "pool").await;
        assert_eq!((fake.calls("uniform").len(), fake.calls("uniform-plain").len()), (2, plain));
    }
    tokio::time::advance(Duration::from_secs(30)).await;
    instances(&azure, "pool").await;
    assert_eq!((fake.calls("uniform").len(), fake.calls("uniform-plain").len()), (3, 3));
}

#[tokio::test]
async fn a_list_that_azure_refuses_with_views_is_read_without_them() {
    for error in
        [CloudError::Refused(fault("InvalidParameter", "$expand")), CloudError::Unintelligible(fault("", "HTML"))]
    {
        let fake = FakeApi::with(vec![set("pool", 1)]);
        let azure = fake.azure(named(&["pool"]));
        fake.fail("uniform", error);
        assert_eq!(instances(&azure, "pool").await.len(), 1);
    }
}

/// The pause would otherwise end with a list of the views, which is what Azure asked to pause.
#[tokio::test(start_paused = true)]
async fn after_a_pause_that_azure_asked_for_instead_of_views_a_list_without_them_comes_first() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    instances(&azure, "pool").await;
    let retry_after = Some(Duration::from_secs(60));
    fake.fail("uniform", CloudError::Unreachable(fault("ServiceUnavailable", "HTTP 503")));
    fake.fail("uniform-plain", CloudError::Throttled { retry_after, fault: fault("ServiceUnavailable", "not sent") });
    azure.observe(&"pool".into()).await.expect_err("paused");
    tokio::time::advance(Duration::from_secs(61)).await;
    instances(&azure, "pool").await;
    assert_eq!((fake.calls("uniform").len(), fake.calls("uniform-plain").len()), (2, 2));
}

/// In a zone outage, the views of many scale sets hang.
#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_keeps_others_from_starting_for_three_seconds() {
    let (pace, began) = (Pace::default(), tokio::time::Instant::now());
    let hanging = (0..8).map(|_| async {
        let turn = pace.turn().await;
        super::super::listing::holding(turn, tokio::time::sleep(Duration::from_secs(10))).await;
    });
    let next = async {
        let _turn = pace.turn().await.expect("a turn");
        began.elapsed()
    };
    let (_, started) = tokio::join!(join_all(hanging), next);
    assert_eq!(started, Duration::from_secs(3));
    assert!(began.elapsed() >= Duration::from_secs(10), "they went on: {:?}", began.elapsed());
}

/// A read is given up after 20 s.
#[tokio::test(start_paused = true)]
async fn sixty_sets_whose_lists_hang_do_not_keep_others_from_being_read_in_time() {
    const READ_LIMIT: Duration = Duration::from_secs(20);
    let hanging: Vec<String> = (0..60).map(|number| format!("hanging-{number}")).collect();
    let fake = FakeApi::with(hanging.iter().map(|name| set(name, 1)).chain([set("pool", 1)]).collect()).paced();
    let names: Vec<&str> = hanging.iter().map(String::as_str).chain(["pool"]).collect();
    let azure = fake.azure(named(&names));
    azure.list().await.expect("listed");
    fake.state(|state| state.hanging = hanging.iter().cloned().collect());
    let read = async |name: &str| timeout(READ_LIMIT, azure.observe(&name.into())).await;
    let (others, healthy) = tokio::join!(join_all(hanging.iter().map(|name| read(name))), read("pool"));
    assert!(others.iter().all(Result::is_err), "each hangs to its end");
    healthy.expect("in time").expect("readable").expect("present");
}

#[tokio::test]
async fn one_list_without_a_scale_set_forgets_none_of_its_nodes() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    instances(&azure, "pool").await;
    let sets = fake.state(|state| std::mem::take(&mut state.sets));
    assert!(azure.list().await.expect("listed").groups.is_empty());
    fake.state(|state| state.sets = sets);
    fake.change_machine("pool", 0, state("Failed", Some(&["PowerState/stopped"])));
    assert_eq!(summary(&instances(&azure, "pool").await[0]), (InstanceState::Running, None), "it was a node");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_began_before_the_last_one_does_not_replace_it() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    let began = tokio::time::Instant::now();
    tokio::time::advance(Duration::from_secs(1)).await;
    let basis = azure.observe(&"pool".into()).await.expect("read").expect("exists");
    azure.cache.store_machines(&"pool".into(), CachedMachines::default(), began, None);
    let id = &basis.instances.as_ref().expect("listed")[0].id;
    assert!(azure.cache.machines(&"pool".into()).is_some_and(|known| known.get(id).is_some()));
    let deletion = azure.delete_instances(&basis, std::slice::from_ref(id)).await.expect("accepted");
    assert_eq!((deletion.accepted, deletion.already_gone), (vec![id.clone()], vec![]));
}
