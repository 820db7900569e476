//! A deletion, from its acceptance to its end, and the same instance named once more meanwhile.

use std::time::Duration;

use crate::cloud::{Consistency, Deletions, Falls, GroupReading, InstanceState, Missing, ProviderId, Reads};
use crate::verify::evidence::told;
use crate::verify::limits::{INSTANCE_LIMIT, LAG_EVERY, WAIT_EVERY};
use crate::verify::probe::Probe;
use crate::verify::settle::lives;
use crate::verify::subject::{Subject, seconds};
use crate::verify::trouble::Trouble;
use crate::verify::verdict::Verdict;

/// What the readings after a deletion showed.
#[derive(Debug)]
pub(in crate::verify) struct Sights {
    victim: ProviderId,
    /// The capacity before.
    full: u32,
    /// The lowest capacity.
    lowest: u32,
    /// Readings with a lower capacity that still listed the instance.
    early: u32,
    /// How many of those show that the capacity fell before the instance was gone. Where the capacity is read after
    /// the list, one does not: the instance may have gone in between.
    enough: u32,
    /// Whether the first reading with a lower capacity was the first one at all.
    fell_at_once: bool,
    /// The readings.
    count: u32,
    /// Readings with a lower capacity in which the instance lived.
    incoherent: u32,
    /// Whether the last reading listed the instance, and as what.
    listed: Option<InstanceState>,
}

impl Sights {
    pub(in crate::verify) fn new(before: &GroupReading, victim: &ProviderId) -> Self {
        Self {
            victim: victim.clone(),
            full: before.desired,
            lowest: before.desired,
            early: 0,
            enough: if before.consistency.reads == Reads::Together { 1 } else { 2 },
            fell_at_once: false,
            count: 0,
            incoherent: 0,
            listed: Some(InstanceState::Running),
        }
    }

    pub(in crate::verify) fn note(&mut self, reading: &GroupReading) {
        let found = reading.instances.iter().flatten().find(|one| one.id == self.victim);
        self.count += 1;
        self.listed = found.map(|one| one.state);
        if reading.desired < self.full {
            self.fell_at_once |= self.count == 1;
            self.early += u32::from(found.is_some());
            self.incoherent += u32::from(found.is_some_and(lives));
        }
        self.lowest = self.lowest.min(reading.desired);
    }

    fn fall(&self) -> u32 {
        self.full - self.lowest
    }

    /// Whether the capacity fell while the instance still existed.
    fn fell_early(&self) -> bool {
        self.early >= self.enough
    }

    /// What becomes of the capacity.
    pub(in crate::verify) fn deletions(&self, model: Consistency) -> (Verdict, String) {
        let when = match (self.fall(), self.fell_early(), self.fell_at_once) {
            _ if self.listed.is_some_and(|state| state != InstanceState::Deleting) => "the instance lives on",
            (0, ..) => "the capacity did not fall",
            (_, true, _) => "the capacity fell when the deletion was accepted",
            (_, false, true) => "the first reading had neither the instance nor its place",
            (_, false, false) => "the capacity fell when the instance was gone",
        };
        let can_fail = model.deletions == Deletions::CanFail;
        let is_assumed = match when {
            "the instance lives on" | "the capacity fell when the instance was gone" => can_fail,
            other => other != "the capacity did not fall",
        };
        (if is_assumed { Verdict::AsAssumed } else { Verdict::Broken }, when.to_owned())
    }

    /// When the capacity falls, if it was seen to.
    fn falls(&self) -> Option<Falls> {
        match (self.fall(), self.fell_early() || self.fell_at_once) {
            (0, _) => None,
            (_, true) => Some(Falls::WhenAccepted),
            (_, false) => Some(Falls::WhenGone),
        }
    }

    /// What naming it twice does.
    pub(in crate::verify) fn named_twice(&self, model: Consistency, response: &str) -> (Verdict, String) {
        let each_time = model.missing == Missing::Retried;
        let verdict = match self.fall() {
            0 | 1 if each_time => Verdict::Stricter,
            0 | 1 => Verdict::AsAssumed,
            2 if each_time => Verdict::AsAssumed,
            _ => Verdict::Broken,
        };
        (verdict, format!("{response}; the capacity fell by {} in all", self.fall()))
    }

