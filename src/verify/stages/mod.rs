//! The stages of a run. Each brings the group to a size of its own first, so none depends on how the one before ended.

mod allocation;
mod deletion;
mod growth;
mod lateness;
mod launching;
mod operations;
mod surplus;
mod synchronous;
mod vanishing;

use std::time::Duration;

use super::probe::Probe;
use super::report::Step;
use super::subject::{Subject, seconds};
use super::trouble::Trouble;
use super::verdict::Verdict;
use super::watch::Event;
use crate::cloud::{Consistency, OperationHandle};

/// What later stages need of earlier ones.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// How long the first capacity write took.
    write_took: Duration,
    /// The first operation that the cloud returned, and when.
    operation: Option<(OperationHandle, Duration)>,
    /// Whether the cloud did not know an operation that had not ended.
    is_operation_lost: bool,
    /// No instance could be launched, so nothing can be deleted.
    is_without_instances: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Growth,
    Launching,
    Deletion,
    Surplus,
    Vanishing,
    Synchronous,
    Lateness,
    Operations,
}

impl Stage {
    const ALL: [Self; 8] = [
        Self::Growth,
        Self::Launching,
        Self::Deletion,
        Self::Surplus,
        Self::Vanishing,
        Self::Synchronous,
        Self::Lateness,
        Self::Operations,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Growth => "one instance more",
            Self::Launching => "a deletion during a launch",
            Self::Deletion => "a deletion",
            Self::Surplus => "a capacity below the live instances",
            Self::Vanishing => "an instance that vanishes",
            Self::Synchronous => "a launch by a call",
            Self::Lateness => "a write without a response",
            Self::Operations => "operations and budgets",
        }
    }

    /// What it finds.
    fn probes(self, model: Consistency) -> &'static [Probe] {
        match self {
            Self::Growth => &[Probe::ReadLags, Probe::LaunchBegins, Probe::FailedAllocation, Probe::Etag, Probe::Guard],
            Self::Launching => &[Probe::WhileLaunching],
            Self::Deletion => &[Probe::Deletions, Probe::NamedTwice, Probe::Reads],
            Self::Surplus if surplus::applies(model) => {
                &[Probe::TimeToScaleIn, Probe::ScaleInProtection, Probe::CapacityIs]
            }
            Self::Surplus => &[Probe::TimeToScaleIn, Probe::ScaleInProtection],
            Self::Vanishing if surplus::applies(model) => &[Probe::Missing],
            Self::Vanishing => &[Probe::Missing, Probe::CapacityIs],
            Self::Synchronous => &[Probe::GrowsBy],
            Self::Lateness => &[Probe::Late],
            Self::Operations => &[Probe::OperationAddresses, Probe::Writes],
        }
    }

    /// About how long it takes on a real cloud. Nothing depends on it but the time left that is shown.
    fn lasts(self, model: Consistency) -> Duration {
        Duration::from_secs(match self {
            Self::Surplus | Self::Synchronous if !surplus::applies(model) => 0,
            Self::Growth | Self::Deletion => 120,
            Self::Launching | Self::Surplus | Self::Vanishing | Self::Synchronous => 90,
            Self::Lateness => 70,
            Self::Operations => 1,
        })
    }

    fn needs_instances(self) -> bool {
        !matches!(self, Self::Growth | Self::Lateness | Self::Operations)
    }

    async fn run(self, subject: &mut Subject<'_>, model: Consistency, facts: &mut Facts) -> Result<(), Trouble> {
        match self {
            Self::Growth => growth::run(subject, model, facts).await,
            Self::Launching => launching::run(subject, model).await,
            Self::Deletion => deletion::run(subject, model).await,
            Self::Surplus => surplus::run(subject, model).await,
            Self::Vanishing => vanishing::run(subject, model).await,
            Self::Synchronous => synchronous::run(subject, model).await,
            Self::Lateness => lateness::run(subject, model, facts).await,
            Self::Operations => operations::run(subject, model, facts).await,
        }
    }
}

/// Restoring waits for what may still take effect.
const RESTORING: Duration = Duration::from_secs(60);

/// Runs all stages. What one of them could not find is not probed.
pub(super) async fn all(subject: &mut Subject<'_>, model: Consistency, steps: &mut Vec<Step>) {
    let mut facts = Facts::default();
    for (index, stage) in Stage::ALL.into_iter().enumerate() {
        let left = Stage::ALL[index..].iter().map(|stage| stage.lasts(model)).sum::<Duration>() + RESTORING;
        let began = subject.clock.now();
        subject.watch.happened(Event::Began { stage: stage.name(), number: index + 1, of: Stage::ALL.len(), left });
        let why = if facts.is_without_instances && stage.needs_instances() {
            "no instance could be launched".to_owned()
        } else {
            match stage.run(subject, model, &mut facts).await {
                Ok(()) => String::new(),
                Err(trouble) => {
                    subject.watch.happened(Event::Ended { stage: stage.name(), why: trouble.to_string() });
                    trouble.told()
                }
            }
        };
        for probe in stage.probes(model) {
            if !subject.findings.iter().any(|finding| finding.probe == *probe) {
                subject.find(*probe, model, Verdict::NotProbed, &why);
            }
        }
        let took = subject.clock.now().saturating_sub(began);
        steps.push(Step { stage: stage.name().to_owned(), seconds: seconds(took) });
    }
}
