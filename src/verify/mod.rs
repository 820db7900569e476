//! `headcount verify`: measures on one node group, which its owner set aside, whether a cloud does as Headcount
//! assumes.
//!
//! `probe` lists what is assumed, `choice` finds the group, `guard` says which groups may be used and `cost` what that
//! costs. `run` goes through the stages: each brings the group to a known size, writes, reads, and judges. `subject`
//! makes every call and keeps it as evidence, `settle` decides what brings a group to a size, and `restoration` does
//! that at the end and after a stop. All of it works through the trait of a cloud.

mod choice;
mod clock;
mod cost;
mod evidence;
mod guard;
mod limits;
mod probe;
mod redaction;
mod report;
mod restoration;
mod run;
mod settle;
mod stages;
mod state;
mod subject;
#[cfg(test)]
mod tests;
mod trouble;
mod verdict;
mod watch;

pub use choice::{Choice, ChoiceError, choose};
pub use clock::{Clock, TokioClock};
pub use cost::{Cost, TAKES};
pub use evidence::{HttpEvidence, Observation};
pub use guard::{Bounds, Ineligible, Plan, plan};
pub use limits::{INSTANCES_MAX_DEFAULT, OWN_INSTANCES_MAX, VMS_AT_START_MAX};
pub use probe::{Origin, Probe};
pub use report::{Report, Step};
pub use run::{Outcome, Setup, run};
pub use state::{Found, State, StateError};
pub use verdict::{Finding, Verdict};
pub use watch::{Event, Watch};
