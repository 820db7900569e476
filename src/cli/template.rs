//! `headcount template`

use tokio::time::Instant;

use super::clouds::{self, Connected};
use super::groups::{PATIENCE, as_json, as_yaml};
use super::{CommandError, Output, columns, print};
use crate::config::{self, Config};
use crate::template::show;

/// Show the node that the Cluster Autoscaler will be told a group grows by.
///
/// The table adds where each value comes from, and the value it was preferred to. Reads the clouds by itself; no server
/// has to run, and nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Template {
    /// The node group, by the ID that `headcount groups` shows.
    group: String,
    #[command(flatten)]
    configuration: config::Arguments,
    /// How to print it; JSON and YAML are the v1.Node as kubectl prints it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

impl Template {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let Self { group, configuration, output } = self;
        let prepared = clouds::prepare(&Config::load(&configuration)?).await?;
        prepared.recall().await;
        let Connected { fleet, .. } = prepared.start();
        let until = Instant::now() + PATIENCE;
        let failed = |error: crate::fleet::FleetError| CommandError::Failed(error.to_string());
        fleet.wait_ready(until).await.map_err(failed)?;
        let template = fleet.template(&group, until).await.map_err(failed)?;
        print(&match output {
            Output::Json => as_json(&show::to_json(&template.node))?,
            Output::Yaml => as_yaml(&show::to_json(&template.node))?,
            Output::Table => {
                let heading = ["VALUE", "IS", "FROM", "RATHER THAN"].map(str::to_owned);
                let rows = std::iter::once(heading).chain(show::rows(&template));
                columns(&rows.map(|row| row.to_vec()).collect::<Vec<_>>())
            }
        })
    }
}
