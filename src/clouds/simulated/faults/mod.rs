//! Fault injection: scripted faults of calls and responses, and changes that do not come through the API of the caller.
//!
//! Only tests have it (the feature `faults`). Any other build has `no_faults.rs` in its place. `incident.rs` has what
//! the demo can do.

mod external;
mod past_readings;
mod read_fault;
mod source;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fastrand::Rng;

use super::call::{CallFault, CallKind, CallPlan, FaultRates};
use super::script::Script;
pub(super) use past_readings::PastReadings;
pub use read_fault::ReadFault;

/// The number of calls that are kept.
const CALLS_MAX: usize = 10_000;

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it arrived, since the beginning of the world.
    pub at: Duration,
    /// Which call.
    pub kind: CallKind,
    /// Its group.
    pub group: Option<String>,
    /// Its arguments.
    pub detail: String,
    /// The fault that it met.
    pub call_fault: Option<CallFault>,
    /// How long its request and its response took together.
    pub delay: Duration,
}

/// The faults of one simulated cloud, and the calls that were made to it.
#[derive(Debug)]
pub struct Faults {
    /// How often calls fail at random.
    pub rates: FaultRates,
    /// Whether the cloud is unreachable.
    pub down: bool,
    /// For how long after a write without a response reads may show the group as it was before it.
    pub lag_after_loss: Duration,
    /// How old the reads of a group are, always: neither cloud promises that a read shows the last write.
    pub read_lags: BTreeMap<String, Duration>,
    /// Calls that the caller is not permitted to make.
    pub denied: BTreeSet<CallKind>,
    /// When the last write to each group was sent that got no response.
    lost: BTreeMap<String, Duration>,
    /// When reads showed each group as it had been before, and how long before.
    stale: BTreeMap<String, BTreeMap<Duration, Duration>>,
    rng: Rng,
    call_faults: Script<CallFault>,
    read_faults: Script<ReadFault>,
    calls: VecDeque<Call>,
}

impl Faults {
    /// No faults.
    pub fn new(seed: u64) -> Self {
        Self {
            rates: FaultRates::default(),
            down: false,
            lag_after_loss: Duration::ZERO,
            read_lags: BTreeMap::new(),
            denied: BTreeSet::new(),
            lost: BTreeMap::new(),
            stale: BTreeMap::new(),
            rng: Rng::with_seed(seed),
            call_faults: Script::default(),
            read_faults: Script::default(),
            calls: VecDeque::new(),
        }
    }

    /// Gives this fault to the next `times` calls that match; `None` matches all.
    pub fn script(&mut self, kind: Option<CallKind>, group: Option<&str>, times: u32, what: CallFault) {
        self.call_faults.add(kind, group, times, what);
    }

    /// Gives this fault to the next `times` reads of this group; `None` matches every kind of read.
    pub fn script_read(&mut self, kind: Option<CallKind>, group: &str, times: u32, what: ReadFault) {
        self.read_faults.add(kind, Some(group), times, what);
    }

    /// Whether a scripted read fault is still to come.
    pub fn has_scripted_reads(&self) -> bool {
        self.read_faults.waiting().next().is_some()
    }

    /// Removes all faults.
    pub fn clear(&mut self) {
        self.call_faults = Script::default();
        self.read_faults = Script::default();
        self.rates = FaultRates::default();
        self.down = false;
        self.lag_after_loss = Duration::ZERO;
        self.read_lags.clear();
        self.denied.clear();
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
        if let Some(group) = group.filter(|_| kind.writes() && loses_response(call_fault.as_ref())) {
            self.lost.insert(group.to_owned(), at);
        }
        let planned = self.rates.plan(&mut self.rng, call_fault.clone());
        let delay = planned.delay_before + planned.delay_after;
        let call = Call { at, kind, group: group.map(str::to_owned), detail, call_fault, delay };
        if self.calls.len() >= CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        planned
    }

    /// The next fault of a read of a group.
    pub fn read_fault(&mut self, at: Duration, kind: CallKind, group: &str) -> Option<ReadFault> {
        let read_fault = self.next_read_fault(at, kind, group);
        if let Some(ReadFault::Stale(age)) = read_fault {
            let stale = self.stale.entry(group.to_owned()).or_default();
            stale.insert(at, age);
            if stale.len() > CALLS_MAX {
                stale.pop_first();
            }
        }
        read_fault
    }

    /// When a read last showed a group as it had been before.
    pub fn last_stale_read(&self, group: &str) -> Option<Duration> {
        self.stale.get(group)?.last_key_value().map(|(at, _)| *at)
    }

    /// The reads that showed a group as it had been before, oldest first: when each was answered, and the moment whose
    /// state it showed.
    pub fn stale_reads(&self, group: &str) -> impl Iterator<Item = (Duration, Duration)> {
        let stale = self.stale.get(group).into_iter().flatten();
        stale.map(|(at, age)| (*at, at.saturating_sub(*age)))
    }

    fn next_read_fault(&mut self, at: Duration, kind: CallKind, group: &str) -> Option<ReadFault> {
        if let Some(scripted) = self.read_faults.take(kind, Some(group)) {
            return Some(scripted);
        }
        if let Some(lag) = self.read_lags.get(group) {
            return Some(ReadFault::Stale(*lag));
        }
        let since_lost = self.lost.get(group).map(|lost| at.saturating_sub(*lost));
        let age = since_lost.filter(|age| *age < self.lag_after_loss).filter(|_| self.rng.bool())?;
        Some(ReadFault::Stale(age + Duration::from_millis(1)))
    }

    /// How old a response can be.
    fn horizon(&self) -> Duration {
        let ages = self.read_faults.waiting().filter_map(|read_fault| match read_fault {
            ReadFault::Stale(age) => Some(*age),
            _ => None,
        });
        let lag = self.read_lags.values().copied().max().unwrap_or_default();
        ages.max().unwrap_or_default().max(self.lag_after_loss).max(lag)
    }

    fn call_fault(&mut self, kind: CallKind, group: Option<&str>) -> Option<CallFault> {
        if self.down {
            return Some(CallFault::Unreachable);
        }
        if self.denied.contains(&kind) {
            return Some(CallFault::Denied);
        }
        let scripted = self.call_faults.take(kind, group);
        scripted.or_else(|| self.rates.draw_fault(&mut self.rng, kind))
    }
}

fn loses_response(call_fault: Option<&CallFault>) -> bool {
    matches!(call_fault, Some(CallFault::LostResponse | CallFault::Malformed | CallFault::Late(_)))
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
