//! The cloud, the process that manages it, and the laws that both are checked against.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{CallKind, Faults, Simulated};
use headcount::fleet::{Cadence, Fleet, Policies, Settings};
use headcount::instance_types::Catalog;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Violation;
use super::connection::Connection;

/// How long everything may take to settle, in simulated time.
const SETTLE_LIMIT: Duration = Duration::from_secs(40 * 60);
/// How long after a crash a write of the crashed process may still cost instances: an Auto Scaling group tolerates a surplus
/// for some twenty seconds, so a process that crashes before it raises the capacity back may leave the next one too little
/// time. Headcount cannot prevent that; see `docs/simulation.md`.
const AFTER_CRASH: Duration = Duration::from_secs(45);
/// How long an Auto Scaling group tolerates a surplus, and how long a call about it may take.
const SURPLUS_TOLERATED: Duration = Duration::from_secs(25);

/// A fleet over a simulated cloud.
pub(super) struct World {
    pub(super) cloud: Arc<Simulated>,
    pub(super) fleet: Arc<Fleet>,
    connection: watch::Sender<bool>,
    /// When processes crashed, or a group was hidden from them and they dropped its state, since the beginning of the world.
    crashes: RefCell<Vec<Duration>>,
}

impl World {
    /// The first process starts.
    pub(super) fn start(cloud: Arc<Simulated>) -> Self {
        let (fleet, connection) = process(&cloud);
        Self { cloud, fleet, connection, crashes: RefCell::default() }
    }

    /// Crashes the process and starts another one.
    pub(super) fn restart(&mut self) {
        let _already_cut = self.connection.send(true);
        self.lost_state();
        (self.fleet, self.connection) = process(&self.cloud);
    }

    /// Records that the state of a group, or of all groups, was lost.
    pub(super) fn lost_state(&self) {
        self.crashes.borrow_mut().push(self.cloud.elapsed());
    }

    /// Whether this is not the first process.
    pub(super) fn has_crashed(&self) -> bool {
        !self.crashes.borrow().is_empty()
    }

    /// Waits until the process is ready.
    pub(super) async fn wait_ready(&self, limit: Duration) -> Result<(), Violation> {
        let ready = self.fleet.wait_ready(Instant::now() + limit).await;
        ready.map_err(|error| Violation::of("law 8", format!("never ready: {error}")))
    }

    /// Checks the laws that can be checked at any time.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.check_kills()
    }

    /// Law 1: no capacity write of Headcount's deleted an instance that nobody named.
    fn check_kills(&self) -> Result<(), Violation> {
        let after_crash =
            |at: Duration| self.crashes.borrow().iter().any(|crash| *crash <= at && at <= *crash + AFTER_CRASH);
        let mut killed = self.cloud.killed_unnamed();
        killed.retain(|killed| {
            let excused = after_crash(killed.at) || self.was_blocked(&killed.group, killed.at);
            !(killed.id.as_str().starts_with("aws:") && excused)
        });
        match killed.first() {
            None => Ok(()),
            Some(killed) => Err(Violation::of("law 1", format!("{killed:?} was deleted, and nobody had named it"))),
        }
    }

    /// Whether the cloud failed a call that would have shown the surplus or raised the capacity back in time.
    fn was_blocked(&self, group: &str, at: Duration) -> bool {
        let kinds = [CallKind::Observe, CallKind::SetCapacity];
        self.cloud.faults(|faults| {
            let mut calls =
                faults.calls().filter(|call| call.group.as_deref() == Some(group) && kinds.contains(&call.kind));
            calls.any(|call| call.call_fault.is_some() && call.at <= at && at <= call.at + SURPLUS_TOLERATED)
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

    /// After everything has settled, target, instances and cloud agree exactly.
    pub(super) async fn check_agreement(&self) -> Result<(), Violation> {
        self.cloud.faults(Faults::clear);
        let until = Instant::now() + SETTLE_LIMIT;
        while let Some(disagreement) = self.disagreement() {
            if Instant::now() >= until {
                return Err(Violation::of("law 3", format!("not settled: {disagreement}")));
            }
            sleep(Duration::from_secs(10)).await;
        }
        Ok(())
    }

    /// A group whose published status differs from the cloud.
    pub(super) fn disagreement(&self) -> Option<String> {
        let snapshot = self.fleet.snapshot();
        self.cloud.world(|world, _| {
            world.groups().find_map(|group| {
                let Some((_, view)) = snapshot.group(group.name()) else {
                    return Some(format!("{} is not served", group.name()));
                };
                let (target, capacity, live) = (view.status.target, group.capacity(), group.live());
                let listed: Vec<&str> = view.status.instances.iter().map(|reported| reported.id.as_str()).collect();
                let unlisted = group.members().filter(|member| !listed.contains(&member.provider_id.as_str())).count();
                // A shortfall that the minimum prevents lowering is not in the target until instances arrive.
                let agrees = target == live && unlisted == 0 && (capacity == live || capacity <= group.plan().min);
                (!agrees).then(|| format!("{}: target {target}, capacity {capacity}, live {live}", group.name()))
            })
        })
    }

    /// Prints all events, calls and crashes.
    pub(super) fn print_log(&self) {
        self.cloud.world(|world, _| world.events().for_each(|event| println!("{:?} {event}", event.at)));
        self.cloud.calls().iter().for_each(|call| println!("{call:?}"));
        self.crashes.borrow().iter().for_each(|crash| println!("{crash:?} a process crashed or lost a group's state"));
    }
}

fn process(cloud: &Arc<Simulated>) -> (Arc<Fleet>, watch::Sender<bool>) {
    let (connection, cutter) = Connection::to(cloud);
    let fleet = Fleet::start(Settings {
        sources: vec![(Arc::from("sim"), Arc::new(connection) as SharedCloud)],
        cadence: Cadence::new(Duration::from_secs(10), None),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
        read_only: false,
    });
    (Arc::new(fleet), cutter)
}
