//! Every parser of bytes that come from elsewhere, as one function each that takes any bytes. None of them may panic,
//! hang, or take much more memory than it is given.
//!
//! `fuzz/` runs them under libFuzzer, which needs nightly. The tests of this module run the same functions on stable,
//! starting from the same corpus (`fuzz/corpus`).

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::admin;
use crate::admin::statusz::Document;
use crate::check::compare::{Sides, compare};
use crate::cloud::text::{MESSAGE_CHARS_MAX, printable, shell_word, shorten};
use crate::cloud::{NodeGroupSpec, go_syntax};
use crate::clouds::{aws, azure};
use crate::config::settings::aws::TagQuery;
use crate::config::{self, Config};
use crate::fleet::options::Options;
use crate::fleet::recording::Recording;
use crate::grpc::{self, deadline};
use crate::instance_types::memory_model::Overhead;
use crate::instance_types::{Learned, Quantity, Table};
use crate::kubernetes::{self, AutoscalerStatus};
use crate::prices::Prices;
use crate::template::Threshold;
use crate::verify::Report;

/// A parser. What it makes of the bytes does not matter here.
pub type Parser = fn(&[u8]);

/// All parsers, by the name of their fuzz target.
pub const ALL: [(&str, Parser); 29] = [
    ("admin_requests", admin::parsers::request),
    ("arm_pages", azure::parsers::page),
    ("aws_bodies", aws::parsers::body),
    ("aws_files", aws::parsers::shared_file),
    ("aws_responses", aws::parsers::service_response),
    ("aws_sign_in", aws::parsers::sign_in_response),
    ("azure_files", azure::parsers::credential_file),
    ("azure_sign_in", azure::parsers::sign_in_response),
    ("kubernetes_responses", kubernetes::parsers::response),
    ("manifests", kubernetes::parsers::manifest),
    ("message_weights", grpc::parsers::weights),
    ("plugin_output", kubernetes::parsers::plugin_output),
    ("server_statuses", server_statuses),
    ("recordings", recordings),
    ("tls_files", grpc::parsers::tls_files),
    ("watches", kubernetes::parsers::watch),
    ("provider_ids", provider_ids),
    ("user_data", aws::parsers::user_data),
    ("tags", tags),
    ("headcount_yaml", headcount_yaml),
    ("cloud_config", cloud_config),
    ("kubeconfig", kubernetes::parsers::kubeconfig),
    ("instance_types", instance_types),
    ("quantities", quantities),
    ("grpc_requests", grpc_requests),
    ("printable_texts", printable_texts),
    ("nodes_specs", nodes_specs),
    ("cluster_documents", cluster_documents),
    ("verify_reports", verify_reports),
];

/// The fuzz targets of each row of the table of limits, by the name of its constant.
pub const TARGETS: [(&str, &[&str]); 27] = [
    ("CALL", &["grpc_requests", "message_weights", "provider_ids"]),
    ("CALL_WITH_NODE", &["grpc_requests", "message_weights"]),
    ("CALL_WITH_POD", &["grpc_requests", "message_weights", "quantities"]),
    ("CALL_WITH_NODES", &["grpc_requests", "message_weights"]),
    ("ADMIN_REQUEST", &["admin_requests"]),
    ("TLS_FILE", &["tls_files"]),
    ("CONFIG_FILE", &["headcount_yaml", "cloud_config", "instance_types", "nodes_specs", "quantities"]),
    ("MANIFEST", &["manifests"]),
    ("CLUSTER_FILE", &["kubeconfig"]),
    ("PLUGIN_OUTPUT", &["plugin_output"]),
    ("KUBERNETES_RESPONSE", &["kubernetes_responses", "cluster_documents"]),
    ("WATCH_LINE", &["watches"]),
    ("NODE_LIST", &["kubernetes_responses"]),
    ("AWS_RESPONSE", &["aws_responses", "aws_bodies", "tags", "printable_texts"]),
    ("AWS_ERROR", &["aws_responses", "aws_bodies"]),
    ("AWS_PRICES", &["aws_responses"]),
    ("AWS_SIGN_IN", &["aws_sign_in"]),
    ("AWS_FILE", &["aws_files"]),
    ("USER_DATA", &["user_data"]),
    ("AZURE_RESPONSE", &["arm_pages", "tags"]),
    ("AZURE_ERROR", &["arm_pages"]),
    ("AZURE_PRICES", &["arm_pages"]),
    ("AZURE_SIGN_IN", &["azure_sign_in"]),
    ("AZURE_FILE", &["azure_files"]),
    ("SERVER_STATUS", &["server_statuses"]),
    ("RECORDING", &["recordings"]),
    ("VERIFY_REPORT", &["verify_reports"]),
];

