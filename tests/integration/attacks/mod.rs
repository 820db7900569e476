//! Attacks on the real binary. Each one is large enough to show whether the limit holds.

mod access;
mod admin;
pub(crate) mod behaved;
pub(crate) mod certificates;
mod configuration;
mod elsewhere;
mod endless;
mod files;
mod frames;
mod grpc;
pub(crate) mod load;
mod log;
mod memory;
mod metadata;
mod responses;
mod secrets;
mod strangers;
mod trace;
