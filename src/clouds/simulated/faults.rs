//! Faults between a simulated cloud and its callers: random ones, and scripted ones.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;

use super::call::{Call, CallFault, CallKind, FaultRates, ReadFault};
use super::chance::draw;

/// The number of calls that are kept.
const CALLS_MAX: usize = 10_000;

/// How one call goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPlan {
    /// How long the request takes.
    pub delay_before: Duration,
    /// The fault that it meets.
    pub call_fault: Option<CallFault>,
    /// How long the response takes.
    pub delay_after: Duration,
}

/// A fault for the next calls that match.
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
    /// How often calls fail at random.
    pub rates: FaultRates,
    /// Whether the cloud is unreachable.
    pub down: bool,
    rng: Rng,
    call_faults: Vec<Scripted<CallFault>>,
    read_faults: Vec<Scripted<ReadFault>>,
    calls: VecDeque<Call>,
}

impl Faults {
    /// No faults.
    pub fn new(seed: u64) -> Self {
        Self {
            rates: FaultRates::default(),
            down: false,
            rng: Rng::with_seed(seed),
            call_faults: Vec::new(),
            read_faults: Vec::new(),
            calls: VecDeque::new(),
        }
    }

    /// Gives the next `times` calls that match this fault; `None` matches all.
    pub fn script(&mut self, kind: Option<CallKind>, group: Option<&str>, times: u32, what: CallFault) {
        self.call_faults.push(Scripted { kind, group: group.map(str::to_owned), times, what });
    }

    /// Gives the next `times` reads of this group this fault; `None` matches every kind of read.
    pub fn script_read(&mut self, kind: Option<CallKind>, group: &str, times: u32, what: ReadFault) {
        self.read_faults.push(Scripted { kind, group: Some(group.to_owned()), times, what });
    }

    /// Whether a scripted read fault is still to come.
    pub fn has_scripted_reads(&self) -> bool {
        self.read_faults.iter().any(|scripted| scripted.times > 0)
    }

    /// Removes all faults.
    pub fn clear(&mut self) {
        self.call_faults.clear();
        self.read_faults.clear();
        self.rates = FaultRates::default();
        self.down = false;
    }

    /// The calls that are kept, oldest first.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    /// Drops the calls that are kept.
    pub fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Records a call and decides how it goes.
    pub fn begin_call(&mut self, at: Duration, kind: CallKind, group: Option<&str>, detail: String) -> CallPlan {
        let call_fault = self.call_fault(kind, group);
        let latency = self.rates.latency.clone();
        let (mut delay_before, delay_after) = (draw(&mut self.rng, &latency), draw(&mut self.rng, &latency));
        if let Some(CallFault::Slow(longer)) = &call_fault {
            delay_before += *longer;
        }
        let call = Call { at, kind, group: group.map(str::to_owned), detail, call_fault: call_fault.clone() };
        if self.calls.len() >= CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        CallPlan { delay_before, call_fault, delay_after }
    }

    /// The next fault of a read of a group.
    pub fn read_fault(&mut self, kind: CallKind, group: &str) -> Option<ReadFault> {
        if let Some(scripted) = take(&mut self.read_faults, kind, Some(group)) {
            return Some(scripted);
        }
        if self.rates.stale > 0.0 && self.rng.f64() < self.rates.stale {
            return Some(ReadFault::Stale(draw(&mut self.rng, &self.rates.stale_by)));
        }
        None
    }

    /// How old a response can be.
    pub(super) fn horizon(&self) -> Duration {
        let scripted = self.read_faults.iter().filter_map(|scripted| match scripted.what {
            ReadFault::Stale(age) => Some(age),
            _ => None,
        });
        let by_chance = if self.rates.stale > 0.0 { *self.rates.stale_by.end() } else { Duration::ZERO };
        scripted.max().unwrap_or_default().max(by_chance)
    }

    fn call_fault(&mut self, kind: CallKind, group: Option<&str>) -> Option<CallFault> {
        if self.down {
            return Some(CallFault::Unreachable);
        }
        if let Some(scripted) = take(&mut self.call_faults, kind, group) {
            return Some(scripted);
        }
        let FaultRates { throttled, retry_after, unreachable, lost_response, conflict, .. } = self.rates;
        let conflict = if kind.writes() { conflict } else { 0.0 };
        let mut draw = self.rng.f64();
        for (probability, call_fault) in [
            (throttled, CallFault::Throttled { retry_after }),
            (unreachable, CallFault::Unreachable),
            (lost_response, CallFault::LostResponse),
            (conflict, CallFault::Conflict),
        ] {
            if draw < probability {
                return Some(call_fault);
            }
            draw -= probability;
        }
        None
    }
}

/// Takes the first scripted fault that matches.
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
    fn a_scripted_fault_meets_the_calls_it_names_and_no_others() {
        let mut faults = Faults::new(1);
        faults.script(Some(CallKind::SetCapacity), Some("web"), 2, CallFault::Conflict);
        let mut call_fault = |kind, group| faults.begin_call(Duration::ZERO, kind, group, String::new()).call_fault;
        assert_eq!(call_fault(CallKind::Observe, Some("web")), None);
        assert_eq!(call_fault(CallKind::SetCapacity, Some("gpu")), None);
        assert_eq!(call_fault(CallKind::SetCapacity, Some("web")), Some(CallFault::Conflict));
        assert_eq!(call_fault(CallKind::SetCapacity, Some("web")), Some(CallFault::Conflict));
        assert_eq!(call_fault(CallKind::SetCapacity, Some("web")), None);
        assert_eq!(faults.calls().count(), 5);
    }

    #[test]
    fn random_faults_are_about_as_frequent_as_their_rates() {
        let mut faults = Faults::new(1);
        faults.rates.throttled = 0.1;
        faults.rates.lost_response = 0.2;
        let met: Vec<_> = (0..1000)
            .filter_map(|_| faults.begin_call(Duration::ZERO, CallKind::Observe, None, String::new()).call_fault)
            .collect();
        let lost = met.iter().filter(|call_fault| **call_fault == CallFault::LostResponse).count();
        assert!((150..250).contains(&lost) && (250..350).contains(&met.len()), "{lost} of {}", met.len());
    }
}
