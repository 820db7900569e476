//! An imitation of the Cluster Autoscaler's loop, for the demo alone: it calls the real service as the real one does,
//! in the same order.
//!
//! Pods are counted instead of scheduled, and times are shorter than the real one's defaults, so that a demo takes
//! minutes.

mod calls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::Status;
use tonic::service::Routes;

use super::line::number_of;
use super::pods::{Node, PodCounts, Pods, Workload};
use crate::clouds::simulated::{Phase, Simulated};
use calls::{Calls, Group};

/// The time between two loops. CA's default is 10 s.
const LOOP_EVERY: Duration = Duration::from_secs(2);
/// How long a node has no pods before it is deleted. CA's default is 10 min.
const UNNEEDED_FOR: Duration = Duration::from_secs(3);
/// How long no node is deleted after a deletion failed (CA's default is 3 min), and no group is chosen that refused to
/// grow.
const PAUSE: Duration = Duration::from_secs(3);
/// How long a group is not chosen after its instances failed to be created. CA begins with 5 min.
const BACKOFF: Duration = Duration::from_secs(30);

/// What it says, or which call it makes, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// When, since the demo began.
    pub(super) at: Duration,
    pub(super) what: What,
}

/// What it says, or which call it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A line for people.
    Line(String),
    /// It calls `Refresh`.
    Refreshing,
    /// It asks for this many more nodes in a group, which has this capacity in the cloud.
    Increasing { group: String, delta: u32, capacity: u32 },
    /// A group has accepted to grow.
    Increased(String),
    /// It names nodes of a group for deletion.
    Deleting(String, u32),
    /// How its pods are.
    Pods(PodCounts),
}

/// The pods that the demo begins with.
fn pods() -> Pods {
    Pods::new(vec![
        Workload { name: "web", groups: &["web", "batch-spot"], wanted: 12 },
        Workload { name: "batch", groups: &["batch-spot"], wanted: 8 },
        Workload { name: "jobs", groups: &["aks-pool"], wanted: 24 },
    ])
}

/// The imitation, and what it remembers from one loop to the next.
pub(super) struct Autoscaler {
    calls: Calls,
    /// Its cluster: each running instance is a node.
    cloud: Arc<Simulated>,
    said: mpsc::Sender<Said>,
    pods: Pods,
    /// Groups that failed to grow, and until when they are not chosen.
    backed_off: BTreeMap<String, Instant>,
    /// Since when nodes have had no pods.
    empty: BTreeMap<String, Instant>,
    /// Nodes with the taint `ToBeDeletedByClusterAutoscaler`.
    tainted: BTreeSet<String>,
    deletions: JoinSet<(String, Result<(), Status>)>,
    no_deletion_before: Instant,
}

impl Autoscaler {
    /// One that calls this service.
    pub(super) fn new(service: Routes, cloud: Arc<Simulated>, said: mpsc::Sender<Said>) -> Self {
        Self {
            calls: Calls::new(service),
            cloud,
            said,
            pods: pods(),
            backed_off: BTreeMap::new(),
            empty: BTreeMap::new(),
            tainted: BTreeSet::new(),
            deletions: JoinSet::new(),
            no_deletion_before: Instant::now(),
        }
    }

    /// Runs until the sender of changes is gone. A change is a workload, and how many more pods it gets.
    pub(super) async fn run(mut self, mut changes: mpsc::Receiver<(&'static str, i32)>) {
        let mut ticks = interval(LOOP_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.run_once().await,
                Some(Ok(first)) = self.deletions.join_next() => self.deleted(first).await,
                change = changes.recv() => match change {
                    Some((workload, by)) => self.pods.change(workload, by),
                    None => return,
                },
            }
        }
    }

    /// One loop.
    async fn run_once(&mut self) {
        let nodes = self.nodes().await;
        self.pods.place(&nodes);
        self.say(What::Pods(self.pods.counts())).await;
        self.say(What::Refreshing).await;
        let groups = match self.calls.refreshed_groups().await {
            Ok(groups) => groups,
            Err(status) => return self.line(format!("skips this loop: {}", shown(&status))).await,
        };
        self.backed_off.retain(|_, until| Instant::now() < *until);
        for group in &groups {
            self.delete_failed(group).await;
        }
        self.scale_up(&nodes).await;
        self.scale_down(&groups, &nodes).await;
    }

    /// The nodes of the cluster that belong to a group.
    async fn nodes(&mut self) -> Vec<Node> {
        let members = self.cloud.world(|world, _| {
            let members = world.groups().flat_map(|group| group.members());
            members.map(|member| (member.provider_id.to_string(), member.phase)).collect::<Vec<_>>()
        });
        self.tainted.retain(|tainted| members.iter().any(|(id, _)| id == tainted));
        let mut nodes = Vec::new();
        for (id, _) in members.into_iter().filter(|(_, phase)| *phase == Phase::Running) {
            if let Some(group) = self.calls.group_of(&id).await {
                let is_open = !self.tainted.contains(&id);
                nodes.push(Node { id, group, is_open });
            }
        }
        nodes
    }

    /// Deletes the instances that failed to be created, and backs off their group.
    async fn delete_failed(&mut self, group: &Group) {
        let Some((_, code)) = group.failed.first() else { return };
        let (id, count) = (&group.id, u32::try_from(group.failed.len()).unwrap_or(u32::MAX));
        self.line(format!(
            "{id}: {} failed with {code}: it deletes them, and chooses another group for {} s",
            number_of(count, "instance"),
            BACKOFF.as_secs()
        ))
        .await;
        self.backed_off.insert(id.clone(), Instant::now() + BACKOFF);
        let failed: Vec<String> = group.failed.iter().map(|(failed, _)| failed.clone()).collect();
        if let Err(status) = self.calls.delete_failed(id, &failed).await {
            self.line(format!("{id}: the deletion of failed instances was refused: {}", shown(&status))).await;
        }
    }

