//! Azure Resource Manager for scale sets, their machines, operations and sizes, and the token endpoints. With TLS it
//! requires a token.

mod autoscale;
mod behavior;
mod errors;
mod headers;
mod machines;
mod operations;
mod paging;
mod prices;
mod router;
mod scale_sets;
mod sizes;
mod tests;
mod tokens;
mod writes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use headcount::clouds::simulated::{RESOURCE_GROUP, SUBSCRIPTION, Simulated};

use super::Emulator;
use super::certificate_authority::CertificateAuthority;
use super::core::{EmulatorCore, lock};
use super::http_client::send;
use super::http_messages::HttpResponse;
use super::http_server::{HttpServer, RequestHandler};

pub(crate) use behavior::{Behavior, Etags, GroupDetails, MissingInstance, Tracking, WriteAnswer};
pub(crate) use errors::{denied, error, throttled};
pub(crate) use prices::PRICES;
use router::ArmApi;
pub(crate) use tokens::Issued;

/// An ARM endpoint of a simulated cloud. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Arm {
    api: Arc<ArmApi>,
    port: HttpServer,
    /// Another port with TLS, and the certificate of its authority.
    secure: Option<(HttpServer, String)>,
}

impl Arm {
    /// Starts one on a free loopback port.
    pub(crate) fn start(simulated: Arc<Simulated>) -> Self {
        let api = Arc::new(ArmApi::new(simulated));
        let port = HttpServer::open(Arc::clone(&api) as Arc<dyn RequestHandler>);
        Self { api, port, secure: None }
    }

    /// The same with TLS.
    pub(crate) fn start_secure(simulated: Arc<Simulated>, authority: &CertificateAuthority) -> Self {
        let api = Arc::new(ArmApi::new(simulated));
        let port = HttpServer::open_secure(Arc::clone(&api) as Arc<dyn RequestHandler>, authority.server());
        Self { api, port, secure: None }
    }

    /// With a second port, which has TLS.
    pub(crate) fn with_secure_port(mut self, authority: &CertificateAuthority) -> Self {
        let port = HttpServer::open_secure(Arc::clone(&self.api) as Arc<dyn RequestHandler>, authority.server());
        self.secure = Some((port, authority.pem()));
        self
    }

    /// The issued tokens, oldest first.
    pub(crate) fn issued(&self) -> Vec<Issued> {
        lock(&self.api.issued).clone()
    }

    /// Refuses all tokens that were issued so far.
    pub(crate) fn revoke_tokens(&self) {
        lock(&self.api.issued).iter_mut().for_each(|issued| issued.is_revoked = true);
    }

    /// Changes the behavior of the emulator.
    pub(crate) fn behavior(&self, change: impl FnOnce(&mut Behavior)) {
        change(&mut lock(&self.api.behavior));
    }

    /// Changes details of a scale set that the simulated cloud does not have.
    pub(crate) fn group_details(&self, scale_set: &str, change: impl FnOnce(&mut GroupDetails)) {
        change(lock(&self.api.group_details).entry(scale_set.to_owned()).or_default());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Makes the next response to each GET with such a path the current one, which is stale by then.
    pub(crate) async fn repeat_itself(&self, ends: &[&str]) {
        let mut old = BTreeMap::new();
        for request in self.requests().into_iter().filter(|request| request.method == "GET") {
            if ends.iter().any(|end| request.path.to_ascii_lowercase().ends_with(&end.to_ascii_lowercase())) {
                old.insert(format!("{}?", request.path), format!("{}?{}", request.path, request.query));
            }
        }
        for (part, target) in old {
            let reply = send(self.address(), "GET", &target, &[], "").await.expect("a response");
            self.script("GET", &part, 1, HttpResponse::json(reply.status, &reply.json()));
        }
    }
}

impl Emulator for Arm {
    fn core(&self) -> &EmulatorCore {
        &self.api.core
    }

    fn url(&self) -> String {
        self.port.url()
    }

    fn secure(&self) -> Option<(String, String)> {
        self.secure.as_ref().map(|(port, authority)| (port.url(), authority.clone()))
    }

    fn cloud(&self) -> &'static str {
        "azure"
    }

    fn settings(&self) -> Vec<String> {
        vec![
            format!("subscriptionId: {SUBSCRIPTION}"),
            format!("resourceGroup: {RESOURCE_GROUP}"),
            format!("endpoint: {}", self.url()),
        ]
    }
}
