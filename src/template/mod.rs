//! Node templates.
pub mod node;
