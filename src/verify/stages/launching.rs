//! A deletion that names an instance while it is being created.

use crate::cloud::{Consistency, GroupReading, InstanceState, ProviderId};
use crate::verify::evidence::told;
use crate::verify::limits::{INSTANCE_LIMIT, LAG_EVERY, UNFILLED_AFTER, WAIT_EVERY};
use crate::verify::probe::Probe;
use crate::verify::settle::Sizes;
use crate::verify::subject::Subject;
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

const PROBE: Probe = Probe::WhileLaunching;

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency) -> Result<(), Trouble> {
    let before = subject.bring_to(1).await?;
    let known: Vec<ProviderId> = before.instances.iter().flatten().map(|one| one.id.clone()).collect();
    subject.set(subject.size() + 2).await?;
    let wait = subject.until("an instance to be listed", INSTANCE_LIMIT, LAG_EVERY, |reading| {
        let new = reading.instances.iter().flatten().find(|one| !known.contains(&one.id))?;
        Some((new.id.clone(), new.state))
    });
    let (id, state) = wait.await?;
    if state != InstanceState::Creating {
        subject.find(PROBE, model, Verdict::NotProbed, "the instance ran as soon as it was listed");
        return Ok(());
    }
    let Some(conflicts) = delete(subject, model, &id).await? else { return Ok(()) };
    let rest = before.desired;
    let gone = |reading: &GroupReading| {
        let is_gone = !reading.instances.iter().flatten().any(|one| one.id == id);
        is_gone.then_some(())
    };
    subject.until("the instance to be gone", INSTANCE_LIMIT, WAIT_EVERY, gone).await?;
    // A replacement may come later.
    subject.clock.sleep(UNFILLED_AFTER).await;
    let after = subject.observe().await?;
    let (desired, live) = (after.desired, Sizes::of(&after).live);
    let retried = if conflicts == 0 { String::new() } else { format!(" after {conflicts} conflicts") };
    let (verdict, seen) = if (desired, live) == (rest, rest) {
        (Verdict::AsAssumed, format!("deleted and not replaced{retried}"))
    } else {
        (Verdict::Broken, format!("then {live} live at a capacity of {desired}, instead of {rest} and {rest}"))
    };
    subject.find(PROBE, model, verdict, seen);
    Ok(())
}

/// Deletes the instance, and returns how often that was refused as a conflict. `None` if it was refused for good.
async fn delete(subject: &mut Subject<'_>, model: Consistency, id: &ProviderId) -> Result<Option<u32>, Trouble> {
    let until = subject.clock.now() + INSTANCE_LIMIT;
    for conflicts in 0.. {
        let basis = subject.observe().await?;
        let refused = match subject.delete_on(&basis, std::slice::from_ref(id)).await {
            Ok(deletion) => deletion.refused.into_iter().next().map(|(_, error)| error),
            Err(Trouble::Cloud(error)) if !error.outcome_unknown() => Some(error),
            Err(trouble) => return Err(trouble),
        };
        match refused {
            None => return Ok(Some(conflicts)),
            Some(error) if error.may_be_repeated() && subject.clock.now() < until => {
                subject.clock.sleep(WAIT_EVERY).await;
            }
            Some(error) => {
                subject.find(PROBE, model, Verdict::Broken, told(&error));
                return Ok(None);
            }
        }
    }
    Ok(None)
}
