//! The cloud, the process that manages it, and the laws that both are checked against.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{ProviderId, SharedCloud};
use headcount::clouds::simulated::{Call, CallFault, CallKind, Faults, Simulated};
use headcount::fleet::{Cadence, Deadline, Fleet, FleetError, Mutation, Policies, Settings};
use headcount::instance_types::Catalog;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Violation;
use super::connection::Connection;
use super::witness::{Seen, Witness};

/// How long everything may take to settle, in simulated time.
const SETTLE_LIMIT: Duration = Duration::from_secs(40 * 60);
/// How long after a crash a write of the crashed process may still cost instances: an Auto Scaling group tolerates a surplus
/// for some twenty seconds, so a process that crashes before it raises the capacity back may leave the next one too little
/// time. Headcount cannot prevent that; see `docs/simulation.md`.
const AFTER_CRASH: Duration = Duration::from_secs(45);
/// How long an Auto Scaling group tolerates a surplus, and how long a call about it may take.
const SURPLUS_TOLERATED: Duration = Duration::from_secs(25);

/// How close together two processes name the same instance that cannot know of each other's deletion: the read before it and the
/// write itself take up to 1.5 s each.
const SAME_TIME: Duration = Duration::from_secs(3);

/// How long a deletion may count before a read settles it: 10 s until its client gives up, 30 s in which reads may lag, and
/// the reads themselves.
const UNSETTLED: Duration = Duration::from_secs(75);

/// The longest that a call of the caller's takes.
const CALL_MAX: Duration = Duration::from_secs(5);

/// What was asked for in each group, and what the cloud did there by itself.
struct Ledger {
    /// The most that each group may have: its capacity at the start, and all growth that was requested since.
    requested: BTreeMap<String, u32>,
    /// The groups in which the cloud launched instances of its own.
    surpluses: BTreeSet<String>,
    /// When the caller last took back instances that had not arrived, by group.
    taken_back: BTreeMap<String, Duration>,
}

/// A fleet over a simulated cloud.
pub(super) struct World {
    /// 0, or 1 for the second process over the same cloud.
    pub(super) number: u8,
    pub(super) cloud: Arc<Simulated>,
    pub(super) fleet: Arc<Fleet>,
    connection: watch::Sender<bool>,
    /// What this process, and those that crashed in its place, asked of the cloud.
    seen: Vec<Arc<Seen>>,
    /// When processes crashed, or a group was hidden from them and they dropped its state, since the beginning of the world.
    crashes: Rc<RefCell<Vec<Duration>>>,
    /// Whether its caller makes no new calls.
    is_retired: Cell<bool>,
    /// What all processes were asked for, and what the cloud did by itself.
    ledger: Rc<RefCell<Ledger>>,
}

impl World {
    /// The first process starts.
    pub(super) fn start(cloud: Arc<Simulated>) -> Self {
        let capacities = cloud.world(|world, _| {
            world.groups().map(|group| (group.name().to_owned(), group.capacity())).collect::<BTreeMap<_, _>>()
        });
        let ledger = Ledger { requested: capacities, surpluses: BTreeSet::new(), taken_back: BTreeMap::new() };
        Self::with(0, cloud, Rc::default(), Rc::new(RefCell::new(ledger)))
    }

    /// A second process over the same cloud starts.
    pub(super) fn beside(&self) -> Self {
        Self::with(self.number + 1, Arc::clone(&self.cloud), Rc::clone(&self.crashes), Rc::clone(&self.ledger))
    }

    fn with(
        number: u8,
        cloud: Arc<Simulated>,
        crashes: Rc<RefCell<Vec<Duration>>>,
        ledger: Rc<RefCell<Ledger>>,
    ) -> Self {
        let (fleet, connection, seen) = process(&cloud);
        Self { number, cloud, fleet, connection, seen: vec![seen], crashes, is_retired: Cell::new(false), ledger }
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
        (self.fleet, self.connection, seen) = process(&self.cloud);
        self.seen.push(seen);
    }

