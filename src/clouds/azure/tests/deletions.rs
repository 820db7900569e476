//! Deleting machines.

use super::*;
use crate::clouds::azure::arm::FORCE_DELETE_NOT_ALLOWED;

fn forcing(names: &[&str]) -> Settings {
    Settings { enable_force_delete: true, ..named(names) }
}

async fn delete(azure: &Azure, group: &str, ids: &[ProviderId]) -> Result<crate::cloud::Deletion, CloudError> {
    let basis = observed(azure, group).await;
    azure.delete_instances(&basis, ids).await
}

fn forbidden() -> CloudError {
    CloudError::Refused(fault(FORCE_DELETE_NOT_ALLOWED, "Operation 'ForceDelete' is not allowed on VM 'x'."))
}

#[tokio::test]
async fn a_machine_that_may_be_listed_without_its_id_does_not_count_as_gone() {
    let fake = FakeApi::with(vec![set("pool", 2)]);
    let azure = fake.azure(named(&["pool"]));
    let basis = observed(&azure, "pool").await;
    fake.change_machine("pool", 1, |machine| machine.id.clear());
    fake.fail("delete", CloudError::NotFound(fault("InvalidParameter", "?")));
    assert!(azure.delete_instances(&basis, &[id("pool", 1)]).await.is_err());
}

#[tokio::test]
async fn a_batch_is_one_call_in_both_kinds_of_sets_with_force_or_without() {
    for force in [false, true] {
        let fake = FakeApi::with(vec![set("pool", 3), flexible(set("flex", 3))]);
        let azure = fake.azure(Settings { enable_force_delete: force, ..named(&["POOL", "flex"]) });
        let ids = [id("pool", 0), id("pool", 2)];
        let deletion = delete(&azure, "POOL", &ids).await.expect("accepted");
        assert_eq!((&deletion.accepted[..], deletion.handle.is_some()), (&ids[..], true));
        let ids = [vm("flex_0"), vm("flex_2")];
        assert_eq!(delete(&azure, "flex", &ids).await.expect("accepted").accepted, ids);
        let expected = [format!("POOL: 0,2 force={force}"), format!("flex: flex_0,flex_2 force={force}")];
        assert_eq!(fake.calls("delete"), expected);
        for group in ["POOL", "flex"] {
            use InstanceState::{Deleting, Running};
            let reading = observed(&azure, group).await;
            let states: Vec<_> = reading.instances.iter().flatten().map(|instance| instance.state).collect();
            assert_eq!((reading.desired, &states[..]), (1, &[Deleting, Running, Deleting][..]));
        }
    }
}

#[tokio::test]
async fn deleting_machines_that_are_gone_makes_no_call() {
    let fake = FakeApi::with(vec![set("pool", 3)]);
    let azure = fake.azure(named(&["pool"]));
    let deletion = delete(&azure, "pool", &[id("pool", 77), vm("never")]).await.expect("a response");
    assert_eq!((deletion.already_gone.len(), deletion.accepted.len(), deletion.handle), (2, 0, None));
    assert!(fake.calls("delete").is_empty());
}

/// The fleet never names a machine that is being deleted, except where this deletion cancels the one under way.
#[tokio::test]
async fn a_machine_that_is_being_deleted_is_named_again_with_others() {
    let fake = FakeApi::with(vec![set("pool", 3)]);
    let azure = fake.azure(named(&["pool"]));
    delete(&azure, "pool", &[id("pool", 1)]).await.expect("accepted");
    let both = [id("pool", 0), id("pool", 1)];
    let deletion = delete(&azure, "pool", &both).await.expect("accepted");
    assert_eq!(deletion.accepted, both);
    assert_eq!(fake.calls("delete"), ["pool: 1 force=false", "pool: 0,1 force=false"]);
}

#[tokio::test]
async fn ids_are_matched_in_any_case_and_a_machine_named_twice_is_deleted_once() {
    let fake = FakeApi::with(vec![flexible(set("flex", 2))]);
    let azure = fake.azure(named(&["flex"]));
    let upper: ProviderId = vm("flex_0").as_str().to_ascii_uppercase().into();
    let deletion = delete(&azure, "flex", &[upper.clone(), vm("flex_0")]).await.expect("accepted");
    assert_eq!(deletion.accepted, [upper]);
    assert_eq!(fake.calls("delete"), ["flex: flex_0 force=false"], "by the name that Azure has for it");
}

