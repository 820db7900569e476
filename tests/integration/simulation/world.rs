//! The cloud, the process that looks after it, and what has to be true of both.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{CallKind, Faults, Simulated};
use headcount::fleet::{Fleet, Policies, Settings};
use headcount::instance_types::Catalog;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Violation;
use super::line::Line;

/// How long everything may take to calm down, in simulated time.
const CALM: Duration = Duration::from_secs(40 * 60);
/// How long after a death an instance may still die of what the dead process wrote: an Auto Scaling group suffers a surplus
/// for some twenty seconds, so a process that dies before it has raised the capacity back leaves the next one too little
/// time. Nothing can be done about that from outside; see `docs/simulation.md`.
const LAST_WILL: Duration = Duration::from_secs(45);
/// How long an Auto Scaling group suffers a surplus, and how long a call about it may take.
const SUFFERED: Duration = Duration::from_secs(25);

/// A fleet over a simulated cloud.
pub(super) struct World {
    pub(super) cloud: Arc<Simulated>,
    pub(super) fleet: Arc<Fleet>,
    line: watch::Sender<bool>,
    /// When processes died, or lost sight of a group and with it all they knew of it, since the beginning of the world.
    deaths: RefCell<Vec<Duration>>,
}

impl World {
    /// The first process starts.
    pub(super) fn start(cloud: Arc<Simulated>) -> Self {
        let (fleet, line) = process(&cloud);
        Self { cloud, fleet, line, deaths: RefCell::default() }
    }

    /// The process dies at this moment and another one starts.
    pub(super) fn restart(&mut self) {
        let _already_cut = self.line.send(true);
        self.lost_sight();
        (self.fleet, self.line) = process(&self.cloud);
    }

    /// Whatever was known of a group is known no longer.
    pub(super) fn lost_sight(&self) {
        self.deaths.borrow_mut().push(self.cloud.elapsed());
    }

    /// Whether this is not the first process.
    pub(super) fn has_died(&self) -> bool {
        !self.deaths.borrow().is_empty()
    }

    /// Waits until the process serves.
    pub(super) async fn wait_ready(&self, limit: Duration) -> Result<(), Violation> {
        let ready = self.fleet.wait_ready(Instant::now() + limit).await;
        ready.map_err(|error| Violation::of("law 8", format!("never ready: {error}")))
    }

    /// The laws that what has happened so far can be held against.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.check_deaths()
    }

    /// Law 1: no instance died of a capacity write of ours.
    fn check_deaths(&self) -> Result<(), Violation> {
        let inherited =
            |at: Duration| self.deaths.borrow().iter().any(|death| *death <= at && at <= *death + LAST_WILL);
        let mut killed = self.cloud.killed_unnamed();
        killed.retain(|killed| {
            let excused = inherited(killed.at) || self.was_hindered(&killed.group, killed.at);
            !(killed.id.as_str().starts_with("aws:") && excused)
        });
        match killed.first() {
            None => Ok(()),
            Some(killed) => Err(Violation::of("law 1", format!("{killed:?} died unnamed"))),
        }
    }

    /// Whether the cloud failed a call that would have shown the surplus, or raised the capacity back, while it suffered it.
    fn was_hindered(&self, group: &str, at: Duration) -> bool {
        let kinds = [CallKind::Observe, CallKind::SetCapacity];
        self.cloud.faults(|faults| {
            let mut calls =
                faults.calls().filter(|call| call.group.as_deref() == Some(group) && kinds.contains(&call.kind));
            calls.any(|call| call.mishap.is_some() && call.at <= at && at <= call.at + SUFFERED)
        })
    }

    /// Law 2: between two writes to a group there is a read of it.
    pub(super) fn check_reads_before_writes(&self) -> Result<(), Violation> {
        self.cloud.faults(|faults| {
            let mut read: BTreeMap<&str, bool> = BTreeMap::new();
            for call in faults.calls() {
                let Some(group) = call.group.as_deref() else { continue };
                if call.kind == CallKind::Observe {
                    read.insert(group, true);
                } else if call.kind.writes() && !read.insert(group, false).unwrap_or(true) {
                    return Err(Violation::of("law 2", format!("{call:?} without a read since the last write")));
                }
            }
            Ok(())
        })
    }

    /// After everything has calmed down, target, instances and cloud agree exactly.
    pub(super) async fn check_agreement(&self) -> Result<(), Violation> {
        self.cloud.faults(Faults::clear);
        let until = Instant::now() + CALM;
        while let Some(disagreement) = self.disagreement() {
            if Instant::now() >= until {
                return Err(Violation::of("law 3", format!("never calm: {disagreement}")));
            }
            sleep(Duration::from_secs(10)).await;
        }
        Ok(())
    }

    /// What is told of some group and is not so.
    pub(super) fn disagreement(&self) -> Option<String> {
        let snapshot = self.fleet.snapshot();
        self.cloud.world(|world, _| {
            world.groups().find_map(|group| {
                let Some((_, view)) = snapshot.group(group.name()) else {
                    return Some(format!("{} is not served", group.name()));
                };
                let (target, capacity, live) = (view.status.target, group.capacity(), group.live());
                let listed: Vec<&str> = view.status.instances.iter().map(|reported| reported.id.as_str()).collect();
                let strangers = group.members().filter(|member| !listed.contains(&member.provider_id.as_str())).count();
                // What min forbids to lower is left out of the target until instances come.
                let agrees = target == live && strangers == 0 && (capacity == live || capacity <= group.plan().min);
                (!agrees).then(|| format!("{}: target {target}, capacity {capacity}, live {live}", group.name()))
            })
        })
    }

    /// Prints what happened and what was called.
    pub(super) fn tell(&self) {
        self.cloud.world(|world, _| world.events().for_each(|event| println!("{:?} {event}", event.at)));
        self.cloud.calls().iter().for_each(|call| println!("{call:?}"));
        self.deaths.borrow().iter().for_each(|death| println!("{death:?} a process died"));
    }
}

fn process(cloud: &Arc<Simulated>) -> (Arc<Fleet>, watch::Sender<bool>) {
    let (line, cutter) = Line::to(cloud);
    let fleet = Fleet::start(Settings {
        sources: vec![(Arc::from("sim"), Arc::new(line) as SharedCloud)],
        refresh_interval: Duration::from_secs(10),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
    });
    (Arc::new(fleet), cutter)
}
