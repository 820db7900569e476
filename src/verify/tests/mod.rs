//! The whole run over the simulated cloud, on a paused clock: as assumed, and with one thing otherwise.

mod lists;
mod odd;
mod stops;
mod verdicts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::cloud::{CapacityIs, GroupName, GroupReading, ResponseLog, VerifiableCloud};
use crate::clouds::simulated::{Accounting, Group, GroupPlan, Simulated, Sizing};

/// A name that nothing else contains.
const GROUP: &str = "quokka";
/// The size of the group at the beginning.
const SIZE: u32 = 1;
/// How much older than the run the group is, and how far its readings are kept.
const HISTORY: Duration = Duration::from_secs(90);

pub(super) fn aws() -> GroupPlan {
    GroupPlan::aws(GROUP).sized(0, 10, SIZE).set_aside()
}

fn azure(accounting: Accounting, sizing: Sizing) -> GroupPlan {
    GroupPlan::azure(GROUP).sized(0, 10, SIZE).accounting(accounting).sizing(sizing).set_aside()
}

/// A scale set as most are said to be.
pub(super) fn scale_set() -> GroupPlan {
    azure(Accounting::WhenGone, Sizing::Nominal)
}

/// What a read of such a group returns.
pub(super) fn reading(plan: GroupPlan) -> GroupReading {
    let simulated = Simulated::with_groups(7, [plan]);
    simulated.world(|world, _| world.group(GROUP).map(Group::reading)).expect("the group")
}

/// What a test does when something happens.
type React = Box<dyn FnMut(&str) + Send>;

/// What a test does when something happens, and what happened.
#[derive(Default)]
struct Witness {
    lines: Vec<String>,
    calls: usize,
    /// The number of each stage, how many there are, and the time left.
    progress: Vec<(usize, usize, Duration)>,
    /// Called with each line.
    react: Option<React>,
    /// Ends the run after this many calls.
    stop: Option<(usize, Arc<tokio::sync::Notify>)>,
}

impl Watch for Witness {
    fn happened(&mut self, event: Event<'_>) {
        let line = match event {
            Event::Began { stage, number, of, left } => {
                self.progress.push((number, of, left));
                format!("stage: {stage}")
            }
            Event::Called(seen) => {
                self.calls += 1;
                if let Some((after, stop)) = &self.stop
                    && *after == self.calls
                {
                    stop.notify_one();
                }
                format!("{:>7.1} {} → {}", seen.at, seen.call, seen.response)
            }
            Event::Found(finding) => format!("{}: {} ({})", finding.probe.name(), finding.verdict, finding.seen),
            Event::Ended { stage, why } => format!("{stage} ended: {why}"),
            Event::Restoring(size) => format!("restoring {size}"),
        };
        if let Some(react) = &mut self.react {
            react(&line);
        }
        self.lines.push(line);
    }
}

/// A cloud with the group, a run and the folder of its state.
struct Bench {
    simulated: Arc<Simulated>,
    folder: TempDir,
    declared: Option<CapacityIs>,
}

impl Bench {
    fn of(plan: GroupPlan) -> Self {
        let simulated = Arc::new(Simulated::with_groups(7, [plan]));
        simulated.faults(|faults| {
            faults.rates.latency = Duration::from_millis(40)..=Duration::from_millis(60);
        });
        simulated.world(|world, now| world.keep_past_readings(now, HISTORY));
        Self { simulated, folder: tempfile::tempdir().expect("a folder"), declared: None }
    }

    fn state_file(&self) -> PathBuf {
        self.folder.path().join("state.yaml")
    }

    fn state(&self) -> State {
        State::at(self.state_file())
    }

    /// Runs to the end, or until the witness stops it.
    async fn run(&self, cloud: &dyn VerifiableCloud, witness: &mut Witness) -> Outcome {
        tokio::time::sleep(HISTORY).await;
        let reading = cloud.observe(&GroupName(GROUP.into())).await.expect("read").expect("a group");
        let left = self.state().left().expect("readable").map(|(found, _)| found);
        let found = left.clone().unwrap_or_else(|| {
            plan(&reading, Bounds { instances_max: INSTANCES_MAX_DEFAULT }).expect("eligible").found
        });
        let setup = Setup {
            cloud,
            responses: ResponseLog::default(),
            clock: &TokioClock::default(),
            reading,
            found,
            is_continued: left.is_some(),
            instances_max: INSTANCES_MAX_DEFAULT,
            declared: self.declared,
            state: self.state(),
        };
        let stop = witness.stop.as_ref().map(|(_, stop)| Arc::clone(stop));
        let stop = async move {
            match stop {
                Some(stop) => stop.notified().await,
                None => std::future::pending().await,
            }
        };
        run(setup, witness, stop).await
    }

    /// The group has the size that was found, and nothing is left.
    fn assert_restored(&self, outcome: &Outcome, witness: &Witness) {
        let log = witness.lines.join("\n");
        assert_eq!(outcome.left, None, "{log}");
        let (capacity, live) = self.simulated.world(|world, _| {
            let group = world.group(GROUP).expect("the group");
            (group.capacity(), group.live())
        });
        assert_eq!((capacity, live), (SIZE, SIZE), "capacity and live instances\n{log}");
        assert!(!self.state_file().exists(), "the file is gone");
    }
}

fn finding(report: &Report, probe: Probe) -> &Finding {
    report.findings.iter().find(|finding| finding.probe == probe).expect("one for each")
}
