//! Incidents between an autoscaler and its provider, on any cloud.

mod options;
mod readiness;
mod refresh;
mod refusals;
mod taints;
mod templates;
mod writes;
