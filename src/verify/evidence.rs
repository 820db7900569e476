//! What the probes did and what came back, without names and IDs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limits::{CODE_CHARS_MAX, EVIDENCE_MAX, RESPONSES_MAX, TEXTS_MAX};
use super::redaction::{self, Redaction};
use crate::cloud::{CloudError, GroupName, GroupReading, InstanceState, LaunchActivity, ProviderId, RawResponse};

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
    /// The cloud's messages, without anything that could be a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// What HTTP said, the first time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpEvidence>,
}

/// What HTTP said of one response. The simulated cloud has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpEvidence {
    /// The API operation.
    pub api: String,
    /// The status.
    pub status: u16,
    /// Headers about limits, times and versions. An ID is there as its form, an address as being there, and an etag as
    /// its label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
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
    redaction: Redaction,
}

impl Evidence {
    /// Of a group, whose name it never tells.
    pub(super) fn of(group: &GroupName) -> Self {
        let mut evidence = Self::default();
        evidence.redaction.hide(group.as_str());
        evidence
    }

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
        let label = *self.machines.entry(id.clone()).or_insert(next);
        if label == next {
            self.redaction.hide(id.as_str());
        }
        format!("vm{label}")
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

    /// The messages of what failed in a reading.
    pub(super) fn failures(&self, reading: &GroupReading) -> Vec<String> {
        let failures = reading.instances.iter().flatten().filter_map(|one| one.failure.as_ref());
        self.texts(failures.map(|failure| failure.message.as_str()))
    }

    /// The messages of launches that failed.
    pub(super) fn launch_failures(&self, activity: &LaunchActivity) -> Vec<String> {
        self.texts(activity.failures.iter().map(|failure| failure.message.as_str()))
    }

    /// Messages without anything that could be a name, each once.
    pub(super) fn texts<'t>(&self, messages: impl Iterator<Item = &'t str>) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for text in messages.map(|message| self.redaction.of(message)).filter(|text| !text.is_empty()) {
            if texts.len() < TEXTS_MAX && !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    /// What HTTP said.
    pub(super) fn http(&mut self, responses: Vec<RawResponse>) -> Vec<HttpEvidence> {
        responses.into_iter().take(RESPONSES_MAX).map(|response| self.response(response)).collect()
    }

    fn response(&mut self, response: RawResponse) -> HttpEvidence {
        let told = |(name, value): (String, String)| {
            let value = self.header(&name, &value)?;
            Some((name, value))
        };
        let headers = response.headers.into_iter().filter_map(told).collect();
        HttpEvidence { api: response.api.to_owned(), status: response.status, headers }
    }

    /// What is told of a header.
    fn header(&mut self, name: &str, value: &str) -> Option<String> {
        match name {
            "etag" => Some(self.etag(value)),
            "azure-asyncoperation" | "location" => Some("present".to_owned()),
            "date" => is_date(value).then(|| value.to_owned()),
            "x-amzn-errortype" | "x-ms-failure-cause" => Some(code(value).to_owned()),
            _ if name.ends_with("id") => Some(redaction::shape(value)),
            _ => redaction::limit(value).map(str::to_owned),
        }
    }
}

/// What is told of an error: its class and the cloud's code.
pub(super) fn told(error: &CloudError) -> String {
    let class = match error {
        CloudError::Throttled { .. } => "throttled",
        CloudError::Unreachable(_) => "unreachable",
        CloudError::NotSent(_) => "not sent",
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

/// Whether a header has the form of a time.
fn is_date(value: &str) -> bool {
    let is_allowed = |one: char| one.is_ascii_alphanumeric() || ", :".contains(one);
    value.len() <= "Tue, 24 Nov 2026 16:00:00 GMT".len() && value.ends_with(" GMT") && value.chars().all(is_allowed)
}
