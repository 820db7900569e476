//! What goes wrong between an autoscaler and those that serve it, whatever the cloud.

mod options;
mod refresh;
mod templates;
mod writes;
