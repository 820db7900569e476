//! One instance more: how far reads lag, when a launch begins, whether etags change, whether they are a precondition.

use std::time::Duration;

use super::Facts;
use super::allocation::{self, Launch};
use crate::cloud::{CloudError, Consistency, GroupReading, Guard, LaunchActivity, Missing, Shortfall};
use crate::verify::evidence::told;
use crate::verify::limits::{LAG_EVERY, LAG_LIMIT, LAG_STREAK};
use crate::verify::probe::Probe;
use crate::verify::subject::{Subject, seconds};
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency, facts: &mut Facts) -> Result<(), Trouble> {
    subject.bring_to(0).await?;
    let to = subject.size() + 1;
    let basis = subject.observe().await?;
    let (sent, since) = (subject.clock.now(), subject.cloud.now());
    let acceptance = match subject.set_on(&basis, to).await {
        Err(Trouble::Cloud(error @ CloudError::OutOfResources(_))) => {
            facts.is_without_instances = true;
            return allocation::refused(subject, model, &basis, error).await;
        }
        acceptance => acceptance?,
    };
    let accepted = subject.clock.now();
    facts.write_took = accepted.saturating_sub(sent);
    facts.operation = acceptance.handle.map(|handle| (handle, accepted));
    lags(subject, model, to).await?;
    let launch = Launch { to, accepted, since };
    allocation::wait(subject, model, facts, launch).await.inspect_err(|_| facts.is_without_instances = true)?;
    etag(subject, model, &basis).await?;
    precondition(subject, model, &basis).await
}

/// How far one kind of read lags.
#[derive(Debug, Default)]
pub(in crate::verify) struct Lag {
    /// When the last read was sent that did not show the write.
    stale: Option<Duration>,
    /// So many reads in a row have shown it since.
    streak: u32,
    /// When the first read was sent that showed it.
    shown: Option<Duration>,
}

impl Lag {
    pub(in crate::verify) fn note(&mut self, is_shown: bool, after: Duration) {
        if is_shown {
            self.streak += 1;
            self.shown = self.shown.or(Some(after));
        } else {
            (self.streak, self.stale) = (0, Some(after));
        }
    }

    fn is_certain(&self) -> bool {
        self.streak >= LAG_STREAK
    }

    /// How long the write was not shown for certain; `None` if it never was.
    pub(in crate::verify) fn length(&self) -> Option<Duration> {
        self.shown.map(|_| self.stale.unwrap_or_default()).filter(|_| self.streak > 0)
    }

    pub(in crate::verify) fn told(&self, what: &str) -> String {
        match (self.length(), self.stale) {
            (Some(_), None) => format!("the first {what} showed it"),
            (Some(lag), Some(_)) => {
                format!("a {what} after {:.1} s did not show it, later ones did", lag.as_secs_f64())
            }
            (None, _) => format!("no {what} showed it within {} s", LAG_LIMIT.as_secs()),
        }
    }
}

async fn lags(subject: &mut Subject<'_>, model: Consistency, to: u32) -> Result<(), Trouble> {
    let accepted = subject.clock.now();
    let shortfall = Shortfall { missing: 1, since: subject.cloud.now() };
    let (mut single, mut listed) = (Lag::default(), Lag::default());
    let mut launch = None;
    let launches_itself = model.missing == Missing::Retried;
    loop {
        let after = subject.clock.now().saturating_sub(accepted);
        let reading = subject.read().await?;
        single.note(reading.desired == to, after);
        let is_listed = !subject.own(&reading).is_empty();
        if launches_itself && launch.is_none() {
            let activity = subject.launches(shortfall).await;
            let is_new = |activity: &LaunchActivity| {
                activity.under_way > 0 || activity.launched.iter().any(|launched| launched.at >= shortfall.since)
            };
            launch = (is_listed || activity.as_ref().is_some_and(is_new)).then_some(after);
        }
        let after_single = subject.clock.now().saturating_sub(accepted);
        let in_list = subject.list().await?;
        listed.note(in_list.is_some_and(|reading| reading.desired == to), after_single);
        let is_done = single.is_certain() && listed.is_certain() && (launch.is_some() || !launches_itself);
        if is_done || after >= LAG_LIMIT {
            break;
        }
        subject.clock.sleep(LAG_EVERY).await;
    }
    let seen = format!("{}; {}", single.told("read of the group"), listed.told("list of all groups"));
    let is_short = |lag: &Lag| lag.length().is_some_and(|length| length <= Consistency::LAG);
    let verdict = if is_short(&single) && is_short(&listed) { Verdict::AsAssumed } else { Verdict::Broken };
    subject.find(Probe::ReadLags, model, verdict, seen);
    subject.behavior.read_lag = single.length().max(listed.length()).map(seconds);
    launch_begins(subject, model, launch, launches_itself);
    Ok(())
}

