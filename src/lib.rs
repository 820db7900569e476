//! Headcount: an external cloud provider for the Kubernetes Cluster Autoscaler.
//!
//! Imports run downward only, in this order; `tests/integration/architecture.rs` fails on any other arrow.

pub mod admin;
pub mod check;
pub mod cli;
pub mod cloud;
pub mod clouds;
pub mod config;
pub mod fleet;
pub mod grpc;
pub mod instance_types;
pub mod kubernetes;
#[cfg(test)]
mod properties;
pub mod template;
