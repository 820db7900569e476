//! What a probe found.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::probe::Probe;
use crate::cloud::Consistency;

/// How what was seen compares with what is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The cloud does what Headcount assumes.
    AsAssumed,
    /// The cloud guarantees more than Headcount assumes.
    Stricter,
    /// The cloud does something that Headcount assumes it does not.
    Broken,
    /// Nothing was seen.
    NotProbed,
}

impl Verdict {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsAssumed => "as assumed",
            Self::Stricter => "stricter",
            Self::Broken => "BROKEN",
            Self::NotProbed => "not probed",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// What one probe found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The probe.
    pub probe: Probe,
    /// What Headcount assumes of such a group.
    pub assumed: String,
    /// What was seen, or why nothing was.
    pub seen: String,
    /// How the two compare.
    pub verdict: Verdict,
    /// Where the assumption is broken: the laws that are at risk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laws_at_risk: Option<String>,
    /// Where the assumption is broken: what is safe until Headcount is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe_meanwhile: Option<String>,
}

impl Finding {
    /// What a probe saw on a group with this model.
    pub(super) fn new(probe: Probe, model: Consistency, verdict: Verdict, seen: impl Into<String>) -> Self {
        let risk = (verdict == Verdict::Broken).then(|| probe.risk(model));
        Self {
            probe,
            assumed: probe.assumed(model),
            seen: seen.into(),
            verdict,
            laws_at_risk: risk.map(|risk| risk.laws.to_owned()),
            safe_meanwhile: risk.map(|risk| risk.meanwhile.to_owned()),
        }
    }
}