fn launch_begins(subject: &mut Subject<'_>, model: Consistency, launch: Option<Duration>, launches_itself: bool) {
    let (verdict, seen) = match launch {
        _ if !launches_itself => (Verdict::NotProbed, "nothing is assumed of a scale set".to_owned()),
        Some(after) => {
            subject.behavior.launch_begins_after = Some(seconds(after));
            let verdict = if after <= Consistency::LAUNCH_BEGINS { Verdict::AsAssumed } else { Verdict::Broken };
            (verdict, format!("after {:.1} s at most", after.as_secs_f64()))
        }
        None => (Verdict::Broken, format!("no launch within {} s", LAG_LIMIT.as_secs())),
    };
    subject.find(Probe::LaunchBegins, model, verdict, seen);
}

async fn etag(subject: &mut Subject<'_>, model: Consistency, before: &GroupReading) -> Result<(), Trouble> {
    let after = subject.read().await?;
    let listed = subject.list().await?.and_then(|reading| reading.etag);
    let is_scale_set = model.missing == Missing::LeftOut;
    let in_list = match &listed {
        Some(listed) if after.etag.as_ref() == Some(listed) => "the list has the same",
        Some(_) => "the list has another one",
        None => "the list has none",
    };
    let (verdict, seen) = match (&before.etag, &after.etag) {
        (Some(before), Some(after)) if before != after => {
            (Verdict::AsAssumed, format!("the write changed it; {in_list}"))
        }
        (Some(_), Some(_)) => (Verdict::Broken, format!("the write did not change it; {in_list}")),
        _ if is_scale_set => (Verdict::Broken, "readings have none".to_owned()),
        _ => (Verdict::AsAssumed, "there is none".to_owned()),
    };
    subject.find(Probe::Etag, model, verdict, seen);
    Ok(())
}

/// A write on the reading before the last write. With a precondition it asks for one instance more: a capacity that is
/// set already might be accepted for that reason.
async fn precondition(subject: &mut Subject<'_>, model: Consistency, basis: &GroupReading) -> Result<(), Trouble> {
    let is_guarded = model.guard == Guard::IfMatch && basis.etag.is_some();
    if !is_guarded && model.missing == Missing::LeftOut {
        subject.find(Probe::Guard, model, Verdict::NotProbed, "readings have no etag to write on");
        return Ok(());
    }
    let to = subject.size() + 1 + u32::from(is_guarded);
    let (verdict, seen) = match subject.set_on(basis, to).await {
        Ok(_) if is_guarded => (Verdict::Broken, "it was accepted".to_owned()),
        Ok(_) => (Verdict::AsAssumed, "it was accepted".to_owned()),
        Err(Trouble::Cloud(error @ CloudError::Conflict(_))) if is_guarded => (Verdict::AsAssumed, told(&error)),
        Err(Trouble::Cloud(error)) if !error.outcome_unknown() && !error.may_pass() => {
            (Verdict::Stricter, told(&error))
        }
        Err(trouble) => return Err(trouble),
    };
    subject.find(Probe::Guard, model, verdict, seen);
    Ok(())
}
