//! Reading one scale set with its VMs.

use super::*;

#[tokio::test]
async fn machines_are_read_before_the_capacity() {
    for kind in [|set| set, flexible] {
        let fake = FakeApi::with(vec![kind(set("pool", 3))]);
        let azure = fake.azure(named(&["pool"]));
        azure.list().await.expect("listed");
        let reading = observed(&azure, "pool").await;
        assert_eq!((reading.desired, reading.etag.as_deref()), (3, Some("\"0\"")));
        let calls = fake.state(|state| state.calls.split_off(1));
        assert!(calls.len() == 2 && calls[1] == "get pool", "{calls:?}");
        let instances = reading.instances.expect("read with the group");
        let running = |instance: &Instance| {
            (instance.state, instance.counts) == (InstanceState::Running, Counts::UntilDeleted)
                && instance.failure.is_none()
        };
        assert!(instances.len() == 3 && instances.iter().all(running), "{instances:?}");
    }
}

#[tokio::test]
async fn reading_a_capacity_and_its_etag_takes_one_call() {
    for kind in [|set| set, flexible] {
        let fake = FakeApi::with(vec![kind(set("pool", 1_000))]);
        let azure = fake.azure(named(&["pool"]));
        let reading = azure.read_capacity(&"pool".into()).await.expect("readable").expect("present");
        assert_eq!((reading.desired, reading.etag.as_deref()), (1_000, Some("\"0\"")));
        assert!(reading.instances.is_none());
        assert_eq!(fake.state(|state| state.calls.clone()), ["get pool"]);
        assert!(azure.read_capacity(&"nowhere".into()).await.expect("readable").is_none());
    }
}

#[tokio::test]
async fn a_change_seen_with_a_capacity_is_reported_until_the_machines_are_read() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    let listed = async || azure.list().await.expect("listed").groups[0].is_detail_outdated;
    observed(&azure, "pool").await;
    assert!(!listed().await);
    fake.change("pool", |_| {});
    azure.read_capacity(&"pool".into()).await.expect("readable");
    assert!(listed().await && listed().await);
    observed(&azure, "pool").await;
    assert!(!listed().await);
}

#[tokio::test]
async fn provider_ids_are_those_of_the_kubelet_in_both_orchestration_modes() {
    let fake = FakeApi::with(vec![set("Pool", 2), flexible(set("flex", 1))]);
    fake.change_machine("Pool", 1, |machine| machine.id = machine.id.replace(RESOURCE_GROUP, "MC_GROUP"));
    let azure = fake.azure(named(&["pool", "flex"]));
    let ids = |instances: Vec<Instance>| instances.into_iter().map(|instance| instance.id).collect::<Vec<_>>();
    assert_eq!(ids(instances(&azure, "pool").await), [id("Pool", 0), id("Pool", 1)]);
    assert_eq!(ids(instances(&azure, "flex").await), [vm("flex_0")]);
}

#[tokio::test]
async fn a_deleted_set_is_none_and_the_others_are_read() {
    let fake = FakeApi::with(vec![set("pool", 1), set("other", 1)]);
    let azure = fake.azure(named(&["pool", "other"]));
    assert_eq!(azure.list().await.expect("listed").groups.len(), 2);
    fake.state(|state| state.sets.remove(0));
    assert!(azure.observe(&"pool".into()).await.expect("readable").is_none());
    let listing = azure.list().await.expect("listed");
    assert_eq!((names(&listing.groups), listing.absent), (vec!["other"], vec!["pool".into()]));
}

#[tokio::test]
async fn machines_that_are_not_found_in_a_set_that_is_there_are_an_error() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    fake.fail("uniform", CloudError::NotFound(fault("ResourceNotFound", "?")));
    assert!(matches!(azure.observe(&"pool".into()).await, Err(CloudError::NotFound(_))));
}

#[tokio::test]
async fn a_set_recreated_in_the_other_mode_is_read_with_its_machines_for_a_write() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    observed(&azure, "pool").await;
    fake.state(|state| state.sets.clear());
    fake.add(flexible(set("pool", 2)));
    let reading = azure.read_capacity(&"pool".into()).await.expect("readable").expect("present");
    assert_eq!(reading.instances.map(|instances| instances.len()), Some(2));
}

#[tokio::test]
async fn a_set_recreated_in_the_other_mode_is_read_in_that_mode() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    azure.list().await.expect("listed");
    fake.state(|state| state.sets.clear());
    fake.add(flexible(set("pool", 2)));
    fake.fail("uniform", CloudError::NotFound(fault("ResourceNotFound", "?")));
    assert_eq!(states(&azure, "pool").await, [InstanceState::Running; 2]);
}

/// The list of VMs comes first, and the scale set is created again before it is read itself.
#[tokio::test]
async fn the_vms_of_a_scale_set_are_never_taken_for_those_of_the_next_one_of_its_name() {
    let of = |id: &str, capacity| ScaleSet { unique_id: Some(id.to_owned()), ..set("pool", capacity) };
    for kind in [|set| set, flexible] {
        let fake = FakeApi::with(vec![kind(of("old", 3))]);
        let azure = fake.azure(named(&["pool"]));
        observed(&azure, "pool").await;
        fake.state(|state| state.recreated = Some(kind(of("new", 1))));
        let reading = observed(&azure, "pool").await;
        assert_eq!((reading.desired, reading.instances.map(|instances| instances.len())), (1, Some(1)));
        fake.state(|state| state.calls.clear());
        observed(&azure, "pool").await;
        assert_eq!(fake.state(|state| state.calls.len()), 2, "once is enough for one that stays");
    }
}

#[tokio::test]
async fn a_change_shows_in_the_etag_even_if_the_list_has_none() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    fake.state(|state| state.lists_no_etags = true);
    let azure = fake.azure(named(&["pool"]));
    let listed = async || azure.list().await.expect("listed").groups[0].etag.clone();
    assert_eq!(listed().await, None, "never read by itself");
    let read = observed(&azure, "pool").await.etag;
    assert_eq!((listed().await, read.is_some()), (read, true));
    fake.change("pool", |set| set.capacity = Some(2));
    assert_eq!(listed().await, None);
}

#[tokio::test]
async fn a_change_of_the_provisioning_state_is_reported_until_the_machines_are_read() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    let listed = async || azure.list().await.expect("listed").groups[0].is_detail_outdated;
    let read = observed(&azure, "pool").await.etag;
    assert!(read.is_some() && !listed().await);
    fake.state(|state| state.sets[0].provisioning_state = Some("Updating".to_owned()));
    assert!(listed().await && listed().await);
    assert_eq!(observed(&azure, "pool").await.etag, read, "the precondition of writes stays the etag");
    assert!(!listed().await);
}
