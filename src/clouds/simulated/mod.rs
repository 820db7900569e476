//! A cloud in memory: the demo, and what the tests run on.
//!
//! [`World`] is the engine: groups, instances, operations and activities, and what falls due in them. It is pure, so
//! that an HTTP emulator can be put on it as well. [`Simulated`] gives it a clock (tokio's), a lock, and the things that go
//! wrong between a cloud and its callers, and is the [`Cloud`](crate::cloud::Cloud) that `fleet` sees.
//!
//! Like the real clouds, and unlike what one would wish, it kills instances of its own choice when a write takes a
//! capacity below what lives. Every such death is recorded, which is how a test finds out.

mod adapter;
mod call;
mod chance;
mod demo;
mod errors;
mod faults;
mod group;
mod ids;
mod ledger;
mod lifecycle;
mod member;
mod memory;
mod outside;
mod plan;
mod reading;
mod record;
mod scale_set;
mod scaling_group;
mod source;
#[cfg(test)]
mod tests;
mod trouble;
mod types;
mod world;

pub use crate::config::settings::simulated::Settings;
pub use call::{Call, CallKind, Chances, Distortion, Mishap};
pub use chance::{Pick, Span, seconds};
pub use faults::{Faults, Verdict};
pub use group::Group;
pub use ids::{RESOURCE_GROUP, SUBSCRIPTION};
pub use member::{Member, Phase};
pub use plan::{Accounting, GroupPlan, Kind, Overlap, Victims};
pub use record::{
    Activity, ActivityKind, ActivityStatus, Author, Ending, Event, Killed, Operation, OperationKind, Receipt, Refusal,
    RefusalKind,
};
pub use source::Simulated;
pub use trouble::{DeleteOutcome, LaunchOutcome, PlannedFailure};
pub use world::{World, wall_clock};
