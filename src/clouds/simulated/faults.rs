//! What can go wrong between a simulated cloud and whoever calls it: by chance, or by script.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;

use super::call::{Call, CallKind, Chances, Distortion, Mishap};
use super::chance::draw;

/// Calls that are remembered.
const CALLS_MAX: usize = 10_000;

/// What is in store for one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How long it takes before it has its effect.
    pub there: Duration,
    /// What befalls it.
    pub mishap: Option<Mishap>,
    /// How long its answer takes.
    pub back: Duration,
}

/// What happens next, to which calls, how many times more.
#[derive(Clone, Debug)]
struct Scripted<T> {
    kind: Option<CallKind>,
    group: Option<String>,
    times: u32,
    what: T,
}

/// The faults of one simulated cloud, and the calls that were made to it.
#[derive(Debug)]
pub struct Faults {
    /// What goes wrong by chance.
    pub chances: Chances,
    /// Whether nothing gets through at all.
    pub down: bool,
    rng: Rng,
    mishaps: Vec<Scripted<Mishap>>,
    distortions: Vec<Scripted<Distortion>>,
    calls: VecDeque<Call>,
}

impl Faults {
    /// No faults.
    pub fn new(seed: u64) -> Self {
        Self {
            chances: Chances::default(),
            down: false,
            rng: Rng::with_seed(seed),
            mishaps: Vec::new(),
            distortions: Vec::new(),
            calls: VecDeque::new(),
        }
    }

    /// The next so many calls that match meet this; `None` matches all.
    pub fn script(&mut self, kind: Option<CallKind>, group: Option<&str>, times: u32, what: Mishap) {
        self.mishaps.push(Scripted { kind, group: group.map(str::to_owned), times, what });
    }

    /// The next so many answers that tell of this group tell this; `None` matches every kind of read.
    pub fn distort(&mut self, kind: Option<CallKind>, group: &str, times: u32, what: Distortion) {
        self.distortions.push(Scripted { kind, group: Some(group.to_owned()), times, what });
    }

    /// Whether an answer is still to be distorted by script.
    pub fn is_distorting(&self) -> bool {
        self.distortions.iter().any(|scripted| scripted.times > 0)
    }

    /// Forgets what was scripted and what happens by chance.
    pub fn clear(&mut self) {
        self.mishaps.clear();
        self.distortions.clear();
        self.chances = Chances::default();
        self.down = false;
    }

    /// The calls that were made, oldest first, as far as they are remembered.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    /// Forgets the calls that were made.
    pub fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Takes a call in, and says what is in store for it.
    pub fn judge(&mut self, at: Duration, kind: CallKind, group: Option<&str>, detail: String) -> Verdict {
        let mishap = self.mishap(kind, group);
        let latency = self.chances.latency.clone();
        let (mut there, back) = (draw(&mut self.rng, &latency), draw(&mut self.rng, &latency));
        if let Some(Mishap::Slow(longer)) = &mishap {
            there += *longer;
        }
        let call = Call { at, kind, group: group.map(str::to_owned), detail, mishap: mishap.clone() };
        if self.calls.len() >= CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        Verdict { there, mishap, back }
    }

    /// What befalls a group in an answer.
    pub fn distortion(&mut self, kind: CallKind, group: &str) -> Option<Distortion> {
        if let Some(scripted) = take(&mut self.distortions, kind, Some(group)) {
            return Some(scripted);
        }
        if self.chances.stale > 0.0 && self.rng.f64() < self.chances.stale {
            return Some(Distortion::Stale(draw(&mut self.rng, &self.chances.stale_by)));
        }
        None
    }

    /// How old an answer can be.
    pub(super) fn horizon(&self) -> Duration {
        let scripted = self.distortions.iter().filter_map(|scripted| match scripted.what {
            Distortion::Stale(age) => Some(age),
            _ => None,
        });
        let by_chance = if self.chances.stale > 0.0 { *self.chances.stale_by.end() } else { Duration::ZERO };
        scripted.max().unwrap_or_default().max(by_chance)
    }

    fn mishap(&mut self, kind: CallKind, group: Option<&str>) -> Option<Mishap> {
        if self.down {
            return Some(Mishap::Unreachable);
        }
        if let Some(scripted) = take(&mut self.mishaps, kind, group) {
            return Some(scripted);
        }
        let Chances { throttled, retry_after, unreachable, lost_answer, conflict, .. } = self.chances;
        let conflict = if kind.writes() { conflict } else { 0.0 };
        let mut draw = self.rng.f64();
        for (probability, mishap) in [
            (throttled, Mishap::Throttled { retry_after }),
            (unreachable, Mishap::Unreachable),
            (lost_answer, Mishap::LostAnswer),
            (conflict, Mishap::Conflict),
        ] {
            if draw < probability {
                return Some(mishap);
            }
            draw -= probability;
        }
        None
    }
}

/// Takes the first scripted thing that matches.
fn take<T: Clone>(scripted: &mut Vec<Scripted<T>>, kind: CallKind, group: Option<&str>) -> Option<T> {
    scripted.retain(|one| one.times > 0);
    let matching = scripted.iter_mut().find(|one| {
        one.kind.is_none_or(|wanted| wanted == kind) && one.group.as_deref().is_none_or(|wanted| group == Some(wanted))
    })?;
    matching.times -= 1;
    Some(matching.what.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_befalls_the_calls_it_names_and_then_no_more() {
        let mut faults = Faults::new(1);
        faults.script(Some(CallKind::SetCapacity), Some("web"), 2, Mishap::Conflict);
        let mut mishap = |kind, group| faults.judge(Duration::ZERO, kind, group, String::new()).mishap;
        assert_eq!(mishap(CallKind::Observe, Some("web")), None);
        assert_eq!(mishap(CallKind::SetCapacity, Some("gpu")), None);
        assert_eq!(mishap(CallKind::SetCapacity, Some("web")), Some(Mishap::Conflict));
        assert_eq!(mishap(CallKind::SetCapacity, Some("web")), Some(Mishap::Conflict));
        assert_eq!(mishap(CallKind::SetCapacity, Some("web")), None);
        assert_eq!(faults.calls().count(), 5);
    }

    #[test]
    fn chances_are_met_about_as_often_as_they_say() {
        let mut faults = Faults::new(1);
        faults.chances.throttled = 0.1;
        faults.chances.lost_answer = 0.2;
        let met: Vec<_> = (0..1000)
            .filter_map(|_| faults.judge(Duration::ZERO, CallKind::Observe, None, String::new()).mishap)
            .collect();
        let lost = met.iter().filter(|mishap| **mishap == Mishap::LostAnswer).count();
        assert!((150..250).contains(&lost) && (250..350).contains(&met.len()), "{lost} of {}", met.len());
    }
}
