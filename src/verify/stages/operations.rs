//! The address of the first operation after it has ended, and how many writes were throttled.

use super::Facts;
use crate::cloud::{CloudError, Consistency};
use crate::verify::evidence::told;
use crate::verify::probe::Probe;
use crate::verify::subject::Subject;
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency, facts: &Facts) -> Result<(), Trouble> {
    let (verdict, seen) = match &facts.operation {
        _ if facts.is_operation_lost => (Verdict::Broken, "unknown before the operation had ended".to_owned()),
        None => (Verdict::NotProbed, "the cloud returns none".to_owned()),
        Some((handle, accepted)) => {
            let age = subject.clock.now().saturating_sub(*accepted).as_secs();
            let seen = match subject.follow(handle).await {
                Ok(_) => format!("it works after {age} s"),
                Err(CloudError::NotFound(_)) => format!("the operation had ended, and it is gone after {age} s"),
                Err(error) => format!("after {age} s: {}", told(&error)),
            };
            (Verdict::AsAssumed, seen)
        }
    };
    subject.find(Probe::OperationAddresses, model, verdict, seen);
    let (sent, throttled) = (subject.writes_sent, subject.writes_throttled);
    let budgets = match subject.cloud.budgets().len() {
        0 => "no response says how many calls are left".to_owned(),
        budgets => format!("responses report {budgets} budgets"),
    };
    let verdict = if throttled == 0 { Verdict::AsAssumed } else { Verdict::Broken };
    subject.find(Probe::Writes, model, verdict, format!("{throttled} of {sent} throttled; {budgets}"));
    Ok(())
}
