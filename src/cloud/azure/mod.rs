//! Azure VM scale sets. So far what the configuration says of them; nothing serves them yet.

mod settings;

pub use settings::{AzureCloud, Credential, LabelQuery, Secret, Settings};
