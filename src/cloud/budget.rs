//! Call budgets that a cloud reports.

use std::fmt;
use std::time::Duration;

/// A budget of calls that a cloud grants and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The cloud's name for it, or the calls that it covers.
    pub name: String,
    /// The group that it covers, where each group has its own.
    pub group: Option<String>,
    /// The remaining calls, from the last response.
    pub remaining: u64,
    /// The highest number of remaining calls ever reported; 0 if the cloud has not reported any.
    pub most: u64,
    /// For how much longer calls that it covers stay suspended.
    pub closed_for: Option<Duration>,
}

impl fmt::Display for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        if let Some(group) = &self.group {
            write!(formatter, " of {group}")?;
        }
        if self.most > 0 {
            write!(formatter, ": {} of {}", self.remaining, self.most)?;
        }
        match self.closed_for {
            Some(wait) => write!(formatter, ", closed for {} s", wait.as_secs()),
            None => Ok(()),
        }
    }
}
