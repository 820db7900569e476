//! The exhaustive check: the machine that ships, against every order of events in small worlds.
//!
//! `cloud.rs` is a small cloud, `world.rs` the machine in it, `actions.rs` what may happen next, `polls.rs` tells it how
//! operations end, `laws.rs` checks what the machine does and publishes there, and `explore.rs` goes through all
//! choices, breadth first, so that the trace of a violation is a shortest one.

mod actions;
mod cloud;
mod explore;
mod launches;
mod laws;
mod polls;
mod promises;
mod world;

use actions::Budget;
use cloud::{Kind, Raises};
use explore::{Found, search};
use laws::Assume;
use world::Setting;

const NOTHING: Budget = Budget { asks: 0, others: 0, lost: 0, failures: 0, restarts: 0, stale: 0 };
const EVERYTHING: Budget = Budget { asks: 3, others: 2, lost: 1, failures: 1, restarts: 1, stale: 2 };
const NOMINAL: Kind = Kind::ScaleSet { is_nominal: true, is_released: false, is_declared: false };
const ACTUAL: Kind = Kind::ScaleSet { is_nominal: false, is_released: true, is_declared: false };
const DECLARED: Kind = Kind::ScaleSet { is_nominal: false, is_released: false, is_declared: true };

/// The most states of a world that a search goes through as part of the tests.
const SMALL: usize = 3_000;
/// The same with HEADCOUNT_SEARCH=full. A number sets another limit.
const FULL: usize = 200_000;

/// The most states of one of as many worlds that differ in how the documentation is read.
fn limit(readings: usize) -> usize {
    match std::env::var("HEADCOUNT_SEARCH") {
        Ok(text) if text == "full" => FULL / readings,
        Ok(text) => text.parse().expect("a number of states, or full"),
        Err(_) => SMALL,
    }
}

fn holds(setting: Setting) -> Found {
    let readings = if setting.kind.is_launching() { 2 } else { 1 };
    holds_up_to(limit(readings), setting)
}

fn holds_up_to(limit: usize, setting: Setting) -> Found {
    let began = std::time::Instant::now();
    let found = search(setting, limit);
    let Setting { kind, capacity, live, budget, .. } = setting;
    println!(
        "{kind:?}, {live} of {capacity}, {budget:?}: {} states, {} events, {} deep, {}, {:.0?}, assumed {:?}",
        found.states,
        found.events,
        found.depth,
        if found.is_whole { "whole" } else { "cut off" },
        began.elapsed(),
        found.assumed,
    );
    for (assumed, times) in &found.assumed {
        let (name, likelihood, outcome) = assumed.text();
        println!("  assumed {times} times: {name} ({likelihood}): {outcome}");
    }
    if let Some(trace) = &found.broken {
        panic!("{trace}");
    }
    found
}

fn auto_scaling(capacity: u8, live: u8, budget: Budget) -> Setting {
    Setting { kind: Kind::AutoScaling, capacity, live, min: 0, going: 0, budget }
}

/// In both readings of what AWS documents.
fn in_both_readings(kind: fn(Raises) -> Kind, capacity: u8, live: u8, budget: Budget) {
    for raises in [Raises::WithInstances, Raises::Later] {
        holds(Setting { kind: kind(raises), ..auto_scaling(capacity, live, budget) });
    }
}

fn launching(capacity: u8, live: u8, budget: Budget) {
    in_both_readings(Kind::Launching, capacity, live, budget);
}

/// Where each of two zones is served.
fn in_zones(capacity: u8, live: u8, budget: Budget) {
    in_both_readings(Kind::Zoned, capacity, live, budget);
}

fn scale_set(kind: Kind, capacity: u8, live: u8, budget: Budget) -> Setting {
    Setting { kind, capacity, live, min: 0, going: 0, budget }
}

#[test]
fn an_auto_scaling_group_alone() {
    holds(auto_scaling(2, 2, Budget { asks: 2, ..NOTHING }));
}

#[test]
fn an_auto_scaling_group_that_others_change() {
    holds(auto_scaling(2, 2, Budget { asks: 1, others: 1, ..NOTHING }));
}

#[test]
fn an_auto_scaling_group_that_launches_and_others_change() {
    holds(auto_scaling(2, 1, Budget { asks: 1, others: 1, ..NOTHING }));
}

#[test]
fn an_auto_scaling_group_with_reads_that_lag() {
    holds(auto_scaling(2, 2, Budget { asks: 2, stale: 2, ..NOTHING }));
}

#[test]
fn an_auto_scaling_group_with_responses_that_are_lost() {
    holds(auto_scaling(2, 2, Budget { asks: 2, lost: 1, restarts: 1, ..NOTHING }));
}

#[test]
fn an_auto_scaling_group_with_everything() {
    holds(auto_scaling(2, 2, EVERYTHING));
}

#[test]
fn launches_alone() {
    launching(1, 1, Budget { asks: 2, ..NOTHING });
}

#[test]
fn launches_that_fail_in_part() {
    launching(1, 1, Budget { asks: 2, failures: 2, ..NOTHING });
}

#[test]
fn launches_whose_responses_are_lost() {
    launching(1, 1, Budget { asks: 2, lost: 2, ..NOTHING });
}

