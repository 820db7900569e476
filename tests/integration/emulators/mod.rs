//! HTTP emulators of the simulated cloud: the tests let Headcount's real clients call them.
//!
//! An emulator implements a cloud's wire protocol over a simulated cloud, which has all the state. The simulated
//! cloud's faults apply to the emulator's responses too; for anything else, a test scripts a response.

pub(crate) mod arm;
#[cfg(feature = "aws")]
pub(crate) mod aws;
pub(crate) mod certificate_authority;
mod core;
mod http_client;
mod http_messages;
mod http_server;
pub(crate) mod kubernetes;
pub(crate) mod setup;
mod shown;

use std::sync::Arc;

use headcount::clouds::simulated::Simulated;

use core::EmulatorCore;
pub(crate) use core::HoldPoint;
pub(crate) use http_messages::{HttpResponse, Request};

/// What all emulators have in common.
pub(crate) trait Emulator {
    /// The part that all emulators share.
    fn core(&self) -> &EmulatorCore;

    /// Its endpoint.
    fn url(&self) -> String;

    /// Its endpoint with TLS, and the certificate of the authority that signed it, where it has one.
    fn secure(&self) -> Option<(String, String)> {
        None
    }

    /// The key of such a source in `headcount.yaml`.
    fn cloud(&self) -> &'static str;

    /// The settings of such a source except its groups, as lines of `headcount.yaml`.
    fn settings(&self) -> Vec<String>;

    /// The simulated cloud behind it.
    fn simulated(&self) -> &Arc<Simulated> {
        &self.core().simulated
    }

    /// All requests, oldest first.
    fn requests(&self) -> Vec<Request> {
        self.core().requests()
    }

    /// The requests of this method with this text in path, query or body, in any case.
    fn requests_with(&self, method: &str, part: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.matches(method, part)).collect()
    }

    /// Clears the recorded requests.
    fn forget_requests(&self) {
        self.core().forget_requests();
    }

    /// The next `times` requests of this method with this text in path, query or body get this response and have no
    /// effect.
    fn script(&self, method: &str, part: &str, times: u32, response: HttpResponse) {
        self.core().script(method, part, times, response);
    }

    /// Holds requests of this method with this text in path, query or body at this point. It replaces an earlier hold.
    fn hold(&self, method: &str, part: &str, moment: HoldPoint) {
        self.core().hold(method, part, moment);
    }

    /// Releases all held requests.
    fn release(&self) {
        self.core().release();
    }
}
