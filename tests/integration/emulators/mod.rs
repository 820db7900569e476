//! HTTP emulators of the simulated cloud: what Headcount's real clients talk to in tests.
//!
//! An emulator speaks a cloud's own wire protocol, and knows nothing of what happens: that is the simulated cloud's, whose
//! faults and distortions befall its answers too. What no fault can say, a scripted answer says.

pub(crate) mod arm;
pub(crate) mod authority;
pub(crate) mod aws;
mod backstage;
mod exchange;
pub(crate) mod kubernetes;
mod plain;
mod port;
pub(crate) mod scene;
mod sight;

use std::sync::Arc;

use headcount::clouds::simulated::Simulated;

use backstage::Backstage;
pub(crate) use backstage::Moment;
pub(crate) use exchange::{Answer, Request};

/// What all emulators have in common.
pub(crate) trait Emulator {
    /// What it stands on.
    fn backstage(&self) -> &Backstage;

    /// Where it answers.
    fn url(&self) -> String;

    /// What `headcount.yaml` calls a source that is this cloud.
    fn cloud(&self) -> &'static str;

    /// The settings of such a source but its groups: lines of `headcount.yaml`.
    fn settings(&self) -> Vec<String>;

    /// The simulated cloud behind it.
    fn simulated(&self) -> &Arc<Simulated> {
        &self.backstage().simulated
    }

    /// Everything that was asked, oldest first.
    fn requests(&self) -> Vec<Request> {
        self.backstage().requests()
    }

    /// What was asked by this method with this part in path, query or body, in any case.
    fn requests_with(&self, method: &str, part: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.matches(method, part)).collect()
    }

    /// Forgets what was asked.
    fn forget_requests(&self) {
        self.backstage().forget_requests();
    }

    /// The next so many requests of this method with this part in path, query or body get this answer, and have no
    /// effect.
    fn script(&self, method: &str, part: &str, times: u32, answer: Answer) {
        self.backstage().script(method, part, times, answer);
    }
    /// Keeps requests of this method with this part in path, query or body waiting at this moment, in place of those that
    /// were kept waiting before.
    fn hold(&self, method: &str, part: &str, moment: Moment) {
        self.backstage().hold(method, part, moment);
    }

    /// Keeps none waiting any longer.
    fn let_go(&self) {
        self.backstage().let_go();
    }
}
