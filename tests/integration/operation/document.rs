//! docs/metrics.md is generated from the declarations of the families.

use std::fmt::Write as _;

use headcount::admin::Metrics;
use headcount::cli::RELOAD_FAMILIES;
use headcount::cli::log::LOG_DROPPED_LINES;
use headcount::cloud::CALL_FAMILIES;
use headcount::fleet::JOURNAL_FAMILIES;
use headcount::grpc::GRPC_FAMILIES;
use headcount::grpc::tls::TLS_RELOAD_FAILURES;
use headcount::metrics::{FamilySpec, Kind};
use headcount::tasks::TASK_FAMILIES;

const INTRODUCTION: &str = "\
`/metrics` on the admin port serves OpenMetrics to clients that ask for it, as Prometheus does, and the classic text format
(0.0.4) to all others. Series with a closed set of label values exist from the start, at zero. Error codes of a cloud (`status`,
`reason`) are an open set: at most 50 per source and 20 per node group get series of their own, the others count as `other`.
Labels never contain an instance, a node or a request. A node group has 35 series (on Azure 36), and one more for each error code of its
failed launches.

| metric | type | labels | what it shows |
| --- | --- | --- | --- |
";

/// All families, by name.
pub(super) fn families() -> Vec<FamilySpec> {
    let mut families: Vec<FamilySpec> = Metrics::families().copied().collect();
    families.extend(CALL_FAMILIES);
    families.extend(JOURNAL_FAMILIES);
    families.extend(TASK_FAMILIES);
    families.extend(RELOAD_FAMILIES);
    families.push(TLS_RELOAD_FAILURES);
    families.push(LOG_DROPPED_LINES);
    families.extend(GRPC_FAMILIES);
    families.sort_by_key(|family| family.name);
    families
}

#[test]
fn the_page_of_metrics_lists_every_family() {
    let mut text = INTRODUCTION.to_owned();
    for family in families() {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(text, "| `{}` | {kind} | {} | {} |", family.sample_name(), labels.join(", "), family.help)
            .expect("text");
    }
    crate::document::check("metrics.md", "Metrics", "operation::document", &text);
}
