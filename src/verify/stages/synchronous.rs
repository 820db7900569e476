//! An instance that a call launches and returns, and the same call once more.

use std::time::UNIX_EPOCH;

use crate::cloud::{Consistency, GroupReading, Missing, Raises};
use crate::verify::limits::{INSTANCE_LIMIT, UNFILLED_AFTER, WAIT_EVERY};
use crate::verify::probe::Probe;
use crate::verify::settle::Sizes;
use crate::verify::subject::Subject;
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

const PROBE: Probe = Probe::GrowsBy;

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency) -> Result<(), Trouble> {
    if model.missing == Missing::LeftOut {
        subject.find(PROBE, model, Verdict::NotProbed, "Headcount has no such call for scale sets");
        return Ok(());
    }
    let basis = subject.bring_to(0).await?;
    if basis.launch_zone().is_err() {
        let why = "the group's settings do not permit LaunchInstances; docs/aws-launch.md says which do";
        subject.find(PROBE, model, Verdict::NotProbed, why);
        return Ok(());
    }
    let now = subject.cloud.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let token = format!("headcount-verify-{}", now.as_millis());
    let first = subject.launch_on(&basis, &token).await?;
    let at_response = subject.read().await?.desired;
    let again = subject.launch_on(&basis, &token).await?;
    let to = basis.desired + 1;
    let runs = |reading: &GroupReading| (Sizes::of(reading).running >= to).then_some(());
    subject.until("a launch", INSTANCE_LIMIT, WAIT_EVERY, runs).await?;
    // A second instance may come later.
    subject.clock.sleep(UNFILLED_AFTER).await;
    let after = subject.observe().await?;
    let live = Sizes::of(&after).live;
    let is_same = first.instances == again.instances;
    let (when, raises) =
        if at_response == to { ("before", Raises::BeforeResponse) } else { ("after", Raises::AfterResponse) };
    subject.behavior.raises = Some(raises);
    let verdict = if is_same && (live, after.desired) == (to, to) { Verdict::AsAssumed } else { Verdict::Broken };
    let repeated = if is_same { "the repeat returned the same" } else { "the repeat returned another one" };
    let more = live.saturating_sub(basis.desired);
    let seen = format!("the capacity rose {when} the response; {repeated}; then {more} more live");
    subject.find(PROBE, model, verdict, seen);
    Ok(())
}
