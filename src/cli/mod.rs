//! (to come)
pub mod shutdown;
