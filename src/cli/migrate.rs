//! `headcount migrate`

use std::io::Read;
use std::path::PathBuf;

use super::CommandError;
use super::output::print;
use crate::config::migrate::{InTree, MigrateError, from_deployment, migrate};

/// The largest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Show what to use instead of an in-tree provider: headcount.yaml, the Cluster Autoscaler's new flags, and permissions.
///
/// Reads the flags of the Cluster Autoscaler from its Deployment, or from the command line after `--`. Calls nothing and writes
/// nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Migrate {
    /// The manifest of the Cluster Autoscaler, as `kubectl get deployment -o yaml` prints it; - for stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "flags")]
    deployment: Option<PathBuf>,
    /// The flags of the Cluster Autoscaler, such as --cloud-provider=aws --nodes=1:10:my-asg.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FLAGS",
        required_unless_present = "deployment"
    )]
    flags: Vec<String>,
}

impl Migrate {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let before = match &self.deployment {
            Some(path) => {
                let text = read(path).map_err(|error| {
                    CommandError::Usage(format!("--deployment {}: cannot be read: {error}", path.display()))
                })?;
                from_deployment(&text)
            }
            None => Ok(InTree { arguments: self.flags, ..InTree::default() }),
        };
        let usage = |error: MigrateError| CommandError::Usage(error.to_string());
        let migration = before.and_then(|before| migrate(&before)).map_err(usage)?;
        print(&migration.to_string())
    }
}

fn read(path: &PathBuf) -> std::io::Result<String> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().take(MANIFEST_BYTES_MAX).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(path)?.take(MANIFEST_BYTES_MAX).read_to_string(&mut text)?;
    }
    Ok(text)
}
