//! `headcount compare`: the sizes of a node group in the cloud, Headcount, the Cluster Autoscaler and Kubernetes, and
//! where they differ. Pure: the command collects what is compared.

mod backoff;
mod differences;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use self::backoff::backs_off;
use self::differences::{autoscaler_differs, headcount_differs, notes};
use crate::admin::statusz::{Document, GroupEntry};
use crate::kubernetes::{AutoscalerGroup, AutoscalerStatus};

/// The view of each side, or the reason why it could not be read.
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
    /// The part of the cloud's capacity that no VM fills and that is not lowered.
    pub unfilled: Option<u32>,
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
    /// Operations under way, and why the group cannot grow or shrink: no differences.
    pub notes: Vec<String>,
}

/// The comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The node groups, by ID.
    pub groups: Vec<Row>,
    /// Sides that could not be read, and other notes that concern no single group.
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
    let unread: Vec<_> = sides.cloud.sources.iter().filter(|source| !source.ready).collect();
    if sides.server.is_some() {
        for source in &unread {
            let problem = source.problem.as_deref().unwrap_or("it has not been read yet");
            notes.push(format!("this command cannot read source {}: {problem}", source.name));
        }
    }
    for source in &sides.cloud.sources {
        let groups = source.unread_groups.iter();
        notes.extend(groups.map(|(name, why)| format!("{}/{name} cannot be read: {why}", source.name)));
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
    let is_group_unread = |id: &str| {
        sides.cloud.sources.iter().any(|source| {
            let name = id.strip_prefix(source.name.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(id);
            source.unread_groups.contains_key(id) || source.unread_groups.contains_key(name)
        })
    };
    let is_unread = |group: &GroupEntry| unread.iter().any(|source| source.name == group.source);
    // Where two sources have a group of one name, its ID begins with the source. This command does not know that while
    // it cannot read one of them.
    let has_another_id = |id: &str| match (cloud.get(id), served.get(id)) {
        _ if unread.is_empty() => false,
        (Some(listed), None) => served.contains_key(format!("{}/{id}", listed.source).as_str()),
        (None, Some(served)) => id
            .strip_prefix(served.source.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|name| cloud.contains_key(name)),
        _ => false,
    };
    let row = |id: &str| {
        let nodes = sides.nodes.as_ref().ok().map(|nodes| nodes.get(id).copied().unwrap_or(0));
        let (listed, served) = (cloud.get(id).copied(), served.get(id).copied());
        let known = Known {
            headcount: headcount.is_some(),
            autoscaler: sides.autoscaler.is_ok(),
            cloud: !has_another_id(id) && !served.is_some_and(is_unread) && !is_group_unread(id),
        };
        let mut row = row(id, listed, served, autoscaler.get(id).copied(), known, nodes);
        if let (Ok(status), Some(group)) = (&sides.autoscaler, autoscaler.get(id)) {
            row.differences.extend(backs_off(group, status, sides.backoff));
        }
        row
    };
    Comparison { groups: ids.into_iter().map(row).collect(), notes }
}

/// Which sides could be read. If a group is missing on a side that could not be read, that is not a difference.
#[derive(Clone, Copy)]
struct Known {
    headcount: bool,
    autoscaler: bool,
    /// Whether this command reads the group and its source, and lists the group by the ID that the server has for it.
    cloud: bool,
}

fn by_id(groups: &[GroupEntry]) -> BTreeMap<&str, &GroupEntry> {
    groups.iter().map(|group| (group.id.as_str(), group)).collect()
}

fn row(
    id: &str,
    cloud: Option<&GroupEntry>,
    served: Option<&GroupEntry>,
    autoscaler: Option<&AutoscalerGroup>,
    known: Known,
    nodes: Option<u32>,
) -> Row {
    let mut differences = Vec::new();
    match (cloud, served) {
        _ if !known.headcount => {}
        (Some(_), None) | (None, Some(_) | None) if !known.cloud => {}
        (Some(_), None) => differences.push("the cloud has the group, but Headcount does not serve it".to_owned()),
        (None, Some(_)) => differences.push("Headcount serves the group, but the cloud does not list it".to_owned()),
        (Some(cloud), Some(served)) => differences.extend(headcount_differs(cloud, served)),
        (None, None) => differences
            .push("only the Cluster Autoscaler knows the group: it was deleted, or is not configured".to_owned()),
    }
    if let Some(served) = served {
        match autoscaler {
            Some(autoscaler) => differences.extend(autoscaler_differs(served, autoscaler)),
            None if known.autoscaler => {
                differences.push(
                    "the Cluster Autoscaler does not know the group yet; it lists all groups again in each loop"
                        .to_owned(),
                );
            }
            None => {}
        }
    }
    if let (Some(cloud), Some(nodes)) = (cloud, nodes)
        && nodes != cloud.live
    {
        let difference = if nodes < cloud.live {
            format!("{} without a node", counted(cloud.live - nodes, "instance"))
        } else {
            format!("{} without a live instance", counted(nodes - cloud.live, "node"))
        };
        differences.push(difference);
    }
    Row {
        id: id.to_owned(),
        cloud_desired: cloud.map(|group| group.desired),
        cloud_live: cloud.map(|group| group.live),
        unfilled: served.map(|group| group.unfilled),
        headcount_target: served.map(|group| group.target),
        autoscaler_target: autoscaler.map(|group| group.health.cloud_provider_target),
        autoscaler_nodes: autoscaler.map(|group| group.health.node_counts.registered.total),
        nodes,
        differences,
        notes: served.map(notes).unwrap_or_default(),
    }
}

/// A number with its noun.
fn counted(number: impl Into<i64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}
