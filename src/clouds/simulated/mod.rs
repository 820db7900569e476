//! A cloud in memory, for the demo and the tests.
//!
//! [`World`] is the engine: groups, instances, operations, activities and their scheduled changes. It does no I/O, so
//! the HTTP emulators in the tests share it. [`Simulated`] adds a clock (tokio's), a lock and faults between the cloud
//! and its callers, and is the [`Cloud`](crate::cloud::Cloud) that `fleet` sees.
//!
//! The configuration can make calls fail at a rate, and the demo can make a few things happen (`incident.rs`). Only
//! tests have the feature `faults`, with which they script faults and change the world from outside.
//!
//! As the real clouds do, it deletes instances of its own choice when a write sets a capacity below the live instances.
//! It records every instance that it deletes this way, so that a test can check for them.

mod adapter;
mod agenda;
mod as_seen;
mod call;
mod chance;
mod demo;
mod errors;
#[cfg(feature = "faults")]
mod faults;
#[cfg(not(feature = "faults"))]
#[path = "no_faults.rs"]
mod faults;
mod group;
mod history;
mod ids;
mod incident;
mod late_write;
mod launch_call;
mod lifecycle;
mod member;
mod outcome;
mod plan;
mod reading;
mod record;
mod scale_set;
mod scaling_group;
mod script;
mod source;
mod surplus;
#[cfg(test)]
mod tests;
mod types;
mod world;

pub use crate::config::settings::simulated::Settings;
pub use call::{CallFault, CallKind, CallPlan, FaultRates};
pub use chance::{Pick, Span, seconds};
#[cfg(feature = "faults")]
pub use faults::{Call, Faults, ReadFault};
pub use group::Group;
pub use ids::{RESOURCE_GROUP, SUBSCRIPTION};
pub use launch_call::{LaunchAnswer, Raise};
pub use member::{Member, Phase};
pub use outcome::{DeleteOutcome, LaunchOutcome, PlannedFailure};
pub use plan::{Accounting, GroupPlan, GroupStyle, Overlap, RemovalOrder, Sizing};
pub use record::{
    Activity, ActivityKind, ActivityStatus, Author, DeletionResult, Ending, Event, Killed, Operation, OperationKind,
    Refusal, RefusalKind,
};
pub use source::{CLIENT_PATIENCE, Simulated};
pub use world::{World, wall_clock};
