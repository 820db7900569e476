//! What a run found, as a file that can be attached to an issue: no account, no credential, no name.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::evidence::Observation;
use super::probe::Probe;
use super::verdict::{Finding, Verdict};
use crate::cloud::{Behavior, Consistency};
use crate::limits::{VERIFY_REPORT, read_file};

/// The form of a report, for those who read it.
pub(super) const FORMAT: u32 = 2;

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
    /// When it began, in UTC.
    pub began: String,
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
    /// What the group was seen to do, in figures.
    pub behavior: Behavior,
    /// How long each stage took.
    pub steps: Vec<Step>,
    /// Every call.
    pub evidence: Vec<Observation>,
}

impl Report {
    /// Reads a report of this version's form.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no such report.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::parse(&read_file(path, VERIFY_REPORT)?)
    }

    /// Parses what [`Report::write`] wrote.
    ///
    /// # Errors
    ///
    /// If it is no report of this version's form.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        let report: Self = serde_saphyr::from_str(&String::from_utf8_lossy(bytes)).map_err(io::Error::other)?;
        match report.format {
            FORMAT => Ok(report),
            other => Err(io::Error::other(format!("it has the form {other}, and this version reads {FORMAT}"))),
        }
    }

    /// Writes it to a file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, serde_saphyr::to_string(self).map_err(io::Error::other)?)
    }

    /// The verdict of a probe.
    pub fn verdict(&self, probe: Probe) -> Verdict {
        let found = self.findings.iter().find(|finding| finding.probe == probe);
        found.map_or(Verdict::NotProbed, |finding| finding.verdict)
    }

    /// The verdicts of this report that another one does not have, and the ones that it has instead. What this report
    /// did not probe is not compared.
    pub fn differences(&self, other: &Self) -> Vec<(Probe, Verdict, Verdict)> {
        let pairs = Probe::ALL.into_iter().map(|probe| (probe, self.verdict(probe), other.verdict(probe)));
        pairs.filter(|(_, ours, theirs)| *ours != Verdict::NotProbed && ours != theirs).collect()
    }
}

/// A time in UTC, to the second.
pub(super) fn second(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
