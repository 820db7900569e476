//! One thing that was found.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something works against the Cluster Autoscaler, or is probably not meant.
    Warning,
    /// All is well.
    Ok,
}

impl Severity {
    /// Whether something does not work.
    pub fn is_error(self) -> bool {
        self == Self::Error
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Ok => "ok",
        })
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The group's ID as served, the source's name, `config` or `kubernetes`.
    pub subject: String,
    /// What was found.
    pub what: String,
    /// What to do about it; empty where nothing is to be done, or `what` says it.
    pub advice: String,
}

impl Finding {
    pub(super) fn of(severity: Severity, subject: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity, subject: subject.to_owned(), what: what.into(), advice: advice.into() }
    }

    /// What was found and what to do, in one line.
    pub fn sentence(&self) -> String {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.advice.as_str() {
            "" => line(&self.what),
            advice => format!("{} — {}", line(&self.what), line(advice)),
        }
    }
}
