//! Attacks on the real binary. Each one is large enough to show whether the limit holds.

mod access;
mod admin;
pub(crate) mod behaved;
pub(crate) mod certificates;
mod configuration;
mod elsewhere;
mod frames;
mod grpc;
pub(crate) mod load;
mod log;
mod metadata;
mod responses;
mod secrets;
mod strangers;
