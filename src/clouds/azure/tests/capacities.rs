//! Setting capacities, and following the operations.

use super::*;

#[tokio::test]
async fn a_capacity_is_set_once_and_against_the_etag_that_was_read() {
    let fake = FakeApi::with(vec![set("pool", 3), set("empty", 0)]);
    let azure = fake.azure(named(&["pool", "empty"]));
    let basis = observed(&azure, "pool").await;
    let accepted = azure.set_capacity(&basis, 5).await.expect("accepted");
    assert!(accepted.handle.is_some());
    assert_eq!(observed(&azure, "pool").await.desired, 5);
    azure.set_capacity(&observed(&azure, "empty").await, 2).await.expect("accepted");
    assert_eq!(fake.calls("patch"), ["pool=5 if \"0\"", "empty=2 if \"0\""]);
}

#[tokio::test]
async fn a_change_between_read_and_write_is_a_conflict_that_changes_nothing() {
    let fake = FakeApi::with(vec![set("pool", 3)]);
    let azure = fake.azure(named(&["pool"]));
    let basis = observed(&azure, "pool").await;
    fake.change("pool", |set| set.capacity = Some(90));
    assert!(matches!(azure.set_capacity(&basis, 5).await, Err(CloudError::Conflict(_))));
    let fresh = observed(&azure, "pool").await;
    assert_eq!(fresh.desired, 90);
    azure.set_capacity(&fresh, 92).await.expect("accepted");
    assert_eq!(fake.calls("patch"), ["pool=5 if \"0\"", "pool=92 if \"1\""]);
}

#[tokio::test]
async fn a_set_without_an_etag_is_read_again_and_written_without_a_precondition() {
    let fake = FakeApi::with(vec![ScaleSet { etag: None, ..set("pool", 3) }]);
    let azure = fake.azure(named(&["pool"]));
    let mut basis = observed(&azure, "pool").await;
    fake.state(|state| state.calls.clear());
    azure.set_capacity(&basis, 5).await.expect("accepted");
    assert_eq!(fake.state(|state| state.calls.clone()), ["get pool", "patch pool=5 if anything"]);
    basis = observed(&azure, "pool").await;
    basis.etag = Some(String::new());
    azure.set_capacity(&basis, 6).await.expect("accepted");
    let warnings = azure.warnings();
    let about = warnings.iter().filter(|(_, warning)| warning.contains("returns no etag"));
    assert_eq!(about.count(), 1, "once per scale set: {warnings:?}");
}

#[tokio::test]
async fn without_an_etag_a_change_since_the_read_is_a_conflict() {
    let fake = FakeApi::with(vec![ScaleSet { etag: None, ..set("pool", 3) }]);
    let azure = fake.azure(named(&["pool"]));
    let basis = observed(&azure, "pool").await;
    fake.change("pool", |set| set.capacity = Some(90));
    assert!(matches!(azure.set_capacity(&basis, 5).await, Err(CloudError::Conflict(_))));
    assert!(fake.calls("patch").is_empty());
}

#[tokio::test]
async fn an_etag_that_only_the_second_read_returns_is_the_precondition() {
    let fake = FakeApi::with(vec![set("pool", 3)]);
    let azure = fake.azure(named(&["pool"]));
    let basis = GroupReading { etag: None, ..observed(&azure, "pool").await };
    azure.set_capacity(&basis, 5).await.expect("accepted");
    assert_eq!(fake.calls("patch"), ["pool=5 if \"0\""]);
}

#[tokio::test]
async fn a_machine_without_an_id_is_left_out_and_the_capacity_is_not_lowered() {
    let fake = FakeApi::with(vec![set("pool", 3)]);
    fake.change_machine("pool", 1, |machine| machine.id.clear());
    let azure = fake.azure(named(&["pool"]));
    let basis = observed(&azure, "pool").await;
    assert_eq!((basis.desired, basis.instances.as_ref().map(Vec::len)), (3, Some(2)));
    assert!(matches!(azure.set_capacity(&basis, 2).await, Err(CloudError::Conflict(_))), "it could be the one deleted");
    fake.change_machine("pool", 1, |machine| *machine = super::fake::machine(&set("pool", 3), 1));
    assert_eq!(observed(&azure, "pool").await.instances.map(|instances| instances.len()), Some(3));
    let refused = azure.set_capacity(&basis, 2).await.expect_err("this was computed without the third one");
    assert!(refused.to_string().contains("the list shows VMs without an ID (1)"), "{refused}");
    fake.change_machine("pool", 1, |machine| machine.id.clear());
    azure.set_capacity(&basis, 4).await.expect("it can grow");
    fake.change_machine("pool", 1, |machine| *machine = super::fake::machine(&set("pool", 3), 1));
    let basis = observed(&azure, "pool").await;
    azure.set_capacity(&basis, 3).await.expect("and shrink again once all have one");
    assert_eq!(azure.warnings().len(), 1);
}

#[tokio::test]
async fn operations_are_polled_by_their_handles() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    let basis = observed(&azure, "pool").await;
    let handle = azure.set_capacity(&basis, 3).await.expect("accepted").handle.expect("followed");
    assert!(matches!(azure.follow(&handle).await, Ok(Progress::Running { .. })));
    fake.state(|state| state.progress.insert(handle.0.clone(), Progress::Preempted));
    assert_eq!(azure.follow(&handle).await.expect("a response"), Progress::Preempted);
}
