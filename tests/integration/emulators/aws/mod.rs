//! AWS, as far as Auto Scaling groups, their activities and what they launch are concerned: EC2 Auto Scaling and EC2 in
//! the Query protocol, EKS in REST, all at one endpoint.

mod activities;
mod eks;
mod errors;
mod front;
mod groups;
mod habits;
mod launch;
mod policies;
mod tests;
mod types;
mod writes;
mod xml;

use std::sync::Arc;

use headcount::clouds::simulated::Simulated;

use super::Emulator;
use super::backstage::{Backstage, lock};
use super::port::Port;

pub(crate) use errors::error;
use front::Counter;
pub(crate) use habits::{Busy, Habits, Launch, Look, Override, Past, Requirements};

/// An AWS endpoint in front of a simulated cloud. It closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Aws {
    counter: Arc<Counter>,
    port: Port,
}

impl Aws {
    /// Opens one on a free loopback port.
    pub(crate) fn start(simulated: Arc<Simulated>) -> Self {
        let counter = Arc::new(Counter::new(simulated));
        let port = Port::open(Arc::clone(&counter) as Arc<dyn super::port::Front>);
        Self { counter, port }
    }

    /// Changes how it behaves.
    pub(crate) fn habits(&self, change: impl FnOnce(&mut Habits)) {
        change(&mut lock(&self.counter.habits));
    }

    /// Changes what the simulated cloud does not know of a group.
    pub(crate) fn look(&self, group: &str, change: impl FnOnce(&mut Look)) {
        change(lock(&self.counter.looks).entry(group.to_owned()).or_default());
    }
}

impl Emulator for Aws {
    fn backstage(&self) -> &Backstage {
        &self.counter.backstage
    }

    fn url(&self) -> String {
        self.port.url()
    }

    fn cloud(&self) -> &'static str {
        "aws"
    }

    fn settings(&self) -> Vec<String> {
        vec!["region: us-east-1".to_owned(), format!("endpoint: {}", self.url())]
    }
}