/// Provider IDs of both clouds.
pub fn provider_ids(bytes: &[u8]) {
    aws::parsers::provider_id(bytes);
    azure::parsers::provider_id(bytes);
}

/// Tags of both clouds, and the options that they set.
pub fn tags(bytes: &[u8]) {
    aws::parsers::tags(bytes);
    azure::parsers::tags(bytes);
    let text = String::from_utf8_lossy(bytes);
    let options = text.lines().filter_map(|line| line.split_once('='));
    let _options = Options::from_tags("g", &options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
}

/// A headcount.yaml.
pub fn headcount_yaml(bytes: &[u8]) {
    let parsed = Config::parse(&String::from_utf8_lossy(bytes), Path::new(NOWHERE), &|_| None);
    let _text = parsed.map_err(|error| error.to_string());
}

/// A cloud-config file.
pub fn cloud_config(bytes: &[u8]) {
    config::parse_cloud_config(&String::from_utf8_lossy(bytes), Path::new(NOWHERE));
}

/// A table of instance types.
pub fn instance_types(bytes: &[u8]) {
    let _text = Table::parse(&String::from_utf8_lossy(bytes), "table").map_err(|error| error.to_string());
}

/// Quantities, thresholds, overheads, and Go's durations and Booleans.
pub fn quantities(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let quantity = text.parse::<Quantity>();
    let _written = quantity.as_ref().map(ToString::to_string);
    if let (Ok(threshold), Ok(quantity)) = (text.parse::<Threshold>(), quantity) {
        let _amount = threshold.of(quantity);
    }
    let _overhead = text.parse::<Overhead>();
    let _go = (go_syntax::parse_bool(&text), go_syntax::parse_duration(&text));
    let _timeout = deadline::parse_timeout(bytes);
}

/// Requests of the Cluster Autoscaler, and the pods in them.
pub fn grpc_requests(bytes: &[u8]) {
    grpc::parsers::requests(bytes);
    let _price = PRICES.pod(bytes, 1.0);
}

/// Any text that is logged or printed. What comes out has neither a control character nor a line break.
pub fn printable_texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let printed = printable(&text);
    assert!(!printed.contains(char::is_control), "{printed:?}");
    assert!(shorten(&text, MESSAGE_CHARS_MAX).chars().count() <= MESSAGE_CHARS_MAX);
    let _word = shell_word(&text);
}

/// `--nodes` and `--node-group-auto-discovery`.
pub fn nodes_specs(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _spec = text.parse::<NodeGroupSpec>();
    let _tags = text.parse::<TagQuery>();
    config::parse_discovery(&text);
}

/// Documents in ConfigMaps: what was learned from nodes, and the Cluster Autoscaler's status.
pub fn cluster_documents(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _learned = Learned::parse(&text).map(|mut learned| learned.to_text());
    let _status = AutoscalerStatus::parse(&text);
}

/// The status of a running server, and its comparison with the cloud's.
pub fn server_statuses(bytes: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Document>(bytes) else { return };
    let minute = Duration::from_secs(60);
    let (cloud, autoscaler) = (Document::default(), Ok(AutoscalerStatus::default()));
    let _compared = compare(&Sides {
        cloud,
        server: Some(Ok(document)),
        autoscaler,
        backoff: (minute, minute),
        nodes: Ok([].into()),
    });
}

/// A recording. Its decisions are not made again: the state of a group that no group ever had may panic, which `replay`
/// reports.
pub fn recordings(bytes: &[u8]) {
    let _text = Recording::parse(bytes).map_err(|error| error.to_string());
}

/// A report of `headcount verify`.
pub fn verify_reports(bytes: &[u8]) {
    let _text = Report::parse(bytes).map_err(|error| error.to_string());
}

static PRICES: LazyLock<Prices> = LazyLock::new(|| Prices::new(Arc::default(), &[]));

/// Files that a parsed file names are looked up beside it and do not exist.
const NOWHERE: &str = "/nonexistent/headcount/file";
