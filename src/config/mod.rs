//! The configuration: headcount.yaml, or the flags and files of the in-tree provider, read into one validated
//! [`Config`].
//!
//! A [`ConfigError`] is one message: where the error is, what is wrong, and what to write instead.

// A build without a cloud does not use the parsers for that cloud's settings.
#![cfg_attr(not(all(feature = "aws", feature = "azure")), allow(dead_code, unused_variables))]

mod arguments;
#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "azure")]
mod cloud_config;
mod discovery;
mod error;
mod file;
mod groups;
mod learn;
pub mod migrate;
mod scalar;
pub mod settings;
mod source;
#[cfg(all(test, feature = "aws", feature = "azure"))]
mod tests;
mod validate;
mod yaml;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub use arguments::{Arguments, Provider};
pub use error::{ConfigError, Place};
pub use source::{CloudSettings, Source};

use crate::admin::statusz::Audience;
use crate::config::settings::simulated;
use crate::fleet::{NodeUse, Policies};
use crate::grpc::Listen;
use crate::grpc::dialect::SendPolicy;
use crate::grpc::tls::TlsSettings;
use crate::instance_types::Table;
use crate::kubernetes;

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Whether a text is a cloud-config file that can be used, as far as its form goes.
#[cfg(feature = "azure")]
pub fn parse_cloud_config(text: &str, path: &Path) -> bool {
    let mut context = source::SourceContext { environment: &|_| None, warnings: Vec::new() };
    cloud_config::parse(text, path, &mut context).is_ok()
}

/// Whether a text is an entry of `autoDiscovery` of one of the clouds.
#[cfg(all(feature = "aws", feature = "azure"))]
pub fn parse_discovery(text: &str) -> bool {
    discovery::tag_query(text).is_ok() || discovery::label_query(text).is_ok()
}

/// The validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The port that the Cluster Autoscaler calls.
    pub grpc: Grpc,
    /// The port for people and probes.
    pub admin: Admin,
    /// How often each source is read while something happens in it, from 1 s to 10 min; 15 s by default.
    pub refresh_interval: Duration,
    /// How often each source is read at rest, from `refresh_interval` to 10 min; 4 times that by default, but 5 min at
    /// most.
    pub idle_refresh_interval: Option<Duration>,
    /// Whether everything that needs a write is refused; not by default.
    pub read_only: bool,
    /// How long shutdown waits for calls and writes under way; 20 s by default.
    pub drain_timeout: Duration,
    /// The label of GPU nodes; by default, that of the first source's cloud.
    pub gpu_label: Option<String>,
    /// Tables of instance types; later ones take precedence.
    pub instance_types: Vec<Table>,
    /// How to learn from the cluster's own nodes; `None` to learn nothing.
    pub learn: Option<kubernetes::Settings>,
    /// How to follow the taints that the Cluster Autoscaler puts on nodes; `None` to follow none.
    pub taints: Option<kubernetes::Settings>,
    /// How to write Kubernetes Events; `None` to write none.
    pub events: Option<kubernetes::Settings>,
    /// Whether prices are fetched from the clouds; they are by default, once the Cluster Autoscaler asks for prices.
    pub live_prices: bool,
    /// The sources; never empty, with unique names.
    pub sources: Vec<Source>,
    /// Settings for single node groups.
    pub groups: Policies,
    /// Probable mistakes, one sentence for each.
    pub warnings: Vec<String>,
}

/// The gRPC port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grpc {
    /// Where to listen; 127.0.0.1:8086 by default.
    pub listen: Listen,
    /// The permissions of a Unix socket; 0600 by default.
    pub socket_mode: u32,
    /// TLS; `None` for plaintext. The files exist; their contents are checked later.
    pub tls: Option<TlsSettings>,
    /// Whether autoscaling options are sent to Cluster Autoscaler 1.35 and later, which then treats booting nodes as
    /// unready. Not by default.
    pub options_since_135: SendPolicy,
    /// Whether the option `zeroOrMaxNodeScaling` is sent, with which the Cluster Autoscaler never scales a group down.
    /// Not by default.
    pub zero_or_max_node_scaling: SendPolicy,
    /// Whether the devices of new nodes are sent with their templates.
    pub resource_slices: SendPolicy,
    /// Whether new instances are listed at once. Not by default: see `fleet::snapshot::Unlisted`.
    pub lists_new_at_once: bool,
}

/// The admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where to listen; 127.0.0.1:8087 by default.
    pub listen: SocketAddr,
    /// Who gets the status page; callers on this host by default.
    pub statusz: Audience,
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 8086))),
            socket_mode: 0o600,
            tls: None,
            options_since_135: SendPolicy::Suppress,
            zero_or_max_node_scaling: SendPolicy::Suppress,
            resource_slices: SendPolicy::Suppress,
            lists_new_at_once: false,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 8087)), statusz: Audience::default() }
    }
}

impl Config {
    /// How to watch the cluster's nodes, and for what; `None` to watch none.
    pub fn node_use(&self) -> Option<(&kubernetes::Settings, NodeUse)> {
        let uses = NodeUse { learns: self.learn.is_some(), follows_taints: self.taints.is_some() };
        self.learn.as_ref().or(self.taints.as_ref()).map(|settings| (settings, uses))
    }

    /// Reads the configuration that the command line names, with the environment of this process.
    pub fn load(arguments: &Arguments) -> Result<Self, ConfigError> {
        arguments.read(&|name| std::env::var(name).ok())
    }

    /// Parses the text of a headcount.yaml. Errors name `path`, and file names in the text are relative to it.
    pub fn parse(text: &str, path: &Path, environment: Environment<'_>) -> Result<Self, ConfigError> {
        validate::config(yaml::read(text, path)?, path, environment)
    }

    /// Returns a configuration with one simulated source, `demo`, which needs no account.
    pub fn demo() -> Self {
        let cloud = CloudSettings::Simulated(simulated::Settings::default());
        Self::of(vec![Source { name: "demo".to_owned(), cloud }], Vec::new())
    }

    /// The same, with this taint on all nodes.
    pub fn demo_with_taint(taint: &str) -> Result<Self, ConfigError> {
        let text =
            format!("sources: [{{name: demo, simulated: {{}}}}]\ngroups: [{{match: '*', taints: ['{taint}']}}]\n");
        Self::parse(&text, Path::new("--demo"), &|_| None)
    }

    /// Returns a configuration with these sources and defaults for the rest.
    fn of(sources: Vec<Source>, warnings: Vec<String>) -> Self {
        Self {
            grpc: Grpc::default(),
            admin: Admin::default(),
            refresh_interval: validate::DEFAULT_REFRESH_INTERVAL,
            idle_refresh_interval: None,
            read_only: false,
            drain_timeout: validate::DEFAULT_DRAIN_TIMEOUT,
            gpu_label: None,
            instance_types: Vec::new(),
            learn: None,
            events: None,
            taints: None,
            live_prices: true,
            sources,
            groups: Policies::default(),
            warnings,
        }
    }
}
