//! The cloud, and the process that manages it.

mod both;
mod laws;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{GrowsBy, ProviderId, SharedCloud};
use headcount::clouds::simulated::{Call, Simulated};
use headcount::fleet::recording::{Outcome, Recording};
use headcount::fleet::{Cadence, Deadline, Fleet, FleetError, Mutation, Policies, Policy, Settings, ZonePolicy};
use headcount::instance_types::Catalog;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Violation;
use super::connection::Connection;
use super::schedule::LOOK_EVERY;
use super::witness::{Seen, Witness};

/// The longest that a call of the caller's takes.
const CALL_MAX: Duration = Duration::from_secs(5);
/// One seed of this many is recorded and replayed.
const RECORDED_EVERY: u64 = 25;

/// What was asked for in each group, and what the cloud did there by itself.
struct Ledger {
    /// The most that each group may have: its capacity at the start, and all growth that was requested since.
    requested: BTreeMap<String, u32>,
    /// The groups in which the cloud launched instances of its own.
    surpluses: BTreeSet<String>,
    /// When the caller last took back instances that had not arrived, by group.
    taken_back: BTreeMap<String, Duration>,
    /// When another client set the capacity of each group, and to what.
    resized: BTreeMap<String, Vec<(Duration, u32)>>,
    /// How many instances of each group were evicted.
    evicted: BTreeMap<String, usize>,
    has_second_process: bool,
    /// How many of the instances that were deleted although nobody named them have been judged.
    judged: usize,
}

/// How a process is started.
#[derive(Clone, Copy)]
pub(super) struct Process {
    /// 0, or 1 for the second process over the same cloud.
    pub(super) number: u8,
    /// Whether it records what it decides on.
    is_recorded: bool,
    /// Whether it serves all groups by zones.
    pub(super) has_separate_zones: bool,
}

/// A fleet over a simulated cloud.
pub(super) struct World {
    pub(super) process: Process,
    pub(super) cloud: Arc<Simulated>,
    pub(super) fleet: Arc<Fleet>,
    connection: watch::Sender<bool>,
    /// What this process, and those that crashed before it, requested from the cloud.
    seen: Vec<Arc<Seen>>,
    /// When processes crashed, or a group was hidden from them and they dropped its state, since the beginning of the
    /// world.
    crashes: Rc<RefCell<Vec<Duration>>>,
    /// Whether its caller makes no new calls.
    is_retired: Cell<bool>,
    /// What all processes were asked for, and what the cloud did by itself.
    ledger: Rc<RefCell<Ledger>>,
}

impl World {
    /// The first process starts. One seed in [`RECORDED_EVERY`] is recorded, so that the others take no longer.
    pub(super) fn start(cloud: Arc<Simulated>, seed: u64, has_separate_zones: bool) -> Self {
        let capacities = cloud.world(|world, _| {
            world.groups().map(|group| (group.name().to_owned(), group.capacity())).collect::<BTreeMap<_, _>>()
        });
        let ledger = Ledger {
            requested: capacities,
            surpluses: BTreeSet::new(),
            taken_back: BTreeMap::new(),
            resized: BTreeMap::new(),
            evicted: BTreeMap::new(),
            has_second_process: false,
            judged: 0,
        };
        let process = Process { number: 0, is_recorded: seed.is_multiple_of(RECORDED_EVERY), has_separate_zones };
        Self::with(process, cloud, Rc::default(), Rc::new(RefCell::new(ledger)))
    }

    /// A second process over the same cloud starts.
    pub(super) fn beside(&self) -> Self {
        self.ledger.borrow_mut().has_second_process = true;
        let process = Process { number: self.process.number + 1, ..self.process };
        Self::with(process, Arc::clone(&self.cloud), Rc::clone(&self.crashes), Rc::clone(&self.ledger))
    }

    fn with(
        process: Process,
        cloud: Arc<Simulated>,
        crashes: Rc<RefCell<Vec<Duration>>>,
        ledger: Rc<RefCell<Ledger>>,
    ) -> Self {
        let (fleet, connection, seen) = process.start(&cloud);
        let is_retired = Cell::new(false);
        Self { process, cloud, fleet, connection, seen: vec![seen], crashes, is_retired, ledger }
    }

    /// Crashes the process.
    pub(super) fn crash(&self) {
        let _already_cut = self.connection.send(true);
        self.lost_state();
    }

    /// Crashes the process and starts another one.
    pub(super) fn restart(&mut self) {
        self.crash();
        let seen;
        (self.fleet, self.connection, seen) = self.process.start(&self.cloud);
        self.seen.push(seen);
    }

    /// Its caller makes no new calls. Calls that it is about to make are not sent.
    pub(super) fn retire(&self) {
        self.is_retired.set(true);
    }

    /// Its caller makes calls again.
    pub(super) fn resume(&self) {
        self.is_retired.set(false);
    }

    /// Has the process do something. A caller that has retired never gets so far.
    pub(super) async fn mutate(&self, group: &str, mutation: Mutation, deadline: Deadline) -> Result<(), FleetError> {
        if self.is_retired.get() {
            return pending().await;
        }
        self.fleet.mutate(group, mutation, deadline).await
    }

    /// Records that growth was requested, regardless of the outcome.
    pub(super) fn note_growth(&self, group: &str, delta: u32) {
        *self.ledger.borrow_mut().requested.entry(whole(group).to_owned()).or_default() += delta;
    }

