//! Incidents between an autoscaler and its provider, on any cloud.

mod options;
mod readiness;
mod refresh;
mod templates;
mod writes;