#[tokio::test]
async fn machines_of_other_groups_are_refused_and_the_rest_is_deleted() {
    let fake = FakeApi::with(vec![set("pool", 3), set("other", 3)]);
    let azure = fake.azure(named(&["pool", "other"]));
    let ids = [id("other", 0), "aws:///us-east-1a/i-1".into(), "".into(), id("pool", 0)];
    let deletion = delete(&azure, "pool", &ids).await.expect("accepted");
    assert_eq!((deletion.refused.len(), &deletion.accepted[..]), (3, &[id("pool", 0)][..]));
    assert_eq!(fake.calls("delete"), ["pool: 0 force=false"]);
}

#[tokio::test]
async fn a_placeholder_is_never_named_to_azure() {
    let fake = FakeApi::with(vec![set("pool", 1), flexible(set("flex", 1))]);
    let azure = fake.azure(named(&["pool", "flex"]));
    for group in ["pool", "flex"] {
        let basis = observed(&azure, group).await;
        let placeholder = basis.placeholder("1-1");
        let deletion = azure.delete_instances(&basis, &[placeholder]).await.expect("a response");
        assert!(deletion.accepted.is_empty());
    }
    assert!(fake.calls("delete").is_empty());
}

/// Whether there is time to send the others again, only the caller knows (law 9).
#[tokio::test]
async fn if_one_machine_is_gone_the_others_are_a_conflict_and_nothing_is_sent_again() {
    for kind in [|set| set, flexible] {
        let fake = FakeApi::with(vec![kind(set("pool", 3))]);
        let azure = fake.azure(named(&["pool"]));
        let basis = observed(&azure, "pool").await;
        let ids: Vec<_> = basis.instances.iter().flatten().map(|instance| instance.id.clone()).collect();
        fake.state(|state| state.machines.get_mut("pool").expect("there").remove(1));
        let first = azure.delete_instances(&basis, &ids).await.expect("in part");
        assert_eq!((&first.already_gone[..], first.accepted.len(), fake.calls("delete").len()), (&ids[1..2], 0, 1));
        assert!(first.refused.iter().all(|(_, error)| matches!(error, CloudError::Conflict(_))), "{first:?}");
        let rest: Vec<_> = first.refused.into_iter().map(|(id, _)| id).collect();
        let second = azure.delete_instances(&basis, &rest).await.expect("accepted");
        assert_eq!((second.accepted, second.already_gone), (vec![ids[0].clone(), ids[2].clone()], vec![]));
    }
}

#[tokio::test]
async fn each_attempt_leaves_out_a_machine_that_is_gone_but_still_listed() {
    for kind in [|set| set, flexible] {
        let fake = FakeApi::with(vec![kind(set("pool", 4))]);
        let azure = fake.azure(named(&["pool"]));
        let basis = observed(&azure, "pool").await;
        let ids: Vec<_> = basis.instances.iter().flatten().map(|instance| instance.id.clone()).collect();
        fake.state(|state| {
            let ghosts = state.machines["pool"][1..3].iter().map(|machine| machine.delete_by.clone());
            state.ghosts = ghosts.collect();
        });
        let (mut rest, mut gone) = (ids.clone(), Vec::new());
        let accepted = loop {
            let deletion = azure.delete_instances(&basis, &rest).await.expect("a response");
            gone.extend(deletion.already_gone);
            rest = deletion.refused.into_iter().map(|(id, _)| id).collect();
            if rest.is_empty() {
                break deletion.accepted;
            }
        };
        assert_eq!((&gone[..], accepted), (&ids[1..3], vec![ids[0].clone(), ids[3].clone()]));
        assert_eq!(fake.calls("delete").len(), 3, "each refusal names one of them");
        let deletion = azure.delete_instances(&basis, &ids[1..2]).await.expect("gone");
        assert_eq!((&deletion.already_gone[..], deletion.accepted.len()), (&ids[1..2], 0));
    }
}

#[tokio::test]
async fn a_batch_of_machines_that_are_all_gone_needs_no_second_call() {
    let fake = FakeApi::with(vec![set("pool", 2)]);
    let azure = fake.azure(named(&["pool"]));
    let basis = observed(&azure, "pool").await;
    fake.state(|state| state.machines.get_mut("pool").expect("there").clear());
    let deletion = azure.delete_instances(&basis, &[id("pool", 0), id("pool", 1)]).await.expect("a response");
    assert_eq!((deletion.already_gone.len(), deletion.handle, fake.calls("delete").len()), (2, None, 1));
}

#[tokio::test]
async fn not_found_for_machines_that_exist_is_a_conflict_after_one_call() {
    let fake = FakeApi::with(vec![set("pool", 2)]);
    let azure = fake.azure(named(&["pool"]));
    fake.fail("delete", CloudError::NotFound(fault("ResourceNotFound", "?")));
    assert!(matches!(delete(&azure, "pool", &[id("pool", 0)]).await, Err(CloudError::Conflict(_))));
    assert_eq!(fake.calls("delete").len(), 1);
}

