//! `headcount check`

mod autoscaler;
mod groups;
mod output;
mod sources;

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use super::texts;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, run};

/// The findings, one per line without the padding of columns, and the exit code.
struct Found {
    lines: Vec<String>,
    summary: String,
    code: Option<i32>,
}

fn check(config: &ConfigFile) -> Found {
    let output = run(&["check", "--config", &config.path()]);
    let (table, stderr) = texts(&output);
    let mut lines: Vec<String> = table.lines().map(without_code).collect();
    let summary = lines.pop().unwrap_or_else(|| panic!("{stderr}"));
    assert!(summary.contains(" check"), "{summary}");
    Found { lines, summary, code: output.status.code() }
}

/// A line with single spaces, without the code and the link to it.
fn without_code(line: &str) -> String {
    let words =
        line.split_whitespace().filter(|word| !word.starts_with("HC") && !word.starts_with("(docs/check.md#hc"));
    words.collect::<Vec<_>>().join(" ")
}

impl Found {
    #[track_caller]
    fn has(&self, start: &str, parts: &[&str]) {
        let fits = |line: &String| line.starts_with(start) && parts.iter().all(|part| line.contains(part));
        assert!(self.lines.iter().any(fits), "{start} {parts:?} in\n{}", self.lines.join("\n"));
    }

    #[track_caller]
    fn has_no(&self, start: &str) {
        assert!(!self.lines.iter().any(|line| line.starts_with(start)), "{start} in\n{}", self.lines.join("\n"));
    }
}

/// A group in one zone, of two nodes, 0 to 10.
fn plan(name: &str) -> GroupPlan {
    let mut plan = GroupPlan::aws(name).sized(0, 10, 2);
    plan.zones.truncate(1);
    plan
}

fn aws(plans: impl IntoIterator<Item = GroupPlan>) -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(7, plans)))
}
