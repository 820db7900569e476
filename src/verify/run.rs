//! One run: the stages, until they are done or something stops them, and then the size that was found.

use super::clock::Clock;
use super::probe::Probe;
use super::report::{FORMAT, Report, Step, second};
use super::restoration::{Restoration, left, restore};
use super::stages;
use super::state::{Found, State};
use super::subject::{Subject, seconds};
use super::verdict::{Finding, Verdict};
use super::watch::Watch;
use crate::cloud::{CapacityIs, GroupReading, ResponseLog, VerifiableCloud};

/// What a run needs.
pub struct Setup<'a> {
    /// The cloud.
    pub cloud: &'a dyn VerifiableCloud,
    /// Where the cloud's responses are kept, as evidence.
    pub responses: ResponseLog,
    /// The time.
    pub clock: &'a dyn Clock,
    /// The group as it was read before.
    pub reading: GroupReading,
    /// The size to restore: what was found, by this run or by one that was killed.
    pub found: Found,
    /// Whether a run was killed before this one.
    pub is_continued: bool,
    /// The most instances at a time.
    pub instances_max: u32,
    /// What the configuration says about the capacity.
    pub declared: Option<CapacityIs>,
    /// Where to keep what was found.
    pub state: State,
}

/// What a run has come to.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub report: Report,
    /// What is left to do by hand, if the size could not be restored.
    pub left: Option<String>,
}

/// Runs all stages unless `stop` ends first, and restores the size that was found either way.
pub async fn run(setup: Setup<'_>, watch: &mut dyn Watch, stop: impl Future<Output = ()>) -> Outcome {
    let Setup { cloud, responses, clock, mut reading, found, is_continued, instances_max, declared, state } = setup;
    // Those of the choice.
    drop(responses.take());
    let began = second(cloud.now());
    reading.consistency.capacity_is = declared.unwrap_or(reading.consistency.capacity_is);
    let model = reading.consistency;
    let restoration = match is_continued {
        true => Restoration::continued(found, state, clock.now()),
        false => Restoration::new(found, state),
    };
    let mut subject = Subject::new((cloud, responses), clock, watch, restoration, instances_max, declared);
    let mut steps = Vec::new();
    let is_stopped = tokio::select! {
        biased;
        () = stop => true,
        () = stages::all(&mut subject, model, &mut steps) => false,
    };
    let ended = clock.now();
    let restored = restore(&mut subject).await;
    steps.push(Step { stage: "restoring".to_owned(), seconds: seconds(clock.now().saturating_sub(ended)) });
    let left = restored.err().map(|trouble| left(&subject, &trouble));
    let report = Report {
        format: FORMAT,
        headcount: env!("CARGO_PKG_VERSION").to_owned(),
        began,
        kind: cloud.kind_of(&reading),
        region: cloud.market().region,
        assumed: model,
        size: subject.size(),
        is_stopped,
        is_restored: left.is_none(),
        findings: complete(subject.findings, |probe| {
            let why = probe.unprobed().unwrap_or("the run ended before it");
            Finding::new(probe, model, Verdict::NotProbed, why)
        }),
        behavior: subject.behavior,
        steps,
        evidence: subject.evidence.into_observations(),
    };
    Outcome { report, left }
}

/// One finding for each probe, in the order of the table.
fn complete(mut findings: Vec<Finding>, missing: impl Fn(Probe) -> Finding) -> Vec<Finding> {
    let one = |probe: Probe| {
        let at = findings.iter().position(|finding| finding.probe == probe);
        at.map_or_else(|| missing(probe), |at| findings.remove(at))
    };
    Probe::ALL.into_iter().map(one).collect()
}
