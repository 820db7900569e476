//! A run that is stopped, fails or is killed leaves the group as it found it, or the next one does.

use std::sync::atomic::Ordering;

use tokio::sync::Notify;

use super::odd::{Odd, Oddity};
use super::*;
use crate::clouds::simulated::CallFault;

/// Where runs are stopped: at each of the first calls, then at every few ones.
fn points(calls: usize) -> impl Iterator<Item = usize> {
    (1..calls).filter(|at| *at < 30 || at % 7 == 0)
}

async fn calls_of(plan: GroupPlan) -> usize {
    let bench = Bench::of(plan);
    let mut witness = Witness::default();
    bench.run(&*bench.simulated, &mut witness).await;
    witness.calls
}

#[tokio::test(start_paused = true)]
async fn stopped_at_any_call_it_restores_the_size() {
    for plan in [aws(), scale_set()] {
        for at in points(calls_of(plan.clone()).await) {
            let bench = Bench::of(plan.clone());
            let mut witness = Witness { stop: Some((at, Arc::default())), ..Witness::default() };
            let outcome = bench.run(&*bench.simulated, &mut witness).await;
            bench.assert_restored(&outcome, &witness);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_at_any_call_is_survived() {
    for plan in [aws(), scale_set()] {
        for at in points(calls_of(plan.clone()).await) {
            let bench = Bench::of(plan.clone());
            let simulated = Arc::clone(&bench.simulated);
            let mut calls = 0;
            let lose = Box::new(move |line: &str| {
                calls += usize::from(line.contains(" → "));
                if calls == at {
                    calls += 1;
                    simulated.faults(|faults| {
                        faults.script(None, None, 2, CallFault::LostResponse);
                        faults.script(None, None, 3, CallFault::Unreachable);
                    });
                }
            });
            let mut witness = Witness { react: Some(lose), ..Witness::default() };
            let outcome = bench.run(&*bench.simulated, &mut witness).await;
            bench.assert_restored(&outcome, &witness);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_it_is_cleaned_up_by_the_next_run() {
    for plan in [aws(), scale_set()] {
        for at in points(calls_of(plan.clone()).await) {
            let bench = Bench::of(plan.clone());
            let killed = Arc::new(Notify::new());
            let (mut calls, kill) = (0, Arc::clone(&killed));
            let count = Box::new(move |line: &str| {
                calls += usize::from(line.contains(" → "));
                if calls == at {
                    kill.notify_one();
                }
            });
            let mut witness = Witness { react: Some(count), ..Witness::default() };
            tokio::select! {
                biased;
                () = killed.notified() => {}
                _ = bench.run(&*bench.simulated, &mut witness) => {}
            }
            let mut witness = Witness::default();
            let outcome = bench.run(&*bench.simulated, &mut witness).await;
            bench.assert_restored(&outcome, &witness);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_takes_effect_after_the_stop_is_undone() {
    let bench = Bench::of(aws());
    let cloud = Arc::new(Odd::new(&bench.simulated, Oddity::Late(Duration::from_secs(40))));
    let (odd, stop) = (Arc::clone(&cloud), Arc::new(Notify::new()));
    let stopping = Arc::clone(&stop);
    let react = Box::new(move |line: &str| {
        if line.starts_with("stage: a write without") {
            odd.is_armed.store(true, Ordering::Relaxed);
        } else if line.ends_with("abandoned") {
            stopping.notify_one();
        }
    });
    let mut witness = Witness { react: Some(react), stop: Some((usize::MAX, stop)), ..Witness::default() };
    let outcome = bench.run(&*cloud, &mut witness).await;
    assert!(outcome.report.is_stopped);
    tokio::time::sleep(Duration::from_secs(120)).await;
    bench.assert_restored(&outcome, &witness);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_killed_run_that_takes_effect_later_is_undone() {
    let bench = Bench::of(aws());
    let cloud = Arc::new(Odd::new(&bench.simulated, Oddity::Late(HISTORY + Duration::from_secs(40))));
    let (odd, killed) = (Arc::clone(&cloud), Arc::new(Notify::new()));
    let kill = Arc::clone(&killed);
    let react = Box::new(move |line: &str| {
        if line.starts_with("stage: a write without") {
            odd.is_armed.store(true, Ordering::Relaxed);
        } else if line.ends_with("abandoned") {
            kill.notify_one();
        }
    });
    let mut witness = Witness { react: Some(react), ..Witness::default() };
    tokio::select! {
        biased;
        () = killed.notified() => {}
        _ = bench.run(&*cloud, &mut witness) => panic!("it was not killed"),
    }
    let mut witness = Witness { stop: Some((1, Arc::default())), ..Witness::default() };
    let outcome = bench.run(&*cloud, &mut witness).await;
    assert!(outcome.report.is_stopped);
    tokio::time::sleep(Duration::from_secs(120)).await;
    bench.assert_restored(&outcome, &witness);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_restored_is_said_and_kept() {
    let bench = Bench::of(aws());
    let simulated = Arc::clone(&bench.simulated);
    let cut = Box::new(move |line: &str| {
        if line == "stage: a deletion" {
            simulated.set_reachable(false);
        }
    });
    let mut witness = Witness { react: Some(cut), ..Witness::default() };
    let outcome = bench.run(&*bench.simulated, &mut witness).await;
    let left = outcome.left.expect("something is left");
    assert!(left.contains("set the capacity of quokka to 1"), "{left}");
    assert!(left.contains("i-"), "it names the instance that the probes launched: {left}");
    assert!(!outcome.report.is_restored);
    bench.simulated.set_reachable(true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut witness = Witness::default();
    let outcome = bench.run(&*bench.simulated, &mut witness).await;
    bench.assert_restored(&outcome, &witness);
}
