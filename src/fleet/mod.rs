//! (to come)
pub mod options;
