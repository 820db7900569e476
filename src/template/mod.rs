//! Node templates: what a new node of a group will look like.
//!
//! One pipeline: launch spec → capacity → reserved → allocatable, then labels and taints. Each value has its provenance
//! and the next most trusted value; `headcount template` prints them. A value may be too low but never too high: a
//! template that promises more than the node has makes the Cluster Autoscaler add nodes forever.

mod build;
mod capacity;
mod disk;
mod error;
mod labels;
mod launch_reserves;
mod learned;
pub mod node;
mod overrides;
mod pods;
mod reserved;
mod resource_slices;
pub mod show;
pub mod spread;
#[cfg(test)]
mod tests;

pub use build::{Input, NodeTemplate, Value, build};
pub use error::TemplateError;
pub use overrides::{GroupOverrides, ReservedRule, Threshold, ThresholdError};
pub use reserved::{parse_profile, profile_name};
