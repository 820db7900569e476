//! Every parser of bytes that come from elsewhere, as one function each that takes any bytes. None of them may panic, hang, or take
//! much more memory than it is given.
//!
//! `fuzz/` runs them under libFuzzer, which needs nightly. The tests of this module run the same functions on stable, starting
//! from the same corpus (`fuzz/corpus`).

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use prost::Message as _;

use crate::cloud::text::{MESSAGE_CHARS_MAX, printable, shell_word, shorten};
use crate::cloud::{NodeGroupSpec, go_syntax};
use crate::clouds::{aws, azure};
use crate::config::settings::aws::TagQuery;
use crate::config::{self, Config};
use crate::fleet::options::Options;
use crate::grpc::dialect::Dialect;
use crate::grpc::{deadline, proto};
use crate::instance_types::memory_model::Overhead;
use crate::instance_types::{Learned, Quantity, Table};
use crate::kubernetes::{self, AutoscalerStatus};
use crate::prices::Prices;
use crate::template::Threshold;

/// A parser. What it makes of the bytes does not matter here.
pub type Parser = fn(&[u8]);

/// All parsers, by the name of their fuzz target.
pub const ALL: [(&str, Parser); 14] = [
    ("provider_ids", provider_ids),
    ("arm_pages", azure::parsers::page),
    ("aws_bodies", aws::parsers::body),
    ("user_data", aws::parsers::user_data),
    ("tags", tags),
    ("headcount_yaml", headcount_yaml),
    ("cloud_config", cloud_config),
    ("kubeconfig", kubeconfig),
    ("instance_types", instance_types),
    ("quantities", quantities),
    ("grpc_requests", grpc_requests),
    ("printable_texts", printable_texts),
    ("nodes_specs", nodes_specs),
    ("cluster_documents", cluster_documents),
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

/// A kubeconfig file.
pub fn kubeconfig(bytes: &[u8]) {
    kubernetes::parse_kubeconfig(&String::from_utf8_lossy(bytes), Path::new(NOWHERE));
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
    let _delete = proto::NodeGroupDeleteNodesRequest::decode(bytes);
    let _node = proto::NodeGroupForNodeRequest::decode(bytes);
    let _increase = proto::NodeGroupIncreaseSizeRequest::decode(bytes);
    let _price = proto::PricingPodPriceRequest::decode(bytes);
    if let Ok(options) = proto::NodeGroupAutoscalingOptionsRequest::decode(bytes) {
        let _dialect = Dialect::of(options.defaults.as_ref());
    }
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

static PRICES: LazyLock<Prices> = LazyLock::new(|| Prices::new(Arc::default(), &[]));

/// Files that a parsed file names are looked up beside it and do not exist.
const NOWHERE: &str = "/nonexistent/headcount/file";
