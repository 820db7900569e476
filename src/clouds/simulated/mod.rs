//! A cloud in memory, for the demo and the tests.
//!
//! [`World`] is the engine: groups, instances, operations, activities and their scheduled changes. It does no I/O, so the
//! HTTP emulators in the tests share it. [`Simulated`] adds a clock (tokio's), a lock and faults between the cloud and its
//! callers, and is the [`Cloud`](crate::cloud::Cloud) that `fleet` sees.
//!
//! As the real clouds do, it deletes instances of its own choice when a write sets a capacity below the live instances. It
//! records every instance that it deletes this way, so that a test can check for them.

mod adapter;
mod call;
mod chance;
mod demo;
mod errors;
mod external;
mod faults;
mod group;
mod history;
mod ids;
mod lifecycle;
mod member;
mod outcome;
mod past_readings;
mod plan;
mod reading;
mod record;
mod scale_set;
mod scaling_group;
mod source;
#[cfg(test)]
mod tests;
mod types;
mod world;

pub use crate::config::settings::simulated::Settings;
pub use call::{Call, CallFault, CallKind, FaultRates, ReadFault};
pub use chance::{Pick, Span, seconds};
pub use faults::{CallPlan, Faults};
pub use group::Group;
pub use ids::{RESOURCE_GROUP, SUBSCRIPTION};
pub use member::{Member, Phase};
pub use outcome::{DeleteOutcome, LaunchOutcome, PlannedFailure};
pub use plan::{Accounting, GroupPlan, GroupStyle, Overlap, Victims};
pub use record::{
    Activity, ActivityKind, ActivityStatus, Author, DeletionResult, Ending, Event, Killed, Operation, OperationKind,
    Refusal, RefusalKind,
};
pub use source::Simulated;
pub use world::{World, wall_clock};
