//! An instance that is deleted without the group: whether it is replaced, and what a scale set then compares a new
//! capacity with.

use std::time::Duration;

use crate::cloud::{CapacityIs, CloudError, Consistency, GroupReading, Missing, ProviderId, Provisioning};
use crate::verify::evidence::told;
use crate::verify::limits::{INSTANCE_LIMIT, MISSING_WATCH, WAIT_EVERY};
use crate::verify::probe::Probe;
use crate::verify::settle::{Sizes, lives};
use crate::verify::subject::Subject;
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency) -> Result<(), Trouble> {
    let before = subject.bring_to(1).await?;
    let known: Vec<ProviderId> = before.instances.iter().flatten().map(|one| one.id.clone()).collect();
    let Some(victim) = subject.own(&before).into_iter().next() else { return Err(Trouble::Gone) };
    match subject.delete_behind(&victim).await {
        Err(Trouble::Cloud(error @ CloudError::Refused(_))) => {
            let why = match &error.fault().code {
                Some(_) => told(&error),
                None => error.fault().message.clone(),
            };
            unseen(subject, model, &why);
            return Ok(());
        }
        deleted => deleted?,
    }
    let gone = |reading: &GroupReading| {
        let is_listed = reading.instances.iter().flatten().any(|one| one.id == victim && lives(one));
        (!is_listed).then_some(())
    };
    subject.until("an instance to vanish", INSTANCE_LIMIT, WAIT_EVERY, gone).await?;
    let replaced = replacement(subject, model, &known).await?;
    let after = subject.observe().await?;
    missing(subject, model, replaced, &after);
    if model.missing == Missing::LeftOut && replaced.is_none() {
        let size = subject.size();
        let kind = if after.desired == size { Seen::Falls } else { compared(subject, size).await? };
        capacity(subject, model, kind);
    }
    Ok(())
}

fn unseen(subject: &mut Subject<'_>, model: Consistency, why: &str) {
    subject.find(Probe::Missing, model, Verdict::NotProbed, why);
    if model.missing == Missing::LeftOut {
        subject.find(Probe::CapacityIs, model, Verdict::NotProbed, why);
    }
}

/// When an instance came that was not there before.
async fn replacement(
    subject: &mut Subject<'_>,
    model: Consistency,
    known: &[ProviderId],
) -> Result<Option<Duration>, Trouble> {
    let limit = match model.missing {
        Missing::Retried => INSTANCE_LIMIT,
        Missing::LeftOut => MISSING_WATCH,
    };
    let since = subject.clock.now();
    let new = |reading: &GroupReading| {
        let is_new = reading.instances.iter().flatten().any(|one| !known.contains(&one.id));
        is_new.then_some(())
    };
    match subject.until("a replacement", limit, WAIT_EVERY, new).await {
        Ok(()) => Ok(Some(subject.clock.now().saturating_sub(since))),
        Err(Trouble::TimedOut(_)) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

fn missing(subject: &mut Subject<'_>, model: Consistency, replaced: Option<Duration>, after: &GroupReading) {
    let is_expected = replaced.is_some() == (model.missing == Missing::Retried);
    let seen = match replaced {
        Some(after) => format!("replaced after {:.0} s", after.as_secs_f64()),
        None if after.desired == subject.size() => "not replaced; the capacity fell with it".to_owned(),
        None => "not replaced; the capacity still counts it".to_owned(),
    };
    let verdict = if is_expected { Verdict::AsAssumed } else { Verdict::Broken };
    subject.find(Probe::Missing, model, verdict, seen);
}

/// What a scale set compares a new capacity with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verify) enum Seen {
    /// The capacity fell with the VM.
    Falls,
    /// What lives.
    Actual,
    /// The capacity before.
    Nominal,
    /// Up with one, down with the other.
    Mixed,
}

/// Asks for one more while one is missing. If one VM comes, the capacity is nominal, and one goes when it is lowered.
async fn compared(subject: &mut Subject<'_>, size: u32) -> Result<Seen, Trouble> {
    let up = live_after(subject, size + 2).await?;
    if up > size + 1 {
        return Ok(Seen::Actual);
    }
    let down = live_after(subject, size + 1).await?;
    Ok(if down <= size { Seen::Nominal } else { Seen::Mixed })
}

/// Sets the capacity, and returns how many live once nothing changes any more.
async fn live_after(subject: &mut Subject<'_>, to: u32) -> Result<u32, Trouble> {
    subject.set(to).await?;
    let mut last = None;
    let at_rest = |reading: &GroupReading| {
        let sizes = Sizes::of(reading);
        let is_at_rest = reading.desired == to
            && sizes.going == 0
            && sizes.running == sizes.live
            && reading.provisioning == Provisioning::Succeeded;
        let before = last.replace(sizes);
        // Twice in a row: the first reading may be older than the write.
        (is_at_rest && before == Some(sizes)).then_some(sizes.live)
    };
    subject.until("the scale set to be at rest", INSTANCE_LIMIT, WAIT_EVERY, at_rest).await
}

fn capacity(subject: &mut Subject<'_>, model: Consistency, seen: Seen) {
    let text = match seen {
        Seen::Falls => "the capacity falls with a VM that vanishes: it is what lives",
        Seen::Actual => "a new capacity is compared with what lives",
        Seen::Nominal => "a new capacity is compared with the one before: a lower one deleted a VM that nobody named",
        Seen::Mixed => "a higher capacity is compared with the one before, a lower one with what lives",
    };
    subject.behavior.capacity_is = match seen {
        Seen::Falls | Seen::Actual => Some(CapacityIs::Actual),
        Seen::Nominal => Some(CapacityIs::Nominal),
        Seen::Mixed => None,
    };
    let verdict = match (model.capacity_is, seen) {
        (CapacityIs::Unknown, _) | (CapacityIs::Actual, Seen::Falls | Seen::Actual) => Verdict::AsAssumed,
        (CapacityIs::Nominal, Seen::Nominal) => Verdict::AsAssumed,
        _ => Verdict::Broken,
    };
    subject.find(Probe::CapacityIs, model, verdict, text);
}
