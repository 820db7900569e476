//! `headcount compare`: what the cloud, Headcount, the Cluster Autoscaler and Kubernetes each believe of a node group, and where
//! they differ. Pure: the command collects what is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use humantime::{format_rfc3339_seconds, parse_rfc3339_weak};
use serde::Serialize;

use crate::admin::statusz::{Document, GroupEntry};
use crate::kubernetes::{AutoscalerGroup, AutoscalerStatus};

/// A cluster has no node of an instance for this long at least before that is reported.
const LIVE_WITHOUT_NODES: &str = "instances that are not nodes yet, or never will be";

/// What each side says. A side that could not be read has the reason.
pub struct Sides {
    /// The cloud, read by this command.
    pub cloud: Document,
    /// The running server.
    pub server: Option<Result<Document, String>>,
    /// The Cluster Autoscaler.
    pub autoscaler: Result<AutoscalerStatus, String>,
    /// For how long the Cluster Autoscaler backs off a group at first, and at most.
    pub backoff: (Duration, Duration),
    /// The nodes of the cluster by node group.
    pub nodes: Result<BTreeMap<String, u32>, String>,
}

/// One node group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its ID.
    pub id: String,
    /// The cloud's capacity.
    pub cloud_desired: Option<u32>,
    /// The cloud's live instances.
    pub cloud_live: Option<u32>,
    /// The target size that Headcount returns.
    pub headcount_target: Option<u32>,
    /// The target size that the Cluster Autoscaler last saw.
    pub autoscaler_target: Option<i64>,
    /// The nodes that the Cluster Autoscaler counts.
    pub autoscaler_nodes: Option<i64>,
    /// The nodes of the cluster.
    pub nodes: Option<u32>,
    /// Where they differ, and why.
    pub differences: Vec<String>,
}

/// The comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The node groups, by ID.
    pub groups: Vec<Row>,
    /// Sides that could not be read, and what concerns no single group.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Whether all sides agree.
    pub fn agrees(&self) -> bool {
        self.groups.iter().all(|row| row.differences.is_empty())
    }
}

/// Compares the sides.
pub fn compare(sides: &Sides) -> Comparison {
    let mut notes = Vec::new();
    let headcount = match &sides.server {
        None => Some(&sides.cloud),
        Some(Ok(document)) => Some(document),
        Some(Err(reason)) => {
            notes.push(format!("Headcount's server cannot be read: {reason}"));
            None
        }
    };
    if let Err(reason) = &sides.autoscaler {
        notes.push(format!("the Cluster Autoscaler's status cannot be read: {reason}"));
    }
    if let Err(reason) = &sides.nodes {
        notes.push(format!("the nodes of the cluster cannot be read: {reason}"));
    }
    for source in headcount.iter().flat_map(|document| &document.sources) {
        if let Some(problem) = &source.problem {
            notes.push(format!("source {} cannot be read: {problem}", source.name));
        }
    }
    if let (Some(Ok(server)), Some(age)) =
        (&sides.server, headcount.and_then(|document| document.autoscaler.age_seconds))
        && server.standby
    {
        notes.push(format!("the server is a standby: the Cluster Autoscaler last called it {age} s ago"));
    }
    let cloud = by_id(&sides.cloud.groups);
    let served = headcount.map(|document| by_id(&document.groups)).unwrap_or_default();
    let autoscaler: BTreeMap<&str, &AutoscalerGroup> = sides
        .autoscaler
        .iter()
        .flat_map(|status| &status.node_groups)
        .map(|group| (group.name.as_str(), group))
        .collect();
    let ids: BTreeSet<&str> = cloud.keys().chain(served.keys()).chain(autoscaler.keys()).copied().collect();
    let row = |id: &str| {
        let nodes = sides.nodes.as_ref().ok().map(|nodes| nodes.get(id).copied().unwrap_or(0));
        let known = sides.autoscaler.is_ok();
        let mut row =
            row(id, cloud.get(id).copied(), served.get(id).copied(), autoscaler.get(id).copied(), known, nodes);
        if let (Ok(status), Some(group)) = (&sides.autoscaler, autoscaler.get(id)) {
            row.differences.extend(backs_off(group, status, sides.backoff));
        }
        row
    };
    Comparison { groups: ids.into_iter().map(row).collect(), notes }
}

