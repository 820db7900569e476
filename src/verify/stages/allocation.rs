//! A launch until it runs, or until it is clear what one that fails leaves.

use std::time::{Duration, SystemTime};

use super::Facts;
use crate::cloud::{CloudError, Consistency, Failure, GroupReading, Missing, Progress, Shortfall};
use crate::verify::evidence::{code, told};
use crate::verify::limits::{FAILED_WATCH, INSTANCE_LIMIT, WAIT_EVERY};
use crate::verify::probe::Probe;
use crate::verify::settle::Sizes;
use crate::verify::subject::{Subject, seconds};
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

const PROBE: Probe = Probe::FailedAllocation;
const UNSEEN: &str = "no launch failed; docs/verified.md says how to see one";

/// A launch that a capacity asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// The capacity.
    pub(super) to: u32,
    /// When it was accepted.
    pub(super) accepted: Duration,
    /// When it was sent, by the cloud's clock.
    pub(super) since: SystemTime,
}

/// Waits until the operation has ended and the instance runs. If the launch fails, waits for what that leaves.
pub(super) async fn wait(
    subject: &mut Subject<'_>,
    model: Consistency,
    facts: &mut Facts,
    launch: Launch,
) -> Result<(), Trouble> {
    let mut failed: Option<(Failure, Duration)> = None;
    let mut is_polled = facts.operation.is_some();
    loop {
        if is_polled {
            match poll(subject, facts).await {
                Some(Ok(())) => is_polled = false,
                Some(Err(failure)) => {
                    is_polled = false;
                    let now = subject.clock.now();
                    failed = failed.or(Some((failure, now)));
                }
                None => {}
            }
        }
        let reading = subject.observe().await?;
        let now = subject.clock.now();
        let runs = Sizes::of(&reading).running == launch.to && reading.desired == launch.to;
        if runs && !is_polled {
            succeeded(subject, model, failed, launch);
            return Ok(());
        }
        if failed.is_none() {
            failed = reported(subject, model, &reading, launch.since).await.map(|failure| (failure, now));
        }
        match failed.take() {
            Some((failure, since)) if now.saturating_sub(since) >= FAILED_WATCH => {
                return Err(left(subject, model, &reading, &failure, launch.to));
            }
            waiting => failed = waiting,
        }
        if now.saturating_sub(launch.accepted) >= INSTANCE_LIMIT {
            return Err(Trouble::TimedOut("a launch"));
        }
        subject.clock.sleep(WAIT_EVERY).await;
    }
}

/// Whether the operation has ended, and as what. `None` while it runs.
async fn poll(subject: &mut Subject<'_>, facts: &mut Facts) -> Option<Result<(), Failure>> {
    let (handle, _) = facts.operation.as_ref()?;
    match subject.follow(handle).await {
        Ok(Progress::Running { .. }) => None,
        Ok(Progress::Failed(failure)) => Some(Err(failure)),
        Err(error) if error.may_pass() => None,
        Err(CloudError::NotFound(_)) => {
            facts.is_operation_lost = true;
            Some(Ok(()))
        }
        _ => Some(Ok(())),
    }
}

/// A failure that an instance or the launches report.
async fn reported(
    subject: &mut Subject<'_>,
    model: Consistency,
    reading: &GroupReading,
    since: SystemTime,
) -> Option<Failure> {
    let listed = reading.instances.iter().flatten().find_map(|one| one.failure.as_deref().cloned());
    if listed.is_some() || model.missing == Missing::LeftOut {
        return listed;
    }
    let activity = subject.launches(Shortfall { missing: 1, since }).await?;
    activity.failures.into_iter().find(|failure| failure.at >= since)
}

fn succeeded(subject: &mut Subject<'_>, model: Consistency, failed: Option<(Failure, Duration)>, launch: Launch) {
    let took = subject.clock.now().saturating_sub(launch.accepted);
    subject.behavior.launch_takes = Some(seconds(took));
    match failed {
        Some((failure, _)) => {
            let seen = format!("failed ({}), and launched {} s after the write", code(&failure.code), took.as_secs());
            subject.find(PROBE, model, Verdict::AsAssumed, seen);
        }
        None => subject.find(PROBE, model, Verdict::NotProbed, UNSEEN),
    }
}

/// What a launch that failed for good leaves.
fn left(subject: &mut Subject<'_>, model: Consistency, reading: &GroupReading, failure: &Failure, to: u32) -> Trouble {
    let failed = reading.instances.iter().flatten().filter(|one| one.failure.is_some()).count();
    let (desired, running) = (reading.desired, Sizes::of(reading).running);
    // What Azure rolls back it may take out of the capacity, too.
    let is_kept = desired == to || model.missing == Missing::LeftOut && desired + 1 == to;
    let verdict = if failure.is_explained && is_kept { Verdict::AsAssumed } else { Verdict::Broken };
    let reason = if failure.is_explained { code(&failure.code) } else { "no reason" };
    let seen = format!(
        "failed ({reason}); {} s later, a capacity of {desired}, {running} running, {failed} listed as failed",
        FAILED_WATCH.as_secs()
    );
    subject.find(PROBE, model, verdict, seen);
    subject.behavior.launch_failure = Some(code(&failure.code).to_owned());
    Trouble::NoInstance(failure.code.clone())
}

/// The write itself was refused for lack of quota or capacity.
pub(super) async fn refused(
    subject: &mut Subject<'_>,
    model: Consistency,
    basis: &GroupReading,
    error: CloudError,
) -> Result<(), Trouble> {
    let desired = subject.read().await?.desired;
    let verdict = if desired == basis.desired { Verdict::AsAssumed } else { Verdict::Broken };
    subject.find(PROBE, model, verdict, format!("refused at once: {}; then a capacity of {desired}", told(&error)));
    Err(error.into())
}
