//! `headcount groups`

use serde::Serialize;

use super::CommandError;
use super::clouds;
use super::output::{Output, columns};
use super::patience::Patience;
use crate::cloud::InstanceState;
use crate::config::{self, Config};
use crate::fleet::GroupView;

/// List the node groups and their sizes as the Cluster Autoscaler would see them.
///
/// Reads the clouds directly; no server needs to run, and nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Groups {
    #[command(flatten)]
    configuration: config::Arguments,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    patience: Patience,
}

/// One group, with the keys of the JSON output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    source: String,
    min: u32,
    max: u32,
    target: u32,
    desired: u32,
    live: u32,
    creating: u32,
    deleting: u32,
    failed: u32,
    age_seconds: u64,
}

impl Groups {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let Self { configuration, output, patience } = self;
        let fleet = clouds::prepare(&Config::load(&configuration)?).await?.start();
        patience.wait_ready(&fleet).await?;
        let rows: Vec<Row> = fleet.snapshot().groups().map(|(id, view)| row(id, view)).collect();
        output.print(&rows, || table(&rows))?;
        match fleet.problems() {
            problems if problems.is_empty() => Ok(()),
            problems => Err(CommandError::Failed(problems.join("; "))),
        }
    }
}

fn row(id: &str, view: &GroupView) -> Row {
    let status = &view.status;
    Row {
        id: id.to_owned(),
        source: view.key.source.to_string(),
        min: view.min,
        max: view.max,
        target: status.target,
        desired: status.capacity,
        live: status.live,
        creating: status.in_state(InstanceState::Creating) - status.failed(),
        deleting: status.in_state(InstanceState::Deleting),
        failed: status.failed(),
        age_seconds: view.observed.elapsed().as_secs(),
    }
}

fn table(rows: &[Row]) -> String {
    let heading = ["ID", "SOURCE", "MIN", "MAX", "TARGET", "DESIRED", "LIVE", "CREATING", "DELETING", "FAILED", "AGE"];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| {
        let sizes = [row.min, row.max, row.target, row.desired, row.live, row.creating, row.deleting, row.failed];
        let mut cells = vec![row.id.clone(), row.source.clone()];
        cells.extend(sizes.map(|size| size.to_string()));
        cells.push(format!("{}s", row.age_seconds));
        cells
    }));
    columns(&cells)
}
