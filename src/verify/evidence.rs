//! What the probes did and what came back, without names, IDs and texts of the cloud.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limits::{CODE_CHARS_MAX, EVIDENCE_MAX};
use crate::cloud::{CloudError, GroupReading, InstanceState, ProviderId};

/// One call, and what came back. Times are in seconds since the beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// When it was sent.
    pub at: f64,
    /// How long it took.
    pub took: f64,
    /// The call.
    pub call: String,
    /// What came back.
    pub response: String,
    /// How often the same came back in a row, where more than once.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u32,
}

fn once() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_once(times: &u32) -> bool {
    *times == 1
}

/// Reads of so many kinds take turns.
const LATELY: usize = 4;

/// All calls so far, and the labels of what they showed.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    observations: Vec<Observation>,
    machines: BTreeMap<ProviderId, usize>,
    etags: Vec<String>,
}

impl Evidence {
    /// Adds a call. A call that returns the same as the one of its kind before only counts.
    pub(super) fn add(&mut self, observation: Observation) {
        let is_full = self.observations.len() >= EVIDENCE_MAX;
        let mut lately = self.observations.iter_mut().rev().take(LATELY);
        match lately.find(|before| before.call == observation.call) {
            Some(before) if before.response == observation.response => before.times += 1,
            _ if !is_full => self.observations.push(observation),
            _ => {}
        }
    }

    pub(super) fn into_observations(self) -> Vec<Observation> {
        self.observations
    }

    /// A label for an instance, the same each time.
    pub(super) fn machine(&mut self, id: &ProviderId) -> String {
        let next = self.machines.len() + 1;
        format!("vm{}", self.machines.entry(id.clone()).or_insert(next))
    }

    /// A label for an etag, the same each time.
    pub(super) fn etag(&mut self, etag: &str) -> String {
        let known = self.etags.iter().position(|known| known == etag);
        let index = known.unwrap_or_else(|| {
            self.etags.push(etag.to_owned());
            self.etags.len() - 1
        });
        format!("e{}", index + 1)
    }

    /// What a reading shows.
    pub(super) fn reading(&mut self, reading: &GroupReading) -> String {
        let mut parts = vec![format!("capacity {}", reading.desired)];
        parts.extend(reading.etag.as_deref().map(|etag| self.etag(etag)));
        for instance in reading.instances.iter().flatten() {
            let state = match (&instance.failure, instance.state) {
                (Some(failure), _) => format!("failed ({})", code(&failure.code)),
                (None, InstanceState::Creating) => "creating".to_owned(),
                (None, InstanceState::Running) => "running".to_owned(),
                (None, InstanceState::Deleting) => "deleting".to_owned(),
            };
            let protected = if instance.is_protected { ", protected" } else { "" };
            parts.push(format!("{} {state}{protected}", self.machine(&instance.id)));
        }
        parts.join(", ")
    }
}

/// What is told of an error: its class and the cloud's code. Messages name what they are about.
pub(super) fn told(error: &CloudError) -> String {
    let class = match error {
        CloudError::Throttled { .. } => "throttled",
        CloudError::Unreachable(_) => "unreachable",
        CloudError::Denied(_) => "denied",
        CloudError::NotFound(_) => "not found",
        CloudError::Conflict(_) => "conflict",
        CloudError::OutOfResources(_) => "out of resources",
        CloudError::Refused(_) => "refused",
        CloudError::Unintelligible(_) => "invalid response",
        CloudError::Unsupported(_) => "unsupported",
    };
    match &error.fault().code {
        Some(text) => format!("{class} ({})", code(text)),
        None => class.to_owned(),
    }
}

/// A cloud's code, if it looks like one.
pub(super) fn code(text: &str) -> &str {
    let is_plain = |letter: char| letter.is_ascii_alphabetic() || letter == '.' || letter == '_';
    let is_code = text.len() <= CODE_CHARS_MAX && text.chars().all(is_plain);
    if is_code { text } else { "a code of another form" }
}