    /// Asks for nodes for the pods that wait.
    async fn scale_up(&mut self, nodes: &[Node]) {
        for (workload, waiting, needed) in self.pods.waiting() {
            let Ok(groups) = self.calls.groups().await else { return };
            let is_usable = |id: &str| !self.backed_off.contains_key(id);
            let of_workload = || groups.iter().filter(|group| workload.groups.contains(&group.id.as_str()));
            let upcoming = |group: &Group| {
                let ready = nodes.iter().filter(|node| node.group == group.id && node.is_open).count();
                group.target.saturating_sub(u32::try_from(ready).unwrap_or(u32::MAX))
            };
            let coming: u32 = of_workload().filter(|group| is_usable(&group.id)).map(upcoming).sum();
            let missing = needed.saturating_sub(coming);
            let has_room =
                |id: &&&str| is_usable(id) && groups.iter().any(|group| group.id == **id && group.target < group.max);
            let chosen = workload.groups.iter().find(has_room);
            let Some(group) = chosen.and_then(|id| groups.iter().find(|group| group.id == *id)) else { continue };
            let delta = missing.min(group.max - group.target);
            if delta > 0 {
                self.increase(&workload, waiting, &group.id, delta).await;
            }
        }
    }

    async fn increase(&mut self, workload: &Workload, waiting: u32, group: &str, delta: u32) {
        let (pods, nodes) = (number_of(waiting, "pod"), number_of(delta, "node"));
        self.line(format!("{pods} of {} wait: it asks for {nodes} more in {group}", workload.name)).await;
        let capacity =
            self.cloud.world(|world, _| world.group(group).map(|group| group.capacity())).unwrap_or_default();
        self.say(What::Increasing { group: group.to_owned(), delta, capacity }).await;
        match self.calls.increase(group, delta).await {
            Ok(()) => self.say(What::Increased(group.to_owned())).await,
            Err(status) => {
                self.line(format!(
                    "{group} did not grow, and is tried again in {} s: {}",
                    PAUSE.as_secs(),
                    shown(&status)
                ))
                .await;
                self.backed_off.insert(group.to_owned(), Instant::now() + PAUSE);
            }
        }
    }

    /// Deletes nodes that have had no pods for a while, with one call for each, as CA does.
    async fn scale_down(&mut self, groups: &[Group], nodes: &[Node]) {
        let now = Instant::now();
        self.empty.retain(|id, _| nodes.iter().any(|node| node.id == *id && node.is_open));
        for node in nodes.iter().filter(|node| node.is_open) {
            if self.pods.is_empty(&node.id) {
                self.empty.entry(node.id.clone()).or_insert(now);
            } else {
                self.empty.remove(&node.id);
            }
        }
        if now < self.no_deletion_before || !self.pods.waiting().is_empty() {
            return;
        }
        for group in groups {
            let is_unneeded = |node: &&Node| {
                node.group == group.id
                    && self.empty.get(&node.id).is_some_and(|since| now.duration_since(*since) >= UNNEEDED_FOR)
            };
            let room = usize::try_from(group.target.saturating_sub(group.min)).unwrap_or(usize::MAX);
            let unneeded: Vec<String> =
                nodes.iter().filter(is_unneeded).take(room).map(|node| node.id.clone()).collect();
            if !unneeded.is_empty() {
                self.delete(&group.id, unneeded).await;
            }
        }
    }

    async fn delete(&mut self, group: &str, nodes: Vec<String>) {
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let taints = if count == 1 { "it taints and deletes it" } else { "it taints and deletes them" };
        self.line(format!("{group}: {} without pods: {taints}", number_of(count, "node"))).await;
        self.say(What::Deleting(group.to_owned(), count)).await;
        for node in nodes {
            self.empty.remove(&node);
            self.tainted.insert(node.clone());
            let (mut calls, group) = (self.calls.clone(), group.to_owned());
            self.deletions.spawn(async move {
                let outcome = calls.delete(&group, &node).await;
                (node, outcome)
            });
        }
    }

    /// Calls of `DeleteNodes` have returned, this one first. After an error, the nodes are used again.
    async fn deleted(&mut self, first: (String, Result<(), Status>)) {
        let mut failed: BTreeMap<String, u32> = BTreeMap::new();
        let mut returned = Some(first);
        while let Some((node, outcome)) = returned {
            if let Err(status) = outcome {
                self.tainted.remove(&node);
                self.no_deletion_before = Instant::now() + PAUSE;
                *failed.entry(shown(&status)).or_default() += 1;
            }
            returned = self.deletions.try_join_next().and_then(Result::ok);
        }
        for (status, count) in failed {
            self.line(format!("it uses {} again, as DeleteNodes failed: {status}", number_of(count, "node"))).await;
        }
    }

    async fn line(&self, text: String) {
        self.say(What::Line(text)).await;
    }

    async fn say(&self, what: What) {
        // An error means that the demo has ended.
        let _ = self.said.send(Said { at: self.cloud.elapsed(), what }).await;
    }
}

/// The code of a status, and the cloud's own words, which are the last part of its message.
fn shown(status: &Status) -> String {
    let cause = status.message().rsplit(": ").next().unwrap_or_default();
    format!("{:?}, {cause}", status.code())
}
