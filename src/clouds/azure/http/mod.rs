//! HTTP: the client for all of Azure, and the parts of an error response. Imports nothing else of [`super`].

mod error_body;
mod lifetime;
#[cfg(test)]
mod loopback;
mod proxy;
mod refusal;
#[cfg(test)]
mod rerouted;
mod transport;

pub(super) use error_body::{ErrorBody, is_throttling, retry_after};
#[cfg(test)]
pub(super) use loopback::{Loopback, Reply};
pub(super) use refusal::{Refusal, readable};
#[cfg(test)]
pub(super) use rerouted::Rerouted;
pub(super) use transport::{HttpResponse, Transport, TransportError};
