//! What goes wrong between an autoscaler and those that serve it, whatever the cloud.

mod options;
mod readiness;
mod refresh;
mod templates;
mod writes;
