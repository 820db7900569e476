//! `/metrics` of the real binary, judged by promtool and by the strict parser of Python's `prometheus_client`.

use std::collections::BTreeSet;

use super::document::families;
use super::tools::{promtool, python};
use crate::peers::headcount::{ConfigFile, Server};

const OPEN_METRICS: &str =
    "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";

/// The families without samples in the demo: it has no certificates, budgets and quotas, and no launch has failed
/// yet.
const WITHOUT_SAMPLES: [&str; 5] = [
    "headcount_cloud_budget_paused_seconds",
    "headcount_cloud_budget_remaining",
    "headcount_instance_launch_failures",
    "headcount_node_group_quota_headroom",
    "headcount_tls_certificate_not_after_timestamp_seconds",
];

/// Fails unless the text parses as OpenMetrics, every sample belongs to a declared family, and no series appears twice.
const STRICT: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
assert len(families) > 30, len(families)
";

/// The head and the body of a response.
fn split(response: &str) -> (&str, &str) {
    response.split_once("\r\n\r\n").expect("a head and a body")
}

/// The body of a chunked or plain response, without the chunk sizes.
pub(super) fn body(response: &str) -> String {
    let (head, body) = split(response);
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut text) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        text.push_str(&after[..size]);
        rest = after.get(size + 2..).unwrap_or_default();
        if size == 0 {
            break;
        }
    }
    text
}

/// The value of the one series that begins with this.
pub(super) fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// A demo in which something has happened.
async fn demo() -> Server {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    client.node_groups().await;
    client.increase("web", 1).await.expect("there is room");
    let above_max = client.increase("web", 1000).await;
    assert!(above_max.is_err());
    server
}

#[tokio::test]
async fn both_formats_satisfy_their_own_parsers() {
    let server = demo().await;
    let open = server.probe_with("/metrics", OPEN_METRICS);
    assert!(
        split(&open).0.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{open}"
    );
    python("prometheus_client", STRICT, &body(&open));
    let classic = server.probe("/metrics");
    assert!(split(&classic).0.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{classic}");
    assert!(!classic.contains("# EOF") && !classic.contains("# UNIT"));
    promtool(&["check", "metrics"], &body(&classic));
}

/// The same for several texts, each after its length in bytes.
const STRICT_EACH: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
data, texts = sys.stdin.buffer.read(), 0
while data:
    size, data = data.split(b'\\n', 1)
    text, data = data[:int(size)], data[int(size):]
    assert len(list(text_string_to_metric_families(text.decode()))) > 30
    texts += 1
assert texts == 20, texts
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_strict_parser_reads_what_is_served_under_load() {
    let server = demo().await;
    let mut callers = Vec::new();
    for _ in 0..4 {
        let mut client = server.client().await;
        callers.push(tokio::spawn(async move {
            loop {
                client.nodes("web").await;
                // Most of these are refused, which is counted, too.
                let _outcome = client.increase("batch-spot", 1).await;
                let _outcome = client.increase("no-capacity", 1).await;
                let _outcome = client.refresh().await;
            }
        }));
    }
    let mut texts = String::new();
    for _ in 0..20 {
        let text = body(&server.probe_with("/metrics", OPEN_METRICS));
        texts.push_str(&format!("{}\n{text}", text.len()));
    }
    callers.iter().for_each(tokio::task::JoinHandle::abort);
    python("prometheus_client", STRICT_EACH, &texts);
}

#[tokio::test]
async fn every_declared_family_is_served_with_its_labels_from_the_start() {
    let server = Server::start(&["--demo"]);
    server.client().await.node_groups().await;
    let text = body(&server.probe("/metrics"));
    for family in families() {
        let name = family.sample_name();
        if WITHOUT_SAMPLES.contains(&family.name) {
            continue;
        }
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not declared");
        let sample = text.lines().find(|line| {
            let rest = line.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']) || rest.starts_with("_count"))
        });
        let sample = sample.unwrap_or_else(|| panic!("{name} has no sample"));
        let labels: BTreeSet<&str> =
            sample.split(['{', ',']).skip(1).filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
        assert_eq!(labels, family.labels.iter().copied().collect(), "{sample}");
    }
}

#[tokio::test]
async fn a_request_shows_in_the_counts_of_calls_and_operations_and_in_the_sizes() {
    let server = demo().await;
    let text = body(&server.probe("/metrics"));
    let grew = "headcount_operations_total{node_group=\"web\",operation=\"increase\",result=\"ok\"}";
    assert_eq!(value(&text, grew), Some(1.0), "{text}");
    let refused = "headcount_operations_total{node_group=\"web\",operation=\"increase\",result=\"refused\"}";
    assert_eq!(value(&text, refused), Some(1.0));
    let called = "headcount_grpc_requests_total{method=\"NodeGroupIncreaseSize\",code=\"OK\"}";
    assert_eq!(value(&text, called), Some(1.0));
    let failed = "headcount_grpc_requests_total{method=\"NodeGroupIncreaseSize\",code=\"FAILED_PRECONDITION\"}";
    assert_eq!(value(&text, failed), Some(1.0));
    let written = "headcount_cloud_requests_total{source=\"demo\",api=\"SetCapacity\",status=\"success\"}";
    assert_eq!(value(&text, written), Some(1.0));
    let target =
        value(&text, "headcount_node_group_target_size{node_group=\"web\",source=\"demo\"}").expect("a target");
    assert_eq!(f64::from(server.client().await.target("web").await), target);
    assert!(value(&text, "headcount_last_ca_call_timestamp_seconds").is_some_and(|at| at > 1.6e9));
    assert_eq!(value(&text, "headcount_standby"), Some(0.0));
}

#[tokio::test]
async fn the_metrics_of_a_thousand_groups_fit_into_5_mb() {
    let config = ConfigFile::new("sources: [{name: large, simulated: {groups: 1000, instances: 3}}]\n");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    client.until("all groups are served", async |client| client.node_groups().await.len() == 1000).await;
    for headers in ["", OPEN_METRICS] {
        let text = body(&server.probe_with("/metrics", headers));
        assert!(
            text.lines().count() > 33_000 && text.len() < 5_000_000,
            "{} lines, {} bytes",
            text.lines().count(),
            text.len()
        );
    }
}
