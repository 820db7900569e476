//! The protocol boundary: translates between the protocol's messages and the fleet. Nothing here names a cloud.

#[cfg(test)]
mod authority;
pub mod deadline;
pub mod dialect;
mod encoding;
mod gpu;
mod listen;
mod listener;
mod message;
mod metering;
mod metrics;
mod nodes;
mod options;
pub mod parsers;
pub mod peer;
mod pricing;
pub mod proto;
mod server;
mod service;
mod status;
pub mod tls;

pub use dialect::Dialect;
pub use gpu::Gpu;
pub use listen::{Listen, ListenError};
pub use listener::{Listener, Refusals};
pub use metrics::{GRPC_FAMILIES, GrpcMetrics, METHODS, ServiceTotals};
pub use server::{Settings, serve, service};
