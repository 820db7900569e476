//! One run: the stages, until they are done or something stops them, and then the size that was found.

use std::time::Duration;

use super::clock::Clock;
use super::limits::{LATE_WATCH, SETTLE_LIMIT};
use super::probe::Probe;
use super::report::{FORMAT, Report, Step, day};
use super::stages;
use super::state::{Found, State};
use super::subject::{Event, Subject, Trouble, Watch, seconds};
use super::verdict::{Finding, Verdict};
use crate::cloud::{CapacityIs, GroupReading, VerifiableCloud};
use crate::group::SETTLE;

/// What a run needs.
pub struct Setup<'a> {
    /// The cloud.
    pub cloud: &'a dyn VerifiableCloud,
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
    let Setup { cloud, clock, mut reading, found, is_continued, instances_max, declared, state } = setup;
    let date = day(cloud.now());
    reading.consistency.capacity_is = declared.unwrap_or(reading.consistency.capacity_is);
    let model = reading.consistency;
    let mut subject = Subject::new(cloud, clock, watch, found, instances_max, declared, state);
    if is_continued {
        // The last write of the run that was killed may still take effect.
        (subject.written, subject.unanswered) = (Some(clock.now()), Some(clock.now()));
    }
    let mut steps = Vec::new();
    let is_stopped = tokio::select! {
        biased;
        () = stop => true,
        () = stages::all(&mut subject, model, &mut steps) => false,
    };
    let began = clock.now();
    let restored = restore(&mut subject).await;
    steps.push(Step { stage: "restoring".to_owned(), seconds: seconds(clock.now().saturating_sub(began)) });
    let left = restored.err().map(|trouble| left(&subject, &trouble));
    let report = Report {
        format: FORMAT,
        headcount: env!("CARGO_PKG_VERSION").to_owned(),
        date,
        kind: cloud.kind_of(&reading),
        region: cloud.market().region,
        assumed: model,
        size: subject.found.size,
        is_stopped,
        is_restored: left.is_none(),
        findings: complete(subject.findings, |probe| {
            let why = probe.unprobed().unwrap_or("the run ended before it");
            Finding::new(probe, model, Verdict::NotProbed, why)
        }),
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

/// Brings the group to the size that was found, and waits until nothing that was sent can change it any more.
async fn restore(subject: &mut Subject<'_>) -> Result<(), Trouble> {
    if subject.written.is_none() {
        return Ok(());
    }
    subject.watch.see(Event::Restoring(subject.found.size));
    let until = subject.clock.now() + SETTLE_LIMIT;
    loop {
        match subject.bring_to(0).await {
            Ok(_) => {}
            Err(Trouble::Cloud(error)) if error.may_pass() && subject.clock.now() < until => continue,
            Err(trouble) => return Err(trouble),
        }
        let shown = subject.written.map(|at| at + SETTLE);
        let late = subject.unanswered.map(|at| at + LATE_WATCH);
        let certain = shown.max(late).unwrap_or_default();
        let wait = certain.saturating_sub(subject.clock.now());
        if wait == Duration::ZERO {
            break;
        }
        subject.clock.sleep(wait).await;
    }
    Ok(subject.forget()?)
}

/// What is left to do by hand.
fn left(subject: &Subject<'_>, trouble: &Trouble) -> String {
    let size = subject.found.size;
    let own = subject.last.as_ref().map(|reading| subject.own(reading)).unwrap_or_default();
    let names: Vec<&str> = own.iter().map(|id| id.instance()).collect();
    let instances = if names.is_empty() {
        String::new()
    } else {
        format!(", once these instances, which the probes launched, are deleted: {}", names.join(", "))
    };
    format!(
        "the group may not have its size again: {trouble}. Run the same command again, which first restores it, or set the \
         capacity of {} to {size}{instances}",
        subject.found.group
    )
}
