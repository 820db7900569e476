//! `headcount instance-types`

use tokio::time::timeout;

use super::groups::PATIENCE;
use super::{CommandError, clouds, print};
use crate::config::{self, Config, Source};
use crate::instance_types;

/// Work with tables of instance types.
#[derive(Debug, clap::Args)]
pub(super) struct InstanceTypes {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write a table of every instance type that a source offers, as its cloud describes them.
    ///
    /// To review, edit and pass back under instanceTypes:. Reads one cloud, and writes nothing but its answer.
    Export(Export),
}

#[derive(Debug, clap::Args)]
struct Export {
    /// The source, by its name in the configuration; may be left out where there is one.
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
        let cloud = clouds::connect_source(source, &mut Vec::new()).await?;
        let failed = |why: String| CommandError::Failed(format!("source {}: {why}", source.name));
        let asked = timeout(PATIENCE, cloud.all_instance_types()).await;
        let asked = asked.map_err(|_elapsed| failed(format!("no answer within {PATIENCE:?}")))?;
        let types = asked.map_err(|error| failed(error.to_string()))?;
        if types.is_empty() {
            return Err(failed("the cloud names no instance type".to_owned()));
        }
        print(&instance_types::export(cloud.family(), &types))
    }
}

fn chosen<'a>(sources: &'a [Source], name: Option<&str>) -> Result<&'a Source, CommandError> {
    let names = || sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, sources) {
        (Some(name), _) => sources.iter().find(|source| source.name == name).ok_or_else(|| {
            CommandError::Usage(format!("--source {name}: there is no such source; there are: {}", names()))
        }),
        (None, [only]) => Ok(only),
        (None, _) => Err(CommandError::Usage(format!("say which source with --source NAME; there are: {}", names()))),
    }
}
