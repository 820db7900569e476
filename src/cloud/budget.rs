//! What a cloud lets its callers do in a while, as far as it says.

use std::fmt;
use std::time::Duration;

/// A budget of calls that a cloud grants and tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The cloud's name of it, or what calls it is for.
    pub name: String,
    /// The group it is for, where each has its own.
    pub group: Option<String>,
    /// The calls that were left, as far as the last answer said.
    pub remaining: u64,
    /// The most that were left at any time; 0 where the cloud never said.
    pub most: u64,
    /// How long no call will be made on it.
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
