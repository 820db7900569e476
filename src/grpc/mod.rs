//! The gRPC edge.
pub mod proto;
