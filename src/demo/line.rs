//! The lines of the demo.

use std::fmt;
use std::time::Duration;

/// Who speaks in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The demo itself: what it makes happen.
    Demo,
    /// The imitation of the Cluster Autoscaler.
    Autoscaler,
    /// The simulated cloud.
    Cloud,
    /// Headcount.
    Headcount,
    /// What the in-tree provider would have reported or written.
    InTree,
}

impl Speaker {
    /// The name at the beginning of a line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Autoscaler => "autoscaler",
            Self::Cloud => "cloud",
            Self::Headcount => "headcount",
            Self::InTree => "in-tree",
        }
    }
}

/// One line: who says what, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// When, since the demo began.
    pub(crate) at: Duration,
    pub(crate) speaker: Speaker,
    pub(crate) text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs();
        write!(formatter, "{}:{:02}  {:<10}  {}", seconds / 60, seconds % 60, self.speaker.name(), self.text)
    }
}

/// A number of things, as text.
pub(crate) fn number_of(count: u32, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_its_time_and_its_speaker() {
        let line =
            Line { at: Duration::from_millis(65_900), speaker: Speaker::InTree, text: "web: target 3".to_owned() };
        assert_eq!(line.to_string(), "1:05  in-tree     web: target 3");
        assert_eq!([number_of(1, "pod"), number_of(2, "pod")], ["1 pod", "2 pods"]);
    }
}
