//! Azure Resource Manager, as far as scale sets, their machines, operations and sizes are concerned, and the places that
//! tokens come from. Under TLS it lets nobody in without one.

mod autoscale;
mod errors;
mod front;
mod habits;
mod machines;
mod operations;
mod paging;
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
use super::authority::Authority;
use super::backstage::{Backstage, lock};
use super::exchange::Answer;
use super::plain::send;
use super::port::{Front, Port};

pub(crate) use errors::error;
use front::Window;
pub(crate) use habits::{Habits, Look, MissingInstance, Tracking, WriteAnswer};
pub(crate) use tokens::Issued;

/// An ARM endpoint in front of a simulated cloud. It closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Arm {
    window: Arc<Window>,
    port: Port,
}

impl Arm {
    /// Opens one on a free loopback port.
    pub(crate) fn start(simulated: Arc<Simulated>) -> Self {
        let window = Arc::new(Window::new(simulated));
        let port = Port::open(Arc::clone(&window) as Arc<dyn Front>);
        Self { window, port }
    }

    /// The same under TLS.
    pub(crate) fn start_secure(simulated: Arc<Simulated>, authority: &Authority) -> Self {
        let window = Arc::new(Window::new(simulated));
        let port = Port::open_secure(Arc::clone(&window) as Arc<dyn Front>, authority.server());
        Self { window, port }
    }

    /// The tokens that were given out, oldest first.
    pub(crate) fn issued(&self) -> Vec<Issued> {
        lock(&self.window.issued).clone()
    }

    /// Changes how it behaves.
    pub(crate) fn habits(&self, change: impl FnOnce(&mut Habits)) {
        change(&mut lock(&self.window.habits));
    }

    /// Changes what the simulated cloud does not know of a scale set.
    pub(crate) fn look(&self, scale_set: &str, change: impl FnOnce(&mut Look)) {
        change(lock(&self.window.looks).entry(scale_set.to_owned()).or_default());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// From now on the next answer to each GET with such a path is what it would be at this moment: an old one by the time.
    pub(crate) async fn repeat_itself(&self, ends: &[&str]) {
        let mut old = BTreeMap::new();
        for request in self.requests().into_iter().filter(|request| request.method == "GET") {
            if ends.iter().any(|end| request.path.to_ascii_lowercase().ends_with(&end.to_ascii_lowercase())) {
                old.insert(format!("{}?", request.path), format!("{}?{}", request.path, request.query));
            }
        }
        for (part, target) in old {
            let reply = send(self.address(), "GET", &target, &[], "").await.expect("answered");
            self.script("GET", &part, 1, Answer::json(reply.status, &reply.json()));
        }
    }
}

impl Emulator for Arm {
    fn backstage(&self) -> &Backstage {
        &self.window.backstage
    }

    fn url(&self) -> String {
        self.port.url()
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
