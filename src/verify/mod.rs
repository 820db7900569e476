//! `headcount verify`: measures on one node group, which its owner set aside, whether a cloud does as Headcount assumes.
//!
//! `probe` lists what is assumed, `guard` says which groups may be used and what it costs. `run` goes through the
//! stages: each brings the group to a known size, writes, reads, and judges. `settle` decides what brings a group to a
//! size, also at the end and after a stop. All of it works through the trait of a cloud.

mod clock;
mod evidence;
mod guard;
mod limits;
mod probe;
mod report;
mod run;
mod settle;
mod stages;
mod state;
mod subject;
#[cfg(test)]
mod tests;
mod verdict;

pub use clock::{Clock, TokioClock};
pub use evidence::Observation;
pub use guard::{Bounds, Ineligible, Plan, plan};
pub use limits::{INSTANCES_MAX_DEFAULT, OWN_INSTANCES_MAX, VMS_AT_START_MAX};
pub use probe::{Origin, Probe};
pub use report::{Report, Step};
pub use run::{Outcome, Setup, run};
pub use state::{Found, State, StateError};
pub use subject::{Event, Watch};
pub use verdict::{Finding, Verdict};
