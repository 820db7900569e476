//! The protocol's edge: it translates between messages and the fleet, and knows no cloud.

#[cfg(test)]
mod authority;
pub mod deadline;
pub mod dialect;
mod gpu;
pub mod listener;
pub mod peer;
pub mod proto;
mod server;
mod service;
mod status;
pub mod tls;

pub use gpu::Gpu;
pub use server::{Settings, serve, service};
