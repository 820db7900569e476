//! `headcount template`

use super::CommandError;
use super::clouds;
use super::output::columns;
use super::reading::Reading;
use crate::config::Config;
use crate::template::show;

/// Show the node that the Cluster Autoscaler will expect from a scale-up of a group.
///
/// The table adds the provenance of each value and the value that it overrides; JSON and YAML print the v1.Node as
/// kubectl does. Reads the clouds directly; no server needs to run, and nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Template {
    /// The ID of the node group, as shown by `headcount groups`.
    group: String,
    #[command(flatten)]
    reading: Reading,
}

impl Template {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let Self { group, reading } = self;
        let Reading { configuration, output, patience } = reading;
        let prepared = clouds::prepare(&Config::load(&configuration)?).await?;
        prepared.recall().await;
        let fleet = prepared.start();
        let until = patience.wait_ready(&fleet).await?;
        let template = fleet.template(&group, until).await;
        // It may be a group of a source that cannot be read.
        let template = match template {
            Ok(template) => template,
            Err(error) => return CommandError::unless_read(&fleet, vec![error.to_string()]),
        };
        output.print(&show::to_json(&template.node), || {
            let heading = show::COLUMNS.map(str::to_owned);
            let rows = std::iter::once(heading).chain(show::rows(&template));
            columns(&rows.map(|row| row.to_vec()).collect::<Vec<_>>())
        })
    }
}
