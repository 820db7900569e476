//! The gRPC edge.
#[cfg(test)]
mod authority;
pub mod deadline;
pub mod dialect;
pub mod listener;
pub mod peer;
pub mod proto;
pub mod tls;
