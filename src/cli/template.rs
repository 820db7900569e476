//! `headcount template`

use tokio::time::Instant;

use super::CommandError;
use super::clouds::{self, Connected};
use super::groups::PATIENCE;
use super::output::{Output, columns};
use crate::config::{self, Config};
use crate::template::show;

/// Show the node that the Cluster Autoscaler will expect from a scale-up of a group.
///
/// The table adds the provenance of each value and the value that it overrides. Reads the clouds directly; no server needs to
/// run, and nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Template {
    /// The ID of the node group, as shown by `headcount groups`.
    group: String,
    #[command(flatten)]
    configuration: config::Arguments,
    /// The output format; JSON and YAML print the v1.Node as kubectl does.
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
        output.print(&show::to_json(&template.node), || {
            let heading = show::COLUMNS.map(str::to_owned);
            let rows = std::iter::once(heading).chain(show::rows(&template));
            columns(&rows.map(|row| row.to_vec()).collect::<Vec<_>>())
        })
    }
}