    /// Its caller makes no new calls, and those that it makes are no more than begun.
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

    /// Records that growth was requested, whatever comes of it.
    pub(super) fn note_growth(&self, group: &str, delta: u32) {
        *self.ledger.borrow_mut().requested.entry(group.to_owned()).or_default() += delta;
    }

    /// Records that the caller takes back instances that have not arrived.
    pub(super) fn note_taken_back(&self, group: &str) {
        self.ledger.borrow_mut().taken_back.insert(group.to_owned(), self.cloud.elapsed());
    }

    /// Whether a call that takes back instances of this group may be under way. Those that did arrive may not have been listed.
    pub(super) fn takes_back(&self, group: &str) -> bool {
        let since = self.cloud.elapsed().saturating_sub(CALL_MAX);
        self.ledger.borrow().taken_back.get(group).is_some_and(|at| *at >= since)
    }

    /// Has the cloud launch instances of its own.
    pub(super) fn launch_surplus(&self, group: &str, number: u32, lasts: Duration) {
        if self.cloud.launch_surplus(group, number, lasts).is_ok() {
            self.ledger.borrow_mut().surpluses.insert(group.to_owned());
        }
    }

    /// Whether the cloud has launched instances of its own in this group.
    pub(super) fn has_had_surplus(&self, group: &str) -> bool {
        self.ledger.borrow().surpluses.contains(group)
    }

    /// Whether all that the capacity has room for may just have been deleted: a deletion got no response (what it named counts
    /// as being deleted, law 7), or the cloud has a surplus of its own, and only the next read shows what a deletion took.
    pub(super) fn has_unsettled_deletion(&self, group: &str) -> bool {
        let (has_surplus, since) = (self.has_had_surplus(group), self.cloud.elapsed().saturating_sub(UNSETTLED));
        self.cloud.faults(|faults| {
            faults.calls().any(|call| {
                let is_lost = call.call_fault.as_ref().is_some_and(|fault| !matches!(fault, CallFault::Conflict));
                call.kind == CallKind::DeleteInstances
                    && call.group.as_deref() == Some(group)
                    && (is_lost || has_surplus)
                    && call.at >= since
            })
        })
    }

    /// Law 11: no capacity is above what was requested. Exact only where no other client changes anything, and the cloud launches
    /// nothing by itself; docs/simulation.md says how close it comes otherwise.
    pub(super) fn check_nothing_unrequested(&self) -> Result<(), Violation> {
        let ledger = self.ledger.borrow();
        let above = self.cloud.world(|world, _| {
            let mut groups = world.groups();
            groups.find_map(|group| {
                // Such a write sets its capacity again, over what was deleted in the meantime.
                if self.had_late_write(group.name()) || self.has_had_surplus(group.name()) {
                    return None;
                }
                let most =
                    ledger.requested.get(group.name()).copied().unwrap_or_default().saturating_sub(group.removed());
                (group.capacity() > most.max(group.plan().min)).then(|| {
                    let (name, capacity) = (group.name(), group.capacity());
                    format!("{name} has a capacity of {capacity}, and only {most} were requested")
                })
            })
        });
        above.map_or(Ok(()), |above| Err(Violation::of("law 11", above)))
    }

