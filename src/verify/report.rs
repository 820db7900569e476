//! What a run found, as a file that can be attached to an issue: no account, no credential, no name.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::evidence::Observation;
use super::verdict::Finding;
use crate::cloud::Consistency;

/// The form of a report, for those who read it.
pub(super) const FORMAT: u32 = 1;

/// How long a stage took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The stage.
    pub stage: String,
    /// In seconds.
    pub seconds: f64,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// The form of this file.
    pub format: u32,
    /// The version of Headcount.
    pub headcount: String,
    /// The day.
    pub date: String,
    /// The kind of group, and the version of the API that was called.
    pub kind: String,
    /// The region, where it is known.
    pub region: Option<String>,
    /// The consistency model that was assumed.
    pub assumed: Consistency,
    /// The size that was found.
    pub size: u32,
    /// Whether a signal stopped the run.
    pub is_stopped: bool,
    /// Whether the group had the size again at the end.
    pub is_restored: bool,
    /// What each probe found.
    pub findings: Vec<Finding>,
    /// How long each stage took.
    pub steps: Vec<Step>,
    /// Every call.
    pub evidence: Vec<Observation>,
}

/// The day of a time, in UTC.
pub(super) fn day(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string().chars().take("2026-01-01".len()).collect()
}
