//! The gRPC edge.
pub mod deadline;
pub mod dialect;
pub mod proto;
