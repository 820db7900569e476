//! A capacity below the live instances: when the group terminates one, how many, and whether protection keeps them.

use std::time::Duration;

use crate::cloud::{Consistency, GroupReading, Instance, Missing};
use crate::group::WATCH_EVERY;
use crate::verify::limits::{INSTANCE_LIMIT, LAG_EVERY, PROTECTED_WATCH, SCALE_IN_WATCH, WAIT_EVERY};
use crate::verify::probe::Probe;
use crate::verify::settle::{Sizes, lives};
use crate::verify::subject::{Subject, seconds};
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

const ELSEWHERE: &str = "a scale set does not adjust itself to its capacity";

/// Whether the group adjusts itself to its capacity.
pub(super) fn applies(model: Consistency) -> bool {
    model.missing == Missing::Retried
}

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency) -> Result<(), Trouble> {
    if !applies(model) {
        subject.find(Probe::TimeToScaleIn, model, Verdict::NotProbed, ELSEWHERE);
        subject.find(Probe::ScaleInProtection, model, Verdict::NotProbed, ELSEWHERE);
        return Ok(());
    }
    let before = subject.bring_to(1).await?;
    let size = subject.size();
    let live: Vec<&Instance> = before.instances.iter().flatten().filter(|one| lives(one)).collect();
    let is_protected = live.iter().all(|one| one.is_protected);
    subject.behavior.is_protected = Some(is_protected);
    subject.set(size).await?;
    let watch = if is_protected { PROTECTED_WATCH } else { SCALE_IN_WATCH };
    let first = first_termination(subject, size, watch).await?;
    if is_protected {
        protected(subject, model, first);
        // So that they can be deleted by name.
        return subject.set(size + 1).await.map(drop);
    }
    subject.behavior.scale_in_after = first.map(seconds);
    unprotected(subject, model, first);
    terminated(subject, model, first).await
}

/// When the first instance was being terminated.
async fn first_termination(subject: &mut Subject<'_>, size: u32, limit: Duration) -> Result<Option<Duration>, Trouble> {
    let set = subject.clock.now();
    let fewer = |reading: &GroupReading| (Sizes::of(reading).live <= size).then_some(());
    match subject.until("a termination", limit, LAG_EVERY, fewer).await {
        Ok(()) => Ok(Some(subject.clock.now().saturating_sub(set))),
        Err(Trouble::TimedOut(_)) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

fn protected(subject: &mut Subject<'_>, model: Consistency, first: Option<Duration>) {
    const UNSEEN: &str = "all instances are protected from scale-in";
    let (verdict, seen) = match first {
        Some(after) => (Verdict::Broken, format!("one was terminated after {:.1} s", after.as_secs_f64())),
        None => (Verdict::AsAssumed, format!("none within {} s", PROTECTED_WATCH.as_secs())),
    };
    subject.find(Probe::ScaleInProtection, model, verdict, seen);
    subject.find(Probe::TimeToScaleIn, model, Verdict::NotProbed, UNSEEN);
    subject.find(Probe::CapacityIs, model, Verdict::NotProbed, UNSEEN);
}

fn unprotected(subject: &mut Subject<'_>, model: Consistency, first: Option<Duration>) {
    const UNSEEN: &str = "no instance is protected; set it for new instances of the group, and run this again";
    let (verdict, seen) = match first {
        Some(after) => {
            let verdict = if after > 2 * WATCH_EVERY { Verdict::AsAssumed } else { Verdict::Broken };
            (verdict, format!("{:.1} s", after.as_secs_f64()))
        }
        None => (Verdict::Stricter, format!("none within {} s", SCALE_IN_WATCH.as_secs())),
    };
    subject.find(Probe::TimeToScaleIn, model, verdict, seen);
    subject.find(Probe::ScaleInProtection, model, Verdict::NotProbed, UNSEEN);
}

/// How many are terminated.
async fn terminated(subject: &mut Subject<'_>, model: Consistency, first: Option<Duration>) -> Result<(), Trouble> {
    if first.is_none() {
        subject.find(Probe::CapacityIs, model, Verdict::NotProbed, "the group terminated nothing");
        return Ok(());
    }
    let size = subject.size();
    let at_rest = |reading: &GroupReading| {
        let sizes = Sizes::of(reading);
        (sizes.going == 0).then_some(sizes.live)
    };
    let live = subject.until("terminations to end", INSTANCE_LIMIT, WAIT_EVERY, at_rest).await?;
    let verdict = if live == size { Verdict::AsAssumed } else { Verdict::Broken };
    let ended = (size + 1).saturating_sub(live);
    let seen = format!("one instance beyond the capacity: {ended} terminated");
    subject.find(Probe::CapacityIs, model, verdict, seen);
    Ok(())
}
