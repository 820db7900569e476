//! The configuration flags of the command line: a file, or the flags of the in-tree provider.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::error::{ConfigError, Located, Place, read_file};
use super::source::{CloudSettings, Source, SourceContext};
use super::{Config, Environment};

/// The flags of every command that reads a cloud.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The configuration file, headcount.yaml. Cannot be combined with the Cluster Autoscaler's own flags below.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The cloud, as for the Cluster Autoscaler.
    #[arg(long, value_name = "CLOUD")]
    pub cloud_provider: Option<Provider>,

    /// A node group with its minimum and maximum size; can be repeated.
    #[arg(long, value_name = "MIN:MAX:NAME")]
    pub nodes: Vec<String>,

    /// Find node groups by tags: asg:tag=KEY,KEY=VALUE,… or label:KEY=VALUE,…,min=N,max=N; can be repeated.
    #[arg(long, value_name = "SPEC")]
    pub node_group_auto_discovery: Vec<String>,

    /// The configuration file of the in-tree provider.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,

    /// Use a simulated cloud, which needs no account and no configuration.
    #[arg(
        long,
        conflicts_with_all = ["config", "cloud_provider", "nodes", "node_group_auto_discovery", "cloud_config"]
    )]
    pub demo: bool,
}

/// The clouds that --cloud-provider accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Provider {
    /// AWS Auto Scaling groups
    Aws,
    /// Azure VM scale sets
    Azure,
}

const CONFIG: &str = "--config";
const CLOUD_PROVIDER: &str = "--cloud-provider";
const NODES: &str = "--nodes";
const AUTO_DISCOVERY: &str = "--node-group-auto-discovery";
const CLOUD_CONFIG: &str = "--cloud-config";

impl Arguments {
    /// Reads the configuration that the flags name.
    pub(super) fn read(&self, environment: Environment<'_>) -> Result<Config, ConfigError> {
        if self.demo {
            return Ok(Config::demo());
        }
        match (&self.config, self.cloud_provider, self.in_tree_flag()) {
            (Some(_), _, Some(flag)) => Err(ConfigError::FileAndFlags(flag)),
            (Some(path), _, None) => Config::parse(&read_file(path, &Place::Flag(CONFIG))?, path, environment),
            (None, Some(provider), _) => self.in_tree(provider, environment),
            (None, None, Some(flag)) => Err(ConfigError::NoProvider(flag)),
            (None, None, None) => Err(ConfigError::Nothing),
        }
    }

    /// Returns the first in-tree flag that is set.
    fn in_tree_flag(&self) -> Option<&'static str> {
        let given = [
            (self.cloud_provider.is_some(), CLOUD_PROVIDER),
            (!self.nodes.is_empty(), NODES),
            (!self.node_group_auto_discovery.is_empty(), AUTO_DISCOVERY),
            (self.cloud_config.is_some(), CLOUD_CONFIG),
        ];
        given.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }

    /// Returns a configuration with one source, named after its provider.
    fn in_tree(&self, provider: Provider, environment: Environment<'_>) -> Result<Config, ConfigError> {
        let mut context = SourceContext { environment, warnings: Vec::new() };
        if self.node_group_auto_discovery.len() > 1 {
            context.warnings.push(format!(
                "{AUTO_DISCOVERY} is given several times: Headcount serves groups that match any of these, and the in-tree \
                 provider those that match all; join the conditions with commas in one flag if all are to hold"
            ));
        }
        let (name, cloud) = match provider {
            Provider::Aws => ("aws", self.aws(&mut context)?),
            Provider::Azure => ("azure", self.azure(&mut context)?),
        };
        Ok(Config::of(vec![Source { name: name.to_owned(), cloud }], context.into_warnings()))
    }

    #[cfg(feature = "aws")]
    fn aws(&self, context: &mut SourceContext<'_>) -> Result<CloudSettings, ConfigError> {
        if let Some(path) = &self.cloud_config {
            super::aws::warn_about_cloud_config(path, &Place::Flag(CLOUD_CONFIG), context)?;
        }
        super::aws::groups(&self.explicit(), &self.discovered(), "aws", context).map(CloudSettings::Aws)
    }

    #[cfg(feature = "azure")]
    fn azure(&self, context: &mut SourceContext<'_>) -> Result<CloudSettings, ConfigError> {
        let place = Place::Flag(CLOUD_CONFIG);
        let input = super::azure::AzureInput {
            place: Place::Flag(CLOUD_PROVIDER),
            cloud_config: self.cloud_config.clone().map(|value| Located { value, place }),
            node_groups: self.explicit(),
            auto_discovery: self.discovered(),
            layer: super::cloud_config::Layer::new(),
        };
        super::azure::settings(input, "azure", context).map(CloudSettings::Azure)
    }

    #[cfg(not(feature = "aws"))]
    fn aws(&self, _context: &mut SourceContext<'_>) -> Result<CloudSettings, ConfigError> {
        Err(ConfigError::at(&Place::Flag(CLOUD_PROVIDER), "this build of Headcount does not support AWS"))
    }

    #[cfg(not(feature = "azure"))]
    fn azure(&self, _context: &mut SourceContext<'_>) -> Result<CloudSettings, ConfigError> {
        Err(ConfigError::at(&Place::Flag(CLOUD_PROVIDER), "this build of Headcount does not support Azure"))
    }

    fn explicit(&self) -> Vec<Located<String>> {
        from_flag(&self.nodes, NODES)
    }

    fn discovered(&self) -> Vec<Located<String>> {
        from_flag(&self.node_group_auto_discovery, AUTO_DISCOVERY)
    }
}

fn from_flag(values: &[String], flag: &'static str) -> Vec<Located<String>> {
    values.iter().map(|value| Located { value: value.clone(), place: Place::Flag(flag) }).collect()
}