#[tokio::test]
async fn if_force_is_not_allowed_machines_are_shut_down_first_from_then_on() {
    // The module `errors` decides which responses mean that. Some do not say what is not allowed.
    let unclear = fault("OperationNotAllowed", "It is not supported for this scale set.");
    for error in [forbidden(), CloudError::Refused(unclear)] {
        let fake = FakeApi::with(vec![set("pool", 3), set("other", 3)]);
        let azure = fake.azure(forcing(&["pool", "other"]));
        fake.fail("delete", error);
        assert!(matches!(delete(&azure, "pool", &[id("pool", 0)]).await, Err(CloudError::Conflict(_))), "sent once");
        delete(&azure, "pool", &[id("pool", 0)]).await.expect("accepted");
        azure.list().await.expect("listed");
        delete(&azure, "pool", &[id("pool", 1)]).await.expect("accepted");
        delete(&azure, "other", &[id("other", 1)]).await.expect("accepted");
        let calls = ["pool: 0 force=true", "pool: 0 force=false", "pool: 1 force=false", "other: 1 force=true"];
        assert_eq!(fake.calls("delete"), calls);
    }
}

#[tokio::test]
async fn an_exhausted_quota_is_not_retried_without_force() {
    let fake = FakeApi::with(vec![set("pool", 3)]);
    let azure = fake.azure(forcing(&["pool"]));
    let quota = fault("OperationNotAllowed", "exceeding approved Total Regional Cores quota");
    fake.fail("delete", CloudError::OutOfResources(quota));
    assert!(matches!(delete(&azure, "pool", &[id("pool", 0)]).await, Err(CloudError::OutOfResources(_))));
    assert_eq!(fake.calls("delete"), ["pool: 0 force=true"]);
}

#[tokio::test]
async fn machines_on_dedicated_hosts_are_not_deleted_by_force() {
    let sized = |name, size: &str| ScaleSet { size: Some(size.to_owned()), ..set(name, 1) };
    let hosted = ScaleSet { has_host_group: true, ..set("hosted", 1) };
    let mixed = ScaleSet { mixed_sizes: vec!["Standard_M128ms".to_owned()], ..sized("mixed", "Mix") };
    let fake = FakeApi::with(vec![sized("isolated", "standard_f72s_V2"), hosted, mixed, set("normal", 1)]);
    let names = ["isolated", "hosted", "mixed", "normal"];
    let azure = fake.azure(forcing(&names));
    for name in names {
        delete(&azure, name, &[id(name, 0)]).await.expect("accepted");
    }
    let calls = ["isolated: 0 force=false", "hosted: 0 force=false", "mixed: 0 force=false", "normal: 0 force=true"];
    assert_eq!(fake.calls("delete"), calls);
}

#[tokio::test]
async fn an_error_with_an_unknown_outcome_is_returned_after_one_call() {
    let fake = FakeApi::with(vec![set("pool", 2)]);
    let azure = fake.azure(forcing(&["pool"]));
    fake.fail("delete", CloudError::Unreachable(fault("", "reset")));
    let error = delete(&azure, "pool", &[id("pool", 0)]).await.expect_err("lost");
    assert!(error.outcome_unknown());
    fake.fail("patch", CloudError::Unreachable(fault("", "reset")));
    let basis = observed(&azure, "pool").await;
    assert!(azure.set_capacity(&basis, 3).await.expect_err("lost").outcome_unknown());
    assert_eq!((fake.calls("delete").len(), fake.calls("patch").len()), (1, 1));
}

#[tokio::test]
async fn after_a_restart_machines_being_deleted_are_listed_as_such() {
    let fake = FakeApi::with(vec![set("pool", 3)]);
    delete(&fake.azure(named(&["pool"])), "pool", &[id("pool", 2)]).await.expect("accepted");
    let azure = fake.azure(named(&["pool"]));
    let states = states(&azure, "pool").await;
    assert_eq!(states, [InstanceState::Running, InstanceState::Running, InstanceState::Deleting]);
}

#[tokio::test]
async fn a_machine_can_be_deleted_before_the_group_was_read() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let basis = observed(&fake.azure(named(&["pool"])), "pool").await;
    let azure = fake.azure(named(&["pool"]));
    assert_eq!(azure.delete_instances(&basis, &[id("pool", 0)]).await.expect("accepted").accepted.len(), 1);
    fake.state(|state| state.sets.clear());
    let azure = fake.azure(named(&["pool"]));
    assert!(matches!(azure.delete_instances(&basis, &[id("pool", 0)]).await, Err(CloudError::NotFound(_))));
}
