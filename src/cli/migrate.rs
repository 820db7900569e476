//! `headcount migrate`

use std::path::PathBuf;

use super::output::print;
use super::{CommandError, manifest};
use crate::cloud::text::printable_json;
use crate::config::migrate::{InTree, MigrateError, from_deployment, migrate};

/// Show what to use instead of an in-tree provider: headcount.yaml, the Cluster Autoscaler's new flags, and
/// permissions.
///
/// Reads the flags of the Cluster Autoscaler from its Deployment, or from the command line. Calls nothing and writes
/// nothing.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("before").required(true).args(["deployment", "flags"]))]
pub(super) struct Migrate {
    /// The manifest of the Cluster Autoscaler, as `kubectl get deployment -o yaml` prints it; - for stdin.
    #[arg(long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The flags of the Cluster Autoscaler, such as --cloud-provider=aws --nodes=1:10:my-asg.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

impl Migrate {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let before = match &self.deployment {
            Some(path) => {
                let text = manifest::read(path).map_err(|error| {
                    CommandError::Usage(format!("--deployment {}: cannot be read: {error}", path.display()))
                })?;
                from_deployment(&text)
            }
            None => Ok(InTree { arguments: self.flags, ..InTree::default() }),
        };
        let usage = |error: MigrateError| CommandError::Usage(error.to_string());
        let migration = before.and_then(|before| migrate(&before)).map_err(usage)?;
        print(&printable_json(&migration.to_string()))
    }
}
