//! (to come)
mod settings;
pub use settings::Settings;
