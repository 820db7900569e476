//! A capacity write that is abandoned halfway, as one whose response is lost.

use std::time::Duration;

use super::Facts;
use crate::cloud::{CloudError, Consistency};
use crate::verify::limits::{ABANDON_MAX, LAG_EVERY, LATE_WATCH};
use crate::verify::probe::Probe;
use crate::verify::subject::Subject;
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency, facts: &Facts) -> Result<(), Trouble> {
    let basis = subject.bring_to(0).await?;
    let to = subject.size() + 1;
    let patience = (facts.write_took / 2).min(ABANDON_MAX);
    if patience.is_zero() {
        subject.find(Probe::Late, model, Verdict::NotProbed, "writes take too little time to be abandoned");
        return Ok(());
    }
    let at = subject.begin_write()?;
    let cloud = subject.cloud;
    let response = tokio::select! {
        biased;
        response = cloud.set_capacity(&basis, to) => Some(response),
        () = subject.clock.sleep(patience) => None,
    };
    match response {
        Some(response) => {
            if !response.as_ref().is_err_and(CloudError::outcome_unknown) {
                subject.restoration.answered();
            }
            response?;
            subject.find(Probe::Late, model, Verdict::NotProbed, "the response came before it could be abandoned");
            return Ok(());
        }
        None => subject.note_abandoned(at, to),
    }
    let shown = shown_after(subject, to, at).await?;
    let (verdict, seen) = match shown {
        None => (Verdict::AsAssumed, format!("not within {} s", LATE_WATCH.as_secs())),
        Some(after) => {
            let verdict = if after <= Consistency::LATE { Verdict::AsAssumed } else { Verdict::Broken };
            (verdict, format!("after {:.1} s", after.as_secs_f64()))
        }
    };
    subject.find(
        Probe::Late,
        model,
        verdict,
        format!("one write, abandoned after {} ms: {seen}", patience.as_millis()),
    );
    Ok(())
}

async fn shown_after(subject: &mut Subject<'_>, to: u32, sent: Duration) -> Result<Option<Duration>, Trouble> {
    loop {
        let after = subject.clock.now().saturating_sub(sent);
        if subject.read().await?.desired == to {
            return Ok(Some(after));
        }
        if after >= LATE_WATCH {
            return Ok(None);
        }
        subject.clock.sleep(LAG_EVERY).await;
    }
}