    /// Records that the caller takes back instances that have not arrived.
    pub(super) fn note_taken_back(&self, group: &str) {
        self.ledger.borrow_mut().taken_back.insert(whole(group).to_owned(), self.cloud.elapsed());
    }

    /// Whether a call that takes back instances of this group may be under way, or has ended since the last look. Those
    /// that did arrive may not have been listed.
    pub(super) fn takes_back(&self, group: &str) -> bool {
        let since = self.cloud.elapsed().saturating_sub(CALL_MAX + LOOK_EVERY);
        self.ledger.borrow().taken_back.get(whole(group)).is_some_and(|at| *at >= since)
    }

    /// Has the cloud launch instances of its own.
    pub(super) fn launch_surplus(&self, group: &str, number: u32, lasts: Duration) {
        if self.cloud.launch_surplus(group, number, lasts).is_ok() {
            self.ledger.borrow_mut().surpluses.insert(group.to_owned());
        }
    }

    /// Evicts up to as many instances.
    pub(super) fn evict(&self, group: &str, number: usize) {
        if let Ok(evicted) = self.cloud.evict(group, number) {
            *self.ledger.borrow_mut().evicted.entry(group.to_owned()).or_default() += evicted.len();
        }
    }

    /// Has another client set the capacity of a group.
    pub(super) fn resize(&self, group: &str, to: u32) {
        if self.cloud.set_desired_externally(group, to).is_ok() {
            let at = self.cloud.elapsed();
            self.ledger.borrow_mut().resized.entry(group.to_owned()).or_default().push((at, to));
        }
    }

    /// Whether the cloud has launched instances of its own in this group.
    pub(super) fn has_had_surplus(&self, group: &str) -> bool {
        self.ledger.borrow().surpluses.contains(whole(group))
    }

    /// Records that the state of a group, or of all groups, was lost.
    pub(super) fn lost_state(&self) {
        self.crashes.borrow_mut().push(self.cloud.elapsed());
    }

    /// Whether this is not the first process.
    pub(super) fn has_crashed(&self) -> bool {
        !self.crashes.borrow().is_empty()
    }

    /// Whether the process before this one crashed a moment ago.
    pub(super) fn has_just_crashed(&self) -> bool {
        let now = self.cloud.elapsed();
        self.crashes.borrow().iter().any(|crash| now <= *crash + laws::AFTER_CRASH)
    }

    /// Waits until the process is ready.
    pub(super) async fn wait_ready(&self, limit: Duration) -> Result<(), Violation> {
        let ready = self.fleet.wait_ready(Instant::now() + limit).await;
        ready.map_err(|error| Violation::of("law 8", format!("never ready: {error}")))
    }

    /// How many times the process that runs asked for the deletion of this instance.
    pub(super) fn deletions(&self, id: &ProviderId) -> usize {
        self.seen.last().map_or(0, |seen| seen.deletions(id))
    }

    /// Whether the process that runs, or one that crashed in its place, sent this write.
    pub(super) fn has_sent(&self, call: &Call) -> bool {
        let group = call.group.as_deref().unwrap_or_default();
        self.seen.iter().any(|seen| seen.has_sent(group, &call.detail))
    }

    /// The writes of the process that runs.
    pub(super) fn written(&self) -> u64 {
        self.seen.last().map_or(0, |seen| seen.written())
    }

    /// Checks that the process that runs makes the same decisions again.
    pub(super) fn check_recordings(&self) -> Result<(), Violation> {
        let text = self.fleet.recordings(None).unwrap_or_default();
        let recording = Recording::parse(text.as_bytes()).map_err(|error| Violation::of("recording", error))?;
        let steps = recording.replay().flat_map(|stretch| stretch.steps);
        let other = steps.into_iter().find(|step| step.outcome != Outcome::Same);
        other.map_or(Ok(()), |step| Err(Violation::of("recording", format!("{step:#?}"))))
    }

    /// Prints all events, calls and crashes.
    pub(super) fn print_log(&self) {
        self.cloud.world(|world, _| world.events().for_each(|event| println!("{:?} {event}", event.at)));
        self.cloud.calls().iter().for_each(|call| println!("{call:?}"));
        self.crashes.borrow().iter().for_each(|crash| println!("{crash:?} a process crashed or lost a group's state"));
    }
}

impl Process {
    fn start(self, cloud: &Arc<Simulated>) -> (Arc<Fleet>, watch::Sender<bool>, Arc<Seen>) {
        let (connection, cutter) = Connection::to(cloud);
        let (witness, seen) = Witness::of(Arc::new(connection));
        let zones = self.has_separate_zones.then_some(ZonePolicy::Separate);
        let fleet = Fleet::start(Settings {
            sources: vec![(Arc::from("sim"), Arc::new(witness) as SharedCloud)],
            cadence: Cadence::new(Duration::from_secs(10), None),
            catalog: Arc::new(Catalog::new(Vec::new())),
            // Groups that cannot be grown by launches are not.
            policies: Arc::new(Policies(vec![Policy { grows_by: Some(GrowsBy::Launch), zones, ..Policy::of_all() }])),
            read_only: false,
        });
        if !self.is_recorded {
            fleet.stop_recording();
        }
        (Arc::new(fleet), cutter, seen)
    }
}

/// The cloud's group that a node group is, or is a zone of.
pub(super) fn whole(node_group: &str) -> &str {
    node_group.split_once('/').map_or(node_group, |(group, _)| group)
}

/// The zone that a node group is.
pub(super) fn zone(node_group: &str) -> Option<&str> {
    node_group.split_once('/').map(|(_, zone)| zone)
}