fn by_id(groups: &[GroupEntry]) -> BTreeMap<&str, &GroupEntry> {
    groups.iter().map(|group| (group.id.as_str(), group)).collect()
}

fn row(
    id: &str,
    cloud: Option<&GroupEntry>,
    served: Option<&GroupEntry>,
    autoscaler: Option<&AutoscalerGroup>,
    is_autoscaler_known: bool,
    nodes: Option<u32>,
) -> Row {
    let mut differences = Vec::new();
    match (cloud, served) {
        (Some(_), None) => differences.push("the cloud has it, and Headcount does not serve it".to_owned()),
        (None, Some(_)) => differences.push("Headcount serves it, and the cloud does not list it".to_owned()),
        (Some(cloud), Some(served)) => differences.extend(headcount_differs(cloud, served)),
        (None, None) => {
            differences.push("only the Cluster Autoscaler knows it: it was deleted, or is not configured".to_owned())
        }
    }
    if let Some(served) = served {
        match autoscaler {
            Some(autoscaler) => differences.extend(autoscaler_differs(served, autoscaler)),
            None if is_autoscaler_known => {
                differences
                    .push("the Cluster Autoscaler does not know it; it lists groups anew in each loop".to_owned());
            }
            None => {}
        }
    }
    if let (Some(cloud), Some(nodes)) = (cloud, nodes)
        && nodes != cloud.live
    {
        let difference = if nodes < cloud.live {
            format!("{} {LIVE_WITHOUT_NODES}", cloud.live - nodes)
        } else {
            format!("{} nodes whose instances are gone or being deleted", nodes - cloud.live)
        };
        differences.push(difference);
    }
    Row {
        id: id.to_owned(),
        cloud_desired: cloud.map(|group| group.desired),
        cloud_live: cloud.map(|group| group.live),
        headcount_target: served.map(|group| group.target),
        autoscaler_target: autoscaler.map(|group| group.health.cloud_provider_target),
        autoscaler_nodes: autoscaler.map(|group| group.health.node_counts.registered.total),
        nodes,
        differences,
    }
}

/// Where Headcount's target is not the cloud's capacity.
fn headcount_differs(cloud: &GroupEntry, served: &GroupEntry) -> Vec<String> {
    let mut differences = Vec::new();
    for failure in &served.failures {
        differences.push(format!("{} instances failed to launch: {}", failure.count, failure.code));
    }
    for operation in &served.operations {
        differences.push(format!("{} under way for {} s: {}", operation.id, operation.age_seconds, operation.what));
    }
    let withheld =
        [("cannot grow", &served.cannot_grow), ("cannot shrink", &served.cannot_shrink), ("in doubt", &served.doubt)];
    for (what, reason) in withheld {
        differences.extend(reason.as_ref().map(|reason| format!("{what}: {reason}")));
    }
    if served.target != cloud.desired && served.operations.is_empty() {
        differences.push(if served.deleting > 0 {
            format!("{} instances are being deleted, which the cloud still counts", served.deleting)
        } else {
            format!(
                "Headcount returns {}, read {} s ago; the cloud says {}",
                served.target, served.age_seconds, cloud.desired
            )
        });
    }
    differences
}

/// Where the Cluster Autoscaler's last loop saw something else.
fn autoscaler_differs(served: &GroupEntry, autoscaler: &AutoscalerGroup) -> Vec<String> {
    let mut differences = Vec::new();
    let health = &autoscaler.health;
    if i64::from(served.target) != health.cloud_provider_target {
        let seen = health.cloud_provider_target;
        differences
            .push(format!("the Cluster Autoscaler last saw a target of {seen}; its status is written once per loop"));
    }
    if health.status == "Unhealthy" {
        differences.push("the Cluster Autoscaler considers it unhealthy and does not scale it".to_owned());
    }
    if health.node_counts.long_unregistered > 0 {
        let number = health.node_counts.long_unregistered;
        differences.push(format!("the Cluster Autoscaler gave up on {number} instances that never became nodes"));
    }
    differences
}

