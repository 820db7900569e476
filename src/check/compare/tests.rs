use super::*;
use crate::admin::statusz::{OperationEntry, SourceStatus};
use crate::kubernetes::{BackoffInfo, GroupHealth, ScaleUp};

fn group(id: &str, size: u32) -> GroupEntry {
    GroupEntry { id: id.to_owned(), target: size, desired: size, live: size, ..GroupEntry::default() }
}

fn document(groups: Vec<GroupEntry>) -> Document {
    Document { groups, ..Document::default() }
}

fn seen(name: &str, target: i64) -> AutoscalerGroup {
    let health = GroupHealth { status: "Healthy".to_owned(), cloud_provider_target: target, ..GroupHealth::default() };
    AutoscalerGroup { name: name.to_owned(), health, ..AutoscalerGroup::default() }
}

fn sides(server: Option<GroupEntry>, autoscaler: AutoscalerGroup, nodes: u32) -> Sides {
    Sides {
        cloud: document(vec![group("web", 7)]),
        server: server.map(|group| Ok(document(vec![group]))),
        backoff: (Duration::from_secs(300), Duration::from_secs(1800)),
        autoscaler: Ok(AutoscalerStatus { node_groups: vec![autoscaler], ..AutoscalerStatus::default() }),
        nodes: Ok([("web".to_owned(), nodes)].into()),
    }
}

#[test]
fn sides_that_agree_have_no_differences() {
    let comparison = compare(&sides(Some(group("web", 7)), seen("web", 7), 7));
    assert!(comparison.agrees() && comparison.notes.is_empty(), "{comparison:?}");
}

/// Without it, groups that share a name have other IDs here than on the server.
#[test]
fn a_source_that_this_command_cannot_read_is_a_note_and_no_difference() {
    let of_us = |id: &str| GroupEntry { source: "us".to_owned(), ..group(id, 7) };
    let mut sides = sides(Some(of_us("us/web")), seen("us/web", 7), 7);
    sides.cloud = document(vec![of_us("web")]);
    assert!(!compare(&sides).agrees(), "all sources can be read");
    let problem = Some("no route".to_owned());
    sides.cloud.sources = vec![SourceStatus { name: "west".to_owned(), problem, ..SourceStatus::default() }];
    let comparison = compare(&sides);
    assert!(comparison.agrees(), "{comparison:?}");
    assert_eq!(comparison.notes, ["this command cannot read source west: no route"]);
    sides.cloud.groups.push(of_us("db"));
    let comparison = compare(&sides);
    let unserved = comparison.groups.iter().find(|group| group.id == "db").expect("it is listed");
    assert_eq!(unserved.differences[0], "the cloud has the group, but Headcount does not serve it");
}

#[test]
fn a_group_that_this_command_cannot_read_is_a_note_and_no_difference() {
    let mut sides = sides(Some(group("web", 7)), seen("web", 7), 7);
    sides.cloud = document(Vec::new());
    assert!(!compare(&sides).agrees(), "the cloud does not list it");
    let unread_groups = [("web".to_owned(), "denied".to_owned())].into();
    sides.cloud.sources =
        vec![SourceStatus { name: "us".to_owned(), ready: true, unread_groups, ..SourceStatus::default() }];
    for server in [sides.server.take(), None] {
        sides.server = server;
        let comparison = compare(&sides);
        assert!(comparison.agrees(), "{comparison:?}");
        assert_eq!(comparison.notes, ["us/web cannot be read: denied"]);
    }
}

#[test]
fn each_difference_names_the_sides_and_their_values() {
    let autoscaler = AutoscalerGroup {
        scale_up: ScaleUp {
            status: "Backoff".to_owned(),
            backoff_info: BackoffInfo {
                error_code: "InsufficientInstanceCapacity".to_owned(),
                ..BackoffInfo::default()
            },
            last_transition_time: Some("2026-11-22T12:03:00Z".to_owned()),
        },
        ..seen("web", 5)
    };
    let comparison = compare(&sides(Some(group("web", 6)), autoscaler, 6));
    assert_eq!(
        comparison.groups[0].differences,
        [
            "Headcount returns 6, read 0 s ago; the cloud reports 7",
            "the Cluster Autoscaler last saw a target of 5; its status is written once per loop",
            "1 instance without a node",
            "the Cluster Autoscaler backs off until 2026-11-22T12:08:00Z at the earliest: InsufficientInstanceCapacity",
        ]
    );
}

#[test]
fn what_is_under_way_or_cannot_be_done_is_a_note_and_no_difference() {
    let mut busy = group("web", 6);
    let what = "deletion of 1 instance".to_owned();
    busy.operations = vec![OperationEntry { id: "op-2".to_owned(), what, age_seconds: 8, ..OperationEntry::default() }];
    busy.cannot_grow = Some("its image is gone".to_owned());
    let comparison = compare(&sides(Some(busy), seen("web", 6), 7));
    assert!(comparison.agrees(), "{comparison:?}");
    let notes = ["op-2 under way for 8 s: deletion of 1 instance", "cannot grow: its image is gone"];
    assert_eq!(comparison.groups[0].notes, notes);
}

#[test]
fn a_backoff_that_outlasts_its_first_end_has_doubled() {
    let until_after = |initial: Duration, written: &str, since: &str| {
        let mut group = seen("web", 7);
        group.scale_up.status = "Backoff".to_owned();
        group.scale_up.last_transition_time = Some(since.to_owned());
        let status = AutoscalerStatus { time: written.to_owned(), ..AutoscalerStatus::default() };
        backs_off(&group, &status, (initial, Duration::from_secs(1800))).expect("a backoff")
    };
    let until = |written: &str, since: &str| until_after(Duration::from_secs(300), written, since);
    let since = "2026-11-22T12:00:00.25Z";
    assert!(until("2026-11-22 12:04:00 +0000 UTC", since).contains("until 2026-11-22T12:05:00Z at the earliest"));
    assert!(until("2026-11-22 12:06:00.9 +0000 UTC", since).contains("until 2026-11-22T12:10:00Z"));
    assert!(until("2026-11-22 12:25:00 +0000 UTC", since).contains("until 2026-11-22T12:30:00Z"));
    let none = until_after(Duration::ZERO, "2026-11-22 12:05:00 +0000 UTC", since);
    assert!(none.contains("until 2026-11-22T12:30:00Z"), "a first time of 0 does not double: {none}");
    assert!(
        until("2026-11-22 12:04:00 +0000 UTC", "soon")
            .ends_with("backs off: instances did not become nodes in time, or this release does not report the reason")
    );
}

#[test]
fn a_side_that_cannot_be_read_is_a_note_and_no_difference() {
    let mut sides = sides(None, seen("web", 7), 7);
    sides.autoscaler = Err("denied".to_owned());
    sides.nodes = Err("denied".to_owned());
    sides.server = Some(Err("connection refused".to_owned()));
    let comparison = compare(&sides);
    assert_eq!(comparison.notes.len(), 3, "{comparison:?}");
    assert!(comparison.agrees() && comparison.groups[0].headcount_target.is_none(), "{comparison:?}");
    sides.server = Some(Ok(document(Vec::new())));
    let comparison = compare(&sides);
    assert_eq!(comparison.groups[0].differences, ["the cloud has the group, but Headcount does not serve it"]);
    sides.server = None;
    assert!(compare(&sides).agrees());
}