#[test]
fn launches_that_reads_lag_behind() {
    launching(1, 1, Budget { asks: 2, stale: 2, ..NOTHING });
}

#[test]
fn launches_while_others_change_the_group() {
    launching(2, 2, Budget { asks: 2, others: 2, ..NOTHING });
}

#[test]
fn launches_with_everything() {
    launching(2, 2, EVERYTHING);
}

#[test]
fn zones_alone() {
    in_zones(1, 1, Budget { asks: 2, ..NOTHING });
}

#[test]
fn zones_whose_launches_fail_in_part_and_get_lost() {
    in_zones(1, 1, Budget { asks: 2, failures: 1, lost: 1, ..NOTHING });
}

#[test]
fn zones_that_reads_lag_behind() {
    in_zones(1, 1, Budget { asks: 2, stale: 2, ..NOTHING });
}

#[test]
fn zones_of_a_group_that_others_change() {
    in_zones(2, 2, Budget { asks: 2, others: 2, ..NOTHING });
}

#[test]
fn zones_with_everything() {
    in_zones(2, 2, EVERYTHING);
}

#[test]
fn a_scale_set_alone() {
    holds(scale_set(ACTUAL, 2, 2, Budget { asks: 2, ..NOTHING }));
}

#[test]
fn a_scale_set_whose_deletions_fail() {
    holds(scale_set(ACTUAL, 2, 2, Budget { asks: 3, failures: 2, ..NOTHING }));
}

/// Two of three fail, the third one still runs, and a scale-up comes before a poll tells.
#[test]
fn a_scale_set_whose_deletions_fail_before_a_poll_tells() {
    let budget = Budget { asks: 1, failures: 2, ..NOTHING };
    // Without the polls before a write, the law breaks within 8,000 states.
    holds_up_to(limit(1).max(10_000), Setting { going: 3, ..scale_set(ACTUAL, 4, 4, budget) });
}

/// Those of another client, while ours run.
#[test]
fn a_scale_set_in_which_deletions_by_others_fail() {
    let budget = Budget { asks: 1, others: 2, failures: 2, ..NOTHING };
    holds(Setting { going: 2, ..scale_set(ACTUAL, 4, 4, budget) });
}

/// The next process finds it so.
#[test]
fn a_scale_set_whose_deletions_fail_around_a_restart() {
    let budget = Budget { asks: 1, failures: 2, restarts: 1, ..NOTHING };
    holds(Setting { going: 3, ..scale_set(ACTUAL, 4, 4, budget) });
}

/// Lists lack what was launched before.
#[test]
fn a_scale_set_whose_deletions_fail_while_lists_lag() {
    holds(scale_set(ACTUAL, 2, 2, Budget { asks: 4, failures: 2, stale: 3, ..NOTHING }));
}

#[test]
fn a_scale_set_with_a_nominal_capacity() {
    holds(scale_set(NOMINAL, 3, 2, Budget { asks: 2, others: 1, failures: 1, ..NOTHING }));
}

#[test]
fn a_scale_set_with_a_declared_capacity() {
    holds(scale_set(DECLARED, 3, 2, Budget { asks: 2, others: 1, ..NOTHING }));
}

#[test]
fn a_scale_set_with_a_nominal_capacity_and_everything() {
    holds(scale_set(NOMINAL, 3, 2, EVERYTHING));
}

#[test]
fn a_scale_set_with_an_actual_capacity_and_everything() {
    holds(scale_set(ACTUAL, 2, 2, EVERYTHING));
}

#[test]
fn a_scale_set_at_its_minimum() {
    let budget = Budget { asks: 2, lost: 1, failures: 1, ..NOTHING };
    holds(Setting { min: 2, ..scale_set(ACTUAL, 2, 2, budget) });
    holds(Setting { min: 2, ..scale_set(NOMINAL, 2, 2, budget) });
}

#[test]
fn a_scale_set_whose_minimum_is_its_maximum() {
    let budget = Budget { asks: 2, lost: 1, failures: 1, ..NOTHING };
    holds(Setting { min: 4, ..scale_set(ACTUAL, 4, 4, budget) });
    holds(Setting { min: 4, ..scale_set(NOMINAL, 4, 4, budget) });
}

/// The search notices what it is to notice.
#[test]
fn lowering_a_nominal_capacity_is_found() {
    let kind = Kind::ScaleSet { is_nominal: true, is_released: false, is_declared: true };
    let found = search(scale_set(kind, 3, 2, Budget { asks: 1, ..NOTHING }), SMALL);
    let trace = found.broken.expect("a lower capacity deletes a VM that nobody named");
    assert!(trace.starts_with("law 1: Set { to: 2"), "{trace}");
}

/// The page for users has each thing that no client can rule out, and no other.
#[test]
fn what_is_assumed_is_documented() {
    let page = include_str!("../../../../tests/integration/simulation/README.md");
    let table = page.split("| assumed not to happen |").nth(1).expect("a table");
    let documented: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let rows = Assume::ALL.map(|assumed| {
        let (name, likelihood, outcome) = assumed.text();
        format!("| `{name}` | {likelihood} | {outcome} |")
    });
    assert_eq!(documented, rows);
}
