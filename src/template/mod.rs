//! Node templates: what a new node of a group will look like.
//!
//! One pipeline, machine → capacity → reserved → allocatable, then labels and taints. Each value carries its source and
//! the next most trusted one; `headcount template` prints them. A value may be low, never high: a template that promises
//! more than the node has makes the Cluster Autoscaler add nodes for ever.

mod build;
mod capacity;
mod error;
mod labels;
mod learned;
pub mod node;
mod overrides;
mod pods;
mod reserved;
pub mod show;
pub mod spread;
#[cfg(test)]
mod tests;

pub use build::{Input, NodeTemplate, Value, build};
pub use error::TemplateError;
pub use overrides::{GroupOverrides, ReservedRule, Threshold, ThresholdError};
pub use reserved::{parse_profile, profile_name};