/// Until when the Cluster Autoscaler does not scale up the group, and why. Its status says since when; the time doubles with each
/// failure soon after the last one, so the end is the first one that has not passed.
fn backs_off(
    group: &AutoscalerGroup,
    status: &AutoscalerStatus,
    (initial, most): (Duration, Duration),
) -> Option<String> {
    let scale_up = &group.scale_up;
    if scale_up.status != "Backoff" {
        return None;
    }
    let code = match scale_up.backoff_info.error_code.as_str() {
        "" => "instances did not become nodes in time, or the release does not say",
        code => code,
    };
    let since = scale_up.last_transition_time.as_deref().and_then(|since| parse_rfc3339_weak(since).ok());
    let Some(since) = since else { return Some(format!("the Cluster Autoscaler backs off: {code}")) };
    // `2026-11-22 12:05:01.2 +0000 UTC`
    let written = status.time.split(" +0000").next().and_then(|time| parse_rfc3339_weak(time).ok()).unwrap_or(since);
    let ends = std::iter::successors(Some(initial), |wait| (*wait < most).then(|| (*wait * 2).min(most)));
    let end = ends.map(|wait| since + wait).find(|end| *end > written).unwrap_or(since + most);
    let end = format_rfc3339_seconds(end);
    Some(format!("the Cluster Autoscaler backs off until {end} at the earliest: {code}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::{BackoffInfo, GroupHealth, ScaleUp};

    fn group(id: &str, size: u32) -> GroupEntry {
        GroupEntry { id: id.to_owned(), target: size, desired: size, live: size, ..GroupEntry::default() }
    }

    fn document(groups: Vec<GroupEntry>) -> Document {
        Document { groups, ..Document::default() }
    }

    fn seen(name: &str, target: i64) -> AutoscalerGroup {
        let health =
            GroupHealth { status: "Healthy".to_owned(), cloud_provider_target: target, ..GroupHealth::default() };
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
    fn where_all_sides_agree_there_is_nothing_to_say() {
        let comparison = compare(&sides(Some(group("web", 7)), seen("web", 7), 7));
        assert!(comparison.agrees() && comparison.notes.is_empty(), "{comparison:?}");
    }

    #[test]
    fn each_difference_names_who_believes_what() {
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
                "Headcount returns 6, read 0 s ago; the cloud says 7",
                "the Cluster Autoscaler last saw a target of 5; its status is written once per loop",
                "1 instances that are not nodes yet, or never will be",
                "the Cluster Autoscaler backs off until 2026-11-22T12:08:00Z at the earliest: InsufficientInstanceCapacity",
            ]
        );
    }

    #[test]
    fn a_backoff_that_outlasts_its_first_end_has_doubled() {
        let until = |written: &str, since: &str| {
            let mut group = seen("web", 7);
            group.scale_up.status = "Backoff".to_owned();
            group.scale_up.last_transition_time = Some(since.to_owned());
            let status = AutoscalerStatus { time: written.to_owned(), ..AutoscalerStatus::default() };
            backs_off(&group, &status, (Duration::from_secs(300), Duration::from_secs(1800))).expect("a backoff")
        };
        let since = "2026-11-22T12:00:00.25Z";
        assert!(until("2026-11-22 12:04:00 +0000 UTC", since).contains("until 2026-11-22T12:05:00Z at the earliest"));
        assert!(until("2026-11-22 12:06:00.9 +0000 UTC", since).contains("until 2026-11-22T12:10:00Z"));
        assert!(until("2026-11-22 12:25:00 +0000 UTC", since).contains("until 2026-11-22T12:30:00Z"));
        assert!(
            until("2026-11-22 12:04:00 +0000 UTC", "soon")
                .ends_with("backs off: instances did not become nodes in time, or the release does not say")
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
        assert_eq!(comparison.groups[0].differences, ["the cloud has it, and Headcount does not serve it"]);
        sides.server = None;
        assert!(compare(&sides).agrees());
    }
}
