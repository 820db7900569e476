//! `headcount migrate`: from the flags of a Cluster Autoscaler with an in-tree provider to headcount.yaml and to the
//! flags of a Cluster Autoscaler that calls Headcount. Pure: what is read comes in, and the whole result goes out as
//! one text.

mod discovery;
mod flags;
mod notes;

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::Provider;
use crate::cloud::text::yaml_string;
use crate::kubernetes::{AutoscalerContainer, Flag, parse_flags};

/// The permissions that Headcount needs on AWS.
const AWS_POLICY: &str = include_str!("../../../deploy/aws-iam-policy.json");
/// The permissions that Headcount needs on Azure.
const AZURE_ROLE: &str = include_str!("../../../deploy/azure-role.json");

/// The flag of the specs by which an in-tree provider finds node groups.
const DISCOVERY: &str = "node-group-auto-discovery";

/// Where Headcount listens, and the Cluster Autoscaler calls it. Their containers share the folder.
const SOCKET: &str = "unix:///run/headcount/grpc.sock";

/// A Cluster Autoscaler with an in-tree provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InTree {
    /// Its arguments, without the program.
    pub arguments: Vec<String>,
    /// Its environment. `None` for a variable whose value comes from elsewhere, such as a Secret.
    pub environment: BTreeMap<String, Option<String>>,
    /// What the rest of its environment comes from, such as `Secret azure`.
    pub environment_from: Vec<String>,
    /// The tag of its image.
    pub release: Option<String>,
}

/// Why it cannot be migrated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MigrateError {
    /// The text is not YAML.
    #[error("the file is not YAML: {0}")]
    Yaml(String),
    /// There is no Cluster Autoscaler in the file.
    #[error(
        "the file has no container that runs cluster-autoscaler; pass the Deployment, as `kubectl get deployment -o yaml` \
         prints it"
    )]
    NoAutoscaler,
    /// The provider is not named.
    #[error("--cloud-provider is missing; pass the flags of the Cluster Autoscaler, such as --cloud-provider=aws")]
    NoProvider,
    /// It uses Headcount or another external provider already.
    #[error("--cloud-provider=externalgrpc is set already; there is nothing to migrate")]
    Migrated,
    /// Headcount does not serve this cloud.
    #[error("--cloud-provider={0}: Headcount serves aws and azure")]
    OtherProvider(String),
}

/// What to use instead of an in-tree provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    provider: Provider,
    /// `headcount.yaml`.
    pub config: String,
    /// The new flags of the Cluster Autoscaler.
    pub flags: Vec<String>,
    /// What has no counterpart, and what else to know: a sentence or two each.
    pub notes: Vec<String>,
}

/// Reads the Cluster Autoscaler's flags and environment from its manifest.
///
/// # Errors
///
/// Fails if the text is not YAML, or has no such container.
pub fn from_deployment(text: &str) -> Result<InTree, MigrateError> {
    let found = AutoscalerContainer::from_manifest(text).map_err(MigrateError::Yaml)?;
    let found = found.ok_or(MigrateError::NoAutoscaler)?;
    let AutoscalerContainer { arguments, environment, environment_from, tag, .. } = found;
    Ok(InTree { arguments, environment, environment_from, release: tag })
}

/// Computes what to use instead of an in-tree provider.
///
/// # Errors
///
/// Fails if the flags name no provider, or one that Headcount does not serve.
pub fn migrate(before: &InTree) -> Result<Migration, MigrateError> {
    let given = parse_flags(&before.arguments);
    let provider = match given.iter().rev().find(|flag| flag.name == "cloud-provider").and_then(Flag::value) {
        Some("aws") => Provider::Aws,
        Some("azure") => Provider::Azure,
        Some("externalgrpc") => return Err(MigrateError::Migrated),
        Some(other) => return Err(MigrateError::OtherProvider(other.to_owned())),
        None => return Err(MigrateError::NoProvider),
    };
    Ok(Migration {
        provider,
        config: config(provider, &given, before),
        flags: flags::new_flags(provider, &given, notes::ignores_no_labels(before)),
        notes: notes::notes(provider, &given, before),
    })
}

/// The text of headcount.yaml.
fn config(provider: Provider, given: &[Flag], before: &InTree) -> String {
    let variable = |name: &str| before.environment.get(name).and_then(Option::as_deref);
    let values = |name: &str| given.iter().filter(|flag| flag.name == name).filter_map(Flag::value).collect::<Vec<_>>();
    let (name, mut settings) = match provider {
        Provider::Aws => ("aws", Vec::new()),
        Provider::Azure => ("azure", Vec::new()),
    };
    match provider {
        Provider::Aws => {
            if let Some(region) = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")) {
                settings.push(format!("region: {}", quoted(region)));
            }
        }
        Provider::Azure => {
            if let Some(file) = values("cloud-config").last() {
                settings.push(format!("cloudConfig: {}", quoted(file)));
            }
            for (key, name) in [("subscriptionId", "ARM_SUBSCRIPTION_ID"), ("resourceGroup", "ARM_RESOURCE_GROUP")] {
                if let Some(value) = variable(name) {
                    settings.push(format!("{key}: {}", quoted(value)));
                }
            }
            if variable("ARM_USE_WORKLOAD_IDENTITY_EXTENSION") == Some("true") {
                settings.push("useFederatedWorkloadIdentityExtension: true".to_owned());
            }
        }
    }
    let discovered = discovery::joined(provider, &values(DISCOVERY));
    let explicit = values("nodes").into_iter().map(str::to_owned).collect();
    for (key, specs) in [("nodeGroups", explicit), ("autoDiscovery", discovered)] {
        if !specs.is_empty() {
            settings.push(format!("{key}:"));
            settings.extend(specs.iter().map(|spec| format!("  - {}", quoted(spec))));
        }
    }
    let mut text = format!("grpc: {{listen: \"{SOCKET}\"}}\nsources:\n  - name: {name}\n    {name}:");
    if settings.is_empty() {
        text.push_str(" {}");
    }
    for line in settings {
        text.push_str("\n      ");
        text.push_str(&line);
    }
    text.push('\n');
    text
}

/// A string that YAML reads as this text.
fn quoted(text: &str) -> String {
    yaml_string(text)
}

impl fmt::Display for Migration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "# headcount.yaml\n{}", self.config)?;
        writeln!(formatter, "# The Cluster Autoscaler's new flags")?;
        for flag in &self.flags {
            writeln!(formatter, "{flag}")?;
        }
        writeln!(
            formatter,
            "\n# /etc/headcount/cloud-config.yaml, which the Cluster Autoscaler reads\naddress: \
                {SOCKET}\ngrpc_timeout: 10s\n"
        )?;
        let permissions = match self.provider {
            Provider::Aws => ("# The IAM policy for the role of Headcount", AWS_POLICY),
            Provider::Azure => ("# The role for the identity of Headcount", AZURE_ROLE),
        };
        writeln!(formatter, "{}\n{}", permissions.0, permissions.1)?;
        writeln!(formatter, "# Notes")?;
        for note in &self.notes {
            writeln!(formatter, "- {note}")?;
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "aws", feature = "azure"))]
mod tests;
