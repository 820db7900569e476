//! One finding.

use std::fmt;

use serde::Serialize;

use super::code::Code;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something conflicts with the Cluster Autoscaler, or is probably a mistake.
    Warning,
    /// Nothing is wrong.
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

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// The group's ID as served, the source's name, `config`, `kubernetes` or `cluster-autoscaler`.
    pub subject: String,
    /// What was found.
    pub what: String,
    /// What to do about it; empty where nothing is to be done, or `what` says it.
    pub advice: String,
    /// Where the code is explained.
    pub link: String,
}

impl Finding {
    pub(super) fn error(code: Code, subject: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::of(Severity::Error, code, subject, what.into(), advice.into())
    }

    pub(super) fn warning(code: Code, subject: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::of(Severity::Warning, code, subject, what.into(), advice.into())
    }

    pub(super) fn ok(code: Code, subject: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::of(Severity::Ok, code, subject, what.into(), advice.into())
    }

    fn of(severity: Severity, code: Code, subject: &str, what: String, advice: String) -> Self {
        Self { code, severity, subject: subject.to_owned(), what, advice, link: code.link() }
    }

    /// What was found and what to do, in one line.
    pub fn sentence(&self) -> String {
        // A text from a cloud must not control the terminal.
        let line =
            |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "\u{fffd}");
        match self.advice.as_str() {
            "" => line(&self.what),
            advice => format!("{} — {}", line(&self.what), line(advice)),
        }
    }
}

/// How many findings of each severity there are, in one line.
pub fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let plural = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let checks = plural(findings.len(), "check");
    match (errors, warnings) {
        (0, 0) => format!("{checks}: nothing is wrong"),
        (0, _) => format!("{checks}: {}", plural(warnings, "warning")),
        (_, 0) => format!("{checks}: {}", plural(errors, "error")),
        _ => format!("{checks}: {}, {}", plural(errors, "error"), plural(warnings, "warning")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_is_wrong() {
        let ok = || Finding::ok(Code::SOURCE, "us", "readable", "");
        let warning = || Finding::warning(Code::ADVERSE, "web", "a policy", "delete it");
        let error = || Finding::error(Code::TEMPLATE, "web", "no image", "");
        assert_eq!(summary(&[ok()]), "1 check: nothing is wrong");
        assert_eq!(summary(&[ok(), warning()]), "2 checks: 1 warning");
        assert_eq!(summary(&[error(), ok(), warning(), warning()]), "4 checks: 1 error, 2 warnings");
    }
}
