//! What Headcount reports about a group, and why, in one line.

use std::fmt;

use super::line::number_of;
use crate::admin::statusz::GroupEntry;

/// What is reported about a group. A new line follows if it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    id: String,
    target: u32,
    capacity: u32,
    running: u32,
    creating: u32,
    deleting: u32,
    failed: u32,
    /// The codes of the failures.
    codes: Vec<String>,
    /// Live instances beyond the capacity.
    surplus: u32,
    doubt: Option<String>,
}

impl Report {
    /// The report of a group, of which this many instances run.
    pub(super) fn of(group: &GroupEntry, running: u32) -> Self {
        Self {
            id: group.id.clone(),
            target: group.target,
            capacity: group.desired,
            running,
            creating: group.creating,
            deleting: group.deleting,
            failed: group.failed,
            codes: group.failures.iter().map(|failure| failure.code.clone()).collect(),
            surplus: group.live.saturating_sub(group.desired),
            doubt: group.doubt.clone(),
        }
    }

    /// How the target follows from the cloud's capacity.
    fn reason(&self) -> String {
        let Self { target, capacity, deleting, .. } = *self;
        if target == capacity {
            "the cloud's capacity".to_owned()
        } else if target > capacity {
            format!("capacity {capacity} + {} that failed", target - capacity)
        } else if deleting > 0 {
            format!("capacity {capacity} − {} being deleted", capacity - target)
        } else {
            format!("capacity {capacity} − {} that CA gave back", capacity - target)
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: target {} = {}; {} running", self.id, self.target, self.reason(), self.running)?;
        let states = [(self.creating, "being created"), (self.deleting, "being deleted")];
        for (count, state) in states.into_iter().filter(|(count, _)| *count > 0) {
            write!(formatter, ", {count} {state}")?;
        }
        if self.failed > 0 {
            write!(formatter, ", {} failed with {}", self.failed, self.codes.join(" and "))?;
        }
        if let Some(doubt) = &self.doubt {
            write!(formatter, "; in doubt, and read again: {doubt}")?;
        } else if self.surplus > 0 {
            let surplus = number_of(self.surplus, "instance");
            write!(formatter, "; {surplus} beyond the capacity, left to the cloud that launched them")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(target: u32, capacity: u32, running: u32) -> Report {
        Report { id: "web".to_owned(), target, capacity, running, ..Report::default() }
    }

    #[test]
    fn a_report_says_how_the_target_follows_from_the_capacity() {
        assert_eq!(report(3, 3, 3).to_string(), "web: target 3 = the cloud's capacity; 3 running");
        let deleting = Report { deleting: 2, ..report(4, 6, 4) };
        assert_eq!(deleting.to_string(), "web: target 4 = capacity 6 − 2 being deleted; 4 running, 2 being deleted");
        let failed = Report { failed: 2, codes: vec!["NoCapacity".to_owned()], ..report(5, 3, 3) };
        let expected = "web: target 5 = capacity 3 + 2 that failed; 3 running, 2 failed with NoCapacity";
        assert_eq!(failed.to_string(), expected);
        assert!(report(3, 5, 3).to_string().contains("capacity 5 − 2 that CA gave back"));
    }

    #[test]
    fn a_surplus_is_left_to_the_cloud() {
        let surplus = Report { surplus: 2, ..report(3, 3, 5) };
        assert!(surplus.to_string().ends_with("2 instances beyond the capacity, left to the cloud that launched them"));
    }
}