    /// Whether capacity and instances agree.
    pub(in crate::verify) fn reads(&self, model: Consistency) -> (Verdict, String) {
        let (count, wrong) = (self.count, self.incoherent);
        let seen = format!("in {wrong} of {count} readings, the instance lived at the lower capacity");
        let is_broken = model.reads == Reads::Together && wrong > 0;
        (if is_broken { Verdict::Broken } else { Verdict::AsAssumed }, seen)
    }
}

pub(super) async fn run(subject: &mut Subject<'_>, model: Consistency) -> Result<(), Trouble> {
    let basis = subject.bring_to(2).await?;
    let Some(victim) = subject.own(&basis).into_iter().next() else { return Err(Trouble::Gone) };
    let mut sights = Sights::new(&basis, &victim);
    let deletion = subject.delete_on(&basis, std::slice::from_ref(&victim)).await?;
    if let Some((_, error)) = deletion.refused.into_iter().next() {
        return Err(error.into());
    }
    let accepted = subject.clock.now();
    let mut again = None;
    let mut is_raised = false;
    loop {
        let reading = subject.observe().await?;
        sights.note(&reading);
        let after = subject.clock.now().saturating_sub(accepted);
        if again.is_none() && sights.listed == Some(InstanceState::Deleting) {
            again = Some(name_again(subject, &basis, &victim).await?);
        }
        // The group would terminate another instance.
        if sights.fall() > 1 && !is_raised {
            is_raised = true;
            subject.set(sights.full - 1).await?;
        }
        if is_over(&sights, after) || after >= INSTANCE_LIMIT {
            break;
        }
        subject.clock.sleep(if after < Consistency::LAG { LAG_EVERY } else { WAIT_EVERY }).await;
    }
    subject.behavior.falls = sights.falls();
    if sights.listed.is_none() {
        subject.behavior.deletion_takes = Some(seconds(subject.clock.now().saturating_sub(accepted)));
    }
    let (verdict, seen) = sights.deletions(model);
    subject.find(Probe::Deletions, model, verdict, seen);
    match again {
        Some(response) => {
            let (verdict, seen) = sights.named_twice(model, &response);
            subject.find(Probe::NamedTwice, model, verdict, seen);
        }
        None => {
            subject.find(Probe::NamedTwice, model, Verdict::NotProbed, "the instance was gone before that");
        }
    }
    let (verdict, seen) = sights.reads(model);
    subject.find(Probe::Reads, model, verdict, seen);
    Ok(())
}

/// The instance is gone and the capacity has fallen, or nothing changes any more.
fn is_over(sights: &Sights, after: Duration) -> bool {
    match sights.listed {
        None => sights.fall() > 0 || after > Consistency::LAG,
        // It was not deleted, or no longer is.
        Some(InstanceState::Running | InstanceState::Creating) => after > Consistency::LAG,
        Some(InstanceState::Deleting) => false,
    }
}

/// Names the instance once more, on the reading in which it lived.
async fn name_again(subject: &mut Subject<'_>, basis: &GroupReading, victim: &ProviderId) -> Result<String, Trouble> {
    match subject.delete_on(basis, std::slice::from_ref(victim)).await {
        Ok(deletion) => Ok(match deletion.refused.first() {
            Some((_, error)) => told(error),
            None if deletion.accepted.is_empty() => "gone already".to_owned(),
            None => "accepted again".to_owned(),
        }),
        Err(Trouble::Cloud(error)) if !error.outcome_unknown() => Ok(told(&error)),
        Err(trouble) => Err(trouble),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::{aws, reading, scale_set};

    /// What the readings show in which the capacity was lower while the instance was listed.
    fn falls(before: &GroupReading, lower: usize) -> Option<Falls> {
        let victim = before.instances.as_ref().expect("listed")[0].id.clone();
        let mut sights = Sights::new(before, &victim);
        sights.note(before);
        let mut after = GroupReading { desired: 1, ..before.clone() };
        (0..lower).for_each(|_| sights.note(&after));
        after.instances.as_mut().expect("listed").retain(|one| one.id != victim);
        sights.note(&after);
        sights.falls()
    }

    #[test]
    fn one_list_that_is_older_than_its_capacity_shows_nothing() {
        let [apart, together] = [scale_set(), aws()].map(|plan| reading(plan.sized(0, 10, 2)));
        assert_eq!(falls(&apart, 0), Some(Falls::WhenGone));
        assert_eq!(falls(&apart, 1), Some(Falls::WhenGone), "the instance may have gone after the list was read");
        assert_eq!(falls(&apart, 2), Some(Falls::WhenAccepted));
        assert_eq!(falls(&together, 1), Some(Falls::WhenAccepted));
    }
}
