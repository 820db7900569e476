//! Azure VM scale sets. So far what the configuration says of them; nothing serves them yet.

#[allow(dead_code, reason = "implemented and called by what comes next")]
mod api;
mod settings;

pub use settings::{AzureCloud, Credential, LabelQuery, Secret, Settings};
