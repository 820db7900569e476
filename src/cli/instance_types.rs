//! `headcount instance-types`

use std::time::Duration;

use tokio::time::timeout;

use super::CommandError;
use super::clouds::{self, Handles};
use super::output::print;
use crate::cloud::{CallMeter, ReadOnlyCloud};
use crate::config::{self, Config, Source};
use crate::instance_types;

/// How long listing the instance types may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// Work with tables of instance types.
#[derive(Debug, clap::Args)]
pub(super) struct InstanceTypes {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print a table of all instance types that a source offers, as its cloud describes them.
    ///
    /// Review and edit it, then add it to the configuration under instanceTypes:. Reads one cloud and writes nothing.
    Export(Export),
}

#[derive(Debug, clap::Args)]
struct Export {
    /// The name of the source in the configuration; optional if there is only one.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    #[command(flatten)]
    configuration: config::Arguments,
}

impl InstanceTypes {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        match self.command {
            Command::Export(export) => export.run().await,
        }
    }
}

impl Export {
    async fn run(self) -> Result<(), CommandError> {
        let config = Config::load(&self.configuration)?;
        let source = chosen(&config.sources, self.source.as_deref())?;
        let cloud: ReadOnlyCloud =
            clouds::connect_source(source, &mut Handles::default(), CallMeter::default()).await?;
        let failed = |why: String| CommandError::Failed(format!("source {}: {why}", source.name));
        let listed = timeout(PATIENCE, cloud.all_instance_types()).await;
        let listed = listed.map_err(|_elapsed| {
            failed(format!("listing its instance types took longer than {PATIENCE:?}; try again"))
        })?;
        let types = listed.map_err(|error| failed(error.to_string()))?;
        if types.is_empty() {
            return Err(failed(
                "the cloud returned no instance types; check the region and the permissions".to_owned(),
            ));
        }
        print(&instance_types::export(cloud.family(), &types))
    }
}

fn chosen<'a>(sources: &'a [Source], name: Option<&str>) -> Result<&'a Source, CommandError> {
    let names = || sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, sources) {
        (Some(name), _) => sources.iter().find(|source| source.name == name).ok_or_else(|| {
            CommandError::Usage(format!(
                "--source {name}: no such source in the configuration; choose one of: {}",
                names()
            ))
        }),
        (None, [only]) => Ok(only),
        (None, _) => Err(CommandError::Usage(format!(
            "the configuration has several sources; choose one with --source NAME: {}",
            names()
        ))),
    }
}
