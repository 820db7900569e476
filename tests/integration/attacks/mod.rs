//! Attacks on the real binary. Each one is repeated here in a size that shows whether the limit holds.

mod access;
mod admin;
mod certificates;
mod grpc;
mod log;
mod strangers;
