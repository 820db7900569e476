//! The laws under many schedules: the real fleet over the simulated cloud, on a paused clock, where one seed decides
//! everything that happens. The caller behaves like a careless Cluster Autoscaler, the cloud has every fault that the
//! simulated one can have, processes crash at any await point, and the laws are checked after each step.
//!
//! `HEADCOUNT_SEEDS=0..100000 cargo test --profile simulation --no-default-features --test integration simulation` runs
//! many. A seed that breaks a law is reduced and printed with the command that replays it; with `HEADCOUNT_LOG=1` that
//! command prints the events.

mod autoscaler;
mod connection;
mod faults;
mod oracle;
mod schedule;
mod shown;
mod two_fleets;
mod witness;
mod world;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use headcount::verify::Report;

use crate::verify::reports;
use schedule::{Processes, Schedule};

/// The seeds that run by default: all of it takes less than 10 s on two cores. CI runs many more of them.
const SEEDS: Range<u64> = 0..50;
/// The same with two processes.
const SEEDS_OF_TWO: Range<u64> = 0..25;
/// The same with groups that are served by zones.
const SEEDS_BY_ZONES: Range<u64> = 76..96;
/// The same with two processes.
const SEEDS_OF_TWO_BY_ZONES: Range<u64> = 0..10;
/// The seeds of each report's world.
const SEEDS_OF_WORLD: Range<u64> = 0..3;
/// The number of violations after which no more seeds are started.
const ENOUGH: usize = 20;

/// A violated law.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Violation(String);

impl Violation {
    fn of(law: &str, what: impl std::fmt::Display) -> Self {
        Self(format!("{law}: {what}"))
    }

    /// Whether it is this law that is violated.
    fn is_of(&self, law: &str) -> bool {
        self.0.split_once(':').is_some_and(|(violated, _)| violated == law)
    }
}

/// Whether events are printed.
fn is_verbose() -> bool {
    std::env::var_os("HEADCOUNT_LOG").is_some()
}

fn seeds(default: Range<u64>) -> Range<u64> {
    let asked = std::env::var("HEADCOUNT_SEEDS").ok();
    let Some(asked) = asked else { return default };
    let range = asked.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or_else(|| panic!("HEADCOUNT_SEEDS={asked} is not FROM..TO"))
}

/// Runs the seeds on all processors; returns those that break a law.
fn violations(seeds: &Range<u64>, schedule: impl Fn(u64) -> Schedule + Sync) -> Vec<(Schedule, Violation)> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(Vec::new());
    let worker = || {
        while found.lock().expect("no worker panics").len() < ENOUGH {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let schedule = schedule(seed);
            if let Err(violation) = schedule.run() {
                found.lock().expect("no worker panics").push((schedule, violation));
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    found.into_inner().expect("no worker panics")
}

/// Runs the seeds, and fails with those that break a law.
fn check(seeds: &Range<u64>, what: &str, schedule: impl Fn(u64) -> Schedule + Sync) {
    if is_verbose() {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).without_time().with_ansi(false);
        let _other_test_writes_it = log.try_init();
    }
    let began = Instant::now();
    let mut violations = violations(seeds, schedule);
    violations.sort_by_key(|(schedule, _)| schedule.seed);
    let report: Vec<String> = violations
        .into_iter()
        .map(|(schedule, violation)| {
            // The events are printed once, and not for every attempt to reduce the schedule.
            let (schedule, violation) = if is_verbose() { (schedule, violation) } else { schedule.shrunk(violation) };
            format!("seed {}: {}\n    {schedule}", schedule.seed, violation.0)
        })
        .collect();
    let number = seeds.end.saturating_sub(seeds.start);
    println!("{number} seeds with {what} in {} s", began.elapsed().as_secs());
    assert!(report.is_empty(), "{} schedules break a law:\n{}", report.len(), report.join("\n"));
}

#[test]
fn the_laws_hold_under_every_schedule() {
    check(&seeds(SEEDS), "one process", |seed| Schedule::from_environment(seed, Processes::One));
}

#[test]
fn two_fleets_hold_the_laws_through_every_handover() {
    check(&seeds(SEEDS_OF_TWO), "two processes", |seed| Schedule::from_environment(seed, Processes::Two));
}

#[test]
fn the_laws_hold_for_groups_that_are_served_by_zones() {
    check(&seeds(SEEDS_BY_ZONES), "one process and separate zones", |seed| {
        Schedule::from_environment(seed, Processes::One).by_zones()
    });
}

#[test]
fn two_fleets_hold_the_laws_for_groups_that_are_served_by_zones() {
    check(&seeds(SEEDS_OF_TWO_BY_ZONES), "two processes and separate zones", |seed| {
        Schedule::from_environment(seed, Processes::Two).by_zones()
    });
}

/// HEADCOUNT_WORLD=REPORT runs in the world of that report alone.
#[test]
fn the_laws_hold_in_the_world_of_each_report() {
    let range = seeds(SEEDS_OF_WORLD);
    let worlds = match std::env::var("HEADCOUNT_WORLD") {
        Ok(path) => {
            let report = Report::read(path.as_ref()).unwrap_or_else(|error| panic!("{path}: {error}"));
            vec![(path, report)]
        }
        Err(_) => reports::all(),
    };
    for world in worlds.into_iter().map(Arc::new) {
        let schedule = |seed| Schedule::from_environment(seed, Processes::One).in_world(&world);
        check(&range, &world.0, schedule);
    }
}