    /// Whether a write to a group got no response. A termination that begins late is undone by a scale-up that was computed before.
    fn had_late_write(&self, group: &str) -> bool {
        self.cloud.faults(|faults| {
            faults.calls().any(|call| {
                let is_write = matches!(call.kind, CallKind::SetCapacity | CallKind::DeleteInstances);
                let is_lost = call.call_fault.as_ref().is_some_and(|fault| !matches!(fault, CallFault::Conflict));
                is_write && is_lost && call.group.as_deref() == Some(group)
            })
        })
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
            let excused = after_crash(killed.at)
                || self.was_blocked(&killed.group, killed.at)
                || self.was_named_by_both(&killed.group, killed.at)
                || self.was_set_by_both(&killed.group, killed.at);
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

    /// Whether two processes named the same instance at the same time, shortly before. AWS lowers the desired capacity for each
    /// termination of an instance (autoscaler #2930).
    fn was_named_by_both(&self, group: &str, at: Duration) -> bool {
        let is_alone = Rc::strong_count(&self.ledger) == 1;
        if is_alone {
            return false;
        }
        self.cloud.faults(|faults| {
            let is_deletion = |call: &&Call| {
                let is_recent = call.at <= at && at <= call.at + AFTER_CRASH;
                call.kind == CallKind::DeleteInstances && call.group.as_deref() == Some(group) && is_recent
            };
            let deletions: Vec<&Call> = faults.calls().filter(is_deletion).collect();
            deletions.iter().enumerate().any(|(number, first)| {
                let soon = deletions.iter().skip(number + 1).filter(|call| call.at <= first.at + SAME_TIME);
                let names: BTreeSet<&str> = first.detail.split(' ').collect();
                soon.into_iter().any(|call| call.detail.split(' ').any(|name| names.contains(name)))
            })
        })
    }

    /// Whether two processes wrote to a group at the same time, shortly before, and one of them set its capacity. SetDesiredCapacity
    /// has no precondition: it undoes what the other one wrote since the read that it was computed on.
    fn was_set_by_both(&self, group: &str, at: Duration) -> bool {
        self.cloud.faults(|faults| {
            let is_write = |call: &&Call| {
                let is_write = matches!(call.kind, CallKind::SetCapacity | CallKind::DeleteInstances);
                let is_recent = call.at <= at && at <= call.at + AFTER_CRASH;
                is_write && is_recent && call.group.as_deref() == Some(group)
            };
            let (own, others): (Vec<_>, Vec<_>) = faults.calls().filter(is_write).partition(|call| self.has_sent(call));
            let sets =
                |one: &Call, other: &Call| one.kind == CallKind::SetCapacity && one.at.abs_diff(other.at) <= SAME_TIME;
            own.iter().any(|one| others.iter().any(|other| sets(one, other) || sets(other, one)))
        })
    }

    /// Law 2: before each write to a group there is a read of it, later than the write before.
    pub(super) fn check_reads_before_writes(&self) -> Result<(), Violation> {
        self.seen.iter().try_for_each(|seen| seen.check_reads_before_writes())
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

    /// Whether both processes wrote to a group so recently that neither may know what the other one wrote.
    pub(super) fn was_written_by_both(&self, group: &str) -> bool {
        let since = self.cloud.elapsed().saturating_sub(UNSETTLED);
        self.cloud.faults(|faults| {
            let is_recent = |call: &&Call| {
                let is_write = matches!(call.kind, CallKind::SetCapacity | CallKind::DeleteInstances);
                is_write && call.group.as_deref() == Some(group) && call.at >= since
            };
            let (own, others): (Vec<_>, Vec<_>) =
                faults.calls().filter(is_recent).partition(|call| self.has_sent(call));
            !own.is_empty() && !others.is_empty()
        })
    }

    /// The writes of the process that runs.
    pub(super) fn written(&self) -> u64 {
        self.seen.last().map_or(0, |seen| seen.written())
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

fn process(cloud: &Arc<Simulated>) -> (Arc<Fleet>, watch::Sender<bool>, Arc<Seen>) {
    let (connection, cutter) = Connection::to(cloud);
    let (witness, seen) = Witness::of(connection);
    let fleet = Fleet::start(Settings {
        sources: vec![(Arc::from("sim"), Arc::new(witness) as SharedCloud)],
        cadence: Cadence::new(Duration::from_secs(10), None),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
        read_only: false,
    });
    (Arc::new(fleet), cutter, seen)
}
