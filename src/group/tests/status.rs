//! What is reported to CA, on hand-made observations.

use super::*;

#[test]
fn standby_instances_are_listed_but_not_part_of_the_target_or_the_shortfall() {
    let standby = vec![instance(9, InstanceState::Running, Counts::No)];
    let group = Group::new(2, all(&[running(0..2), standby]));
    assert_eq!((group.target(), group.placeholders().len(), group.reported(InstanceState::Running)), (2, 0, 3));
}

#[test]
fn an_instance_whose_deletion_is_sent_again_is_reported_as_being_deleted_whatever_its_state() {
    let mut listed = running(0..3);
    listed[0].failure = Some(Arc::new(shortage(wall(0))));
    let status = Group::new(4, listed).state.status();
    assert_eq!((status.target, status.failed()), (4, 1));
    let sent_again = ids(0..2);
    let status = status.with_deleting(|id| sent_again.contains(id));
    assert_eq!((status.target, status.failed(), status.in_state(InstanceState::Deleting)), (2, 0, 2));
    let missing = status.instances.iter().find(|one| !one.exists).expect("a placeholder").id.clone();
    assert_eq!(status.with_deleting(|id| *id == missing).target, 2, "a placeholder is not deleted");
}

#[test]
fn a_write_shows_in_the_target_before_any_read_does() {
    let mut group = Group::new(3, running(0..3));
    group.write(3, 5, None);
    assert_eq!((group.target(), group.reported(InstanceState::Creating)), (5, 2));
    group.see(3, running(0..3)); // a read that lags behind
    assert_eq!(group.target(), 5);
    group.see(5, running(0..3));
    assert_eq!(group.target(), 5);
    group.see(3, running(0..3)); // a replica that lags behind even further
    assert_eq!(group.target(), 5);
}

#[test]
fn an_accepted_deletion_shows_in_the_target_and_the_states_before_any_read_does() {
    let mut group = Group::new(3, running(0..3));
    group.delete(0..1);
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (2, 1));
    group.see(3, running(0..3)); // a read that lags behind
    assert_eq!((group.target(), group.reported(InstanceState::Deleting)), (2, 1));
}

#[test]
fn a_scale_up_is_fully_in_the_target_beside_deletions_by_another_client() {
    // Another client has lowered the group from 7 to 2, and five of its instances are being deleted.
    let mut group = Group::new(2, all(&[running(0..2), deleting(2..7, Counts::UntilDeleted)]));
    assert_eq!(group.target(), 2);
    group.write(2, 7, Some("resize"));
    assert_eq!(group.target(), 7, "before any read");
    // One of them may still be part of a capacity of 3, and no more than that.
    let mut group = Group::new(3, all(&[running(0..2), deleting(2..7, Counts::UntilDeleted)]));
    assert_eq!(group.target(), 2);
    group.write(3, 8, Some("resize"));
    assert_eq!(group.target(), 7, "before any read");
}

#[test]
fn instances_that_another_client_deletes_after_a_scale_up_take_no_more_than_their_room_from_the_target() {
    let mut group = Group::new(3, running(0..3));
    group.write(3, 8, Some("resize"));
    // The read lags: of five instances on their way out, its capacity of 3 can count one beside the two that live.
    group.see(3, all(&[running(0..2), deleting(2..7, Counts::UntilDeleted)]));
    assert_eq!(group.target(), 7);
}

#[test]
fn a_scale_up_is_never_computed_from_a_read_that_lags_behind() {
    let mut group = Group::new(5, running(0..5));
    group.write(5, 10, None);
    group.see(5, running(0..5));
    assert_eq!(plan::raised_capacity(&group.state, 2), Some(12));
}

#[test]
fn a_change_by_another_client_shows_at_once_with_or_without_operations() {
    let mut group = Group::new(9, running(0..9));
    group.write(9, 10, Some("scale-up"));
    group.see(10, running(0..9));
    group.see(8, running(0..7)); // two were evicted
    assert_eq!(group.target(), 8);
}

#[test]
fn an_observation_after_a_failure_counts_even_if_the_operation_has_settled() {
    let mut group = Group::new(5, running(0..5));
    group.fail(OperationId(99), 9, running(0..9));
    assert_eq!(group.target(), 9);
    assert_eq!(plan::raised_capacity(&group.state, 1), Some(10), "a write is computed on what was read last");
}

#[test]
fn a_failed_instance_that_is_a_node_is_reported_running_unless_it_was_evicted() {
    let failed = |number, is_eviction| Instance {
        failure: Some(Failure { is_eviction, ..shortage(wall(0)) }.into()),
        ..instance(number, InstanceState::Creating, Counts::UntilDeleted)
    };
    let group = Group::new(
        4,
        vec![
            failed(0, false),
            failed(1, false),
            failed(2, true),
            instance(3, InstanceState::Creating, Counts::UntilDeleted),
        ],
    );
    let failures = |nodes: ClusterNodes| {
        let status = group.state.status_in(None, &nodes);
        assert_eq!(status.target, 4, "a state changes no count");
        let failed = status.instances.into_iter().filter(|reported| reported.failure.is_some());
        failed.map(|reported| reported.id).collect::<Vec<_>>()
    };
    let of = |nodes: std::ops::Range<u32>| {
        ClusterNodes::Watched(WatchedNodes { all: ids(nodes).into_iter().collect(), ..WatchedNodes::default() })
    };
    assert_eq!(failures(ClusterNodes::Unwatched), ids(0..3));
    assert_eq!(failures(ClusterNodes::Awaited), ids(2..3), "nobody knows yet which of them are nodes");
    assert_eq!(failures(of(0..0)), ids(0..3));
    assert_eq!(failures(of(0..1)), ids(1..3));
    assert_eq!(failures(of(0..4)), ids(2..3));
}

#[test]
fn a_tainted_node_whose_deletion_failed_is_left_out_for_two_minutes_while_the_taint_stays() {
    let mut group = Group::new(5, running(0..5));
    let tainted: BTreeSet<ProviderId> = ids(0..2).into_iter().collect();
    let shown = |group: &Group, tainted: &BTreeSet<ProviderId>| {
        let nodes = WatchedNodes { all: ids(0..5).into_iter().collect(), tainted: tainted.clone() };
        let status = group.state.status_in(None, &ClusterNodes::Watched(nodes));
        (status.target, status.in_state(InstanceState::Deleting))
    };
    assert_eq!(shown(&group, &tainted), (5, 0), "a taint alone says nothing: CA may be about to delete it");
    let operation = group.delete(0..1);
    group.fail(operation, 5, running(0..5));
    assert_eq!(shown(&group, &tainted), (4, 1), "CA would take it for upcoming, and wait for it");
    assert_eq!(shown(&group, &BTreeSet::new()), (5, 0), "CA knows that it lives");
    let mut later = group.clone();
    later.now = later.now + Duration::from_secs(121);
    later.see(5, running(0..5));
    assert_eq!(shown(&later, &tainted), (5, 0), "CA would never remove what the target leaves out");
    let named =
        plan::delete(&group.state, &[NamedNode { id: id(0), kind: NodeKind::Registered }], &DeletePlan::default());
    assert_eq!(named.map(|plan| plan.instances), Ok(ids(0..1)), "naming it again deletes it again");
    group.delete(0..1);
    group.see(4, running(1..5));
    assert_eq!(shown(&group, &tainted), (4, 0));
}
