//! The real Cluster Autoscaler, with a real API server, scheduler and etcd, against the real Headcount binary over the
//! emulators.
//!
//! `tests/autoscaler/run` builds those programs and sets [`BINARIES`]; without it, the scenarios are skipped. No
//! kubelet runs: [`nodes`] registers a Node for each instance that runs in the simulated cloud.

mod admission;
mod api;
mod beside;
mod chart;
mod client;
mod cluster;
mod devices;
mod endpoint;
mod fixture;
mod folder;
mod in_tree;
mod in_tree_provider;
mod laptop;
mod latency;
mod nodes;
mod process;
mod relay;
mod scenario;
mod scenarios;
mod trial;

/// The variable with the folder of the programs under test.
pub(crate) const BINARIES: &str = "HEADCOUNT_AUTOSCALER_BINARIES";

/// The variable with the folder that keeps the logs of failed scenarios.
pub(crate) const LOGS: &str = "HEADCOUNT_AUTOSCALER_LOGS";
