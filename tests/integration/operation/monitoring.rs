//! The alerts and the dashboard in deploy/monitoring: promtool accepts them, and they use only series and pages that
//! exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use headcount::metrics::Kind;
use serde_json::Value;

use super::document::families;
use super::tools::promtool;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of all series that `/metrics` can have.
fn served() -> BTreeSet<String> {
    let series = families().into_iter().flat_map(|family| match family.kind {
        Kind::Histogram => ["_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", family.name)).to_vec(),
        Kind::Counter | Kind::Gauge => vec![family.sample_name()],
    });
    series.collect()
}

/// The names in an expression that look like series of Headcount's.
fn named(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("headcount_") || word.starts_with("process_"))
}

/// The headings of a page, as anchors.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        text.chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn promtool_accepts_the_alerts_and_their_unit_tests_pass() {
    promtool(&["check", "rules", &root().join("deploy/monitoring/alerts.yaml").display().to_string()], "");
    promtool(&["test", "rules", &root().join("deploy/monitoring/alerts.test.yaml").display().to_string()], "");
}

#[test]
fn every_alert_names_series_that_are_served_and_a_runbook_that_exists_and_has_a_unit_test() {
    let (alerts, tests) = (read("deploy/monitoring/alerts.yaml"), read("deploy/monitoring/alerts.test.yaml"));
    let (series, anchors) = (served(), anchors(&read("docs/operations.md")));
    let unknown: Vec<&str> = named(&alerts).filter(|name| !series.contains(*name)).collect();
    assert!(unknown.is_empty(), "no such series: {unknown:?}");
    let values = |key: &'static str| {
        alerts.lines().filter_map(move |line| line.trim().trim_start_matches("- ").strip_prefix(key))
    };
    for runbook in values("runbook_url: ") {
        let anchor = runbook.strip_prefix("docs/operations.md#").unwrap_or_else(|| panic!("{runbook}"));
        assert!(anchors.contains(anchor), "docs/operations.md has no {anchor}");
    }
    let names: Vec<&str> = values("alert: ").collect();
    assert!(names.len() >= 9, "{names:?}");
    assert_eq!(values("runbook_url: ").count(), names.len(), "each alert has a runbook");
    for name in names {
        assert!(tests.contains(&format!("alertname: {name}")), "{name} has no unit test");
    }
}

/// All expressions of the dashboard's panels.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().expect("an expression").to_owned()).collect()
}

#[test]
fn every_expression_of_the_dashboard_is_valid_and_names_series_that_are_served() {
    let dashboard: Value = serde_json::from_str(&read("deploy/monitoring/dashboard.json")).expect("JSON");
    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 25, "{}", expressions.len());
    let series = served();
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, expression) in expressions.iter().enumerate() {
        assert!(named(expression).next().is_some(), "{expression} names no series");
        let unknown: Vec<&str> = named(expression).filter(|name| !series.contains(*name)).collect();
        assert!(unknown.is_empty(), "{expression}: no such series: {unknown:?}");
        let quoted = expression.replace("$__rate_interval", "5m").replace('\'', "''");
        rules.push_str(&format!("      - record: panel:{number}\n        expr: '{quoted}'\n"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).expect("written");
    promtool(&["check", "rules", &path.display().to_string()], "");
}

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(
        anchors("# What a log line means\n### HC101: it's a `test`\n"),
        ["hc101-its-a-test", "what-a-log-line-means"].map(str::to_owned).into()
    );
}
