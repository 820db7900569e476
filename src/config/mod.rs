//! The configuration: headcount.yaml, or the in-tree provider's own flags and files, read into one validated [`Config`].
//!
//! Whatever is wrong is one message that says where it is written and what would be right ([`ConfigError`]).

// What the clouds' settings are read with is of no use to a build without those clouds.
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

use crate::config::settings::simulated;
use crate::fleet::Policies;
use crate::grpc::dialect::SendPolicy;
use crate::grpc::tls::TlsSettings;
use crate::instance_types::Table;
use crate::kubernetes;

/// Looks an environment variable up.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// All that Headcount is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The port that the Cluster Autoscaler calls.
    pub grpc: Grpc,
    /// The port that people and probes call.
    pub admin: Admin,
    /// How old the snapshot may be when `Refresh` comes, from 1 s to 10 min; 15 s by default.
    pub refresh_interval: Duration,
    /// The label of GPU nodes; the first source's cloud decides where it is absent.
    pub gpu_label: Option<String>,
    /// Tables of instance types; later ones win.
    pub instance_types: Vec<Table>,
    /// How to learn from the cluster's own nodes; not at all where it is absent.
    pub learn: Option<kubernetes::Settings>,
    /// What is watched; never empty, and no name twice.
    pub sources: Vec<Source>,
    /// What to say of single node groups.
    pub groups: Policies,
    /// What is not wrong but probably not meant, one sentence each.
    pub warnings: Vec<String>,
}

/// The gRPC port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grpc {
    /// Where to listen; 127.0.0.1:8086 by default.
    pub listen: SocketAddr,
    /// TLS; plaintext where it is absent. The files exist; what is in them is not looked at here.
    pub tls: Option<TlsSettings>,
    /// Whether node group options are sent to a Cluster Autoscaler from 1.35 on, which then sees booting nodes as unready;
    /// not by default.
    pub options_since_135: SendPolicy,
}

/// The admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where to listen; 127.0.0.1:8087 by default.
    pub listen: SocketAddr,
}

impl Default for Grpc {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 8086)), tls: None, options_since_135: SendPolicy::Suppress }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 8087)) }
    }
}

impl Config {
    /// Reads what the command line names, with this process's environment.
    pub fn load(arguments: &Arguments) -> Result<Self, ConfigError> {
        arguments.read(&|name| std::env::var(name).ok())
    }

    /// Reads the text of a headcount.yaml. `path` is named in errors, and the files it refers to are relative to it.
    pub fn parse(text: &str, path: &Path, environment: Environment<'_>) -> Result<Self, ConfigError> {
        validate::config(yaml::read(text, path)?, path, environment)
    }

    /// One simulated source, named `demo`: no cloud and no account.
    pub fn demo() -> Self {
        let cloud = CloudSettings::Simulated(simulated::Settings::default());
        Self::of(vec![Source { name: "demo".to_owned(), cloud }], Vec::new())
    }

    /// These sources, and defaults for the rest.
    fn of(sources: Vec<Source>, warnings: Vec<String>) -> Self {
        Self {
            grpc: Grpc::default(),
            admin: Admin::default(),
            refresh_interval: validate::DEFAULT_REFRESH_INTERVAL,
            gpu_label: None,
            instance_types: Vec::new(),
            learn: None,
            sources,
            groups: Policies::default(),
            warnings,
        }
    }
}
