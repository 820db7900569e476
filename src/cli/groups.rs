//! `headcount groups`

use serde::Serialize;
use tokio::time::{Duration, Instant};

use super::clouds::{self, Connected};
use super::{CommandError, Output, columns, print};
use crate::cloud::InstanceState;
use crate::config::{self, Config};
use crate::fleet::GroupView;

/// How long the sources may take to be listed.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// List the node groups and their sizes, as they would be served.
///
/// Reads the clouds by itself; no server has to run, and nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Groups {
    #[command(flatten)]
    configuration: config::Arguments,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// One group, in the words of the command's JSON.
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
        let Self { configuration, output } = self;
        let Connected { fleet, .. } = clouds::connect(&Config::load(&configuration)?).await?;
        fleet.wait_ready(Instant::now() + PATIENCE).await.map_err(|error| CommandError::Failed(error.to_string()))?;
        let rows: Vec<Row> = fleet.snapshot().groups().map(|(id, view)| row(id, view)).collect();
        print(&match output {
            Output::Table => table(&rows),
            Output::Json => as_json(&rows)?,
            Output::Yaml => as_yaml(&rows)?,
        })?;
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

pub(super) fn as_json(value: &impl Serialize) -> Result<String, CommandError> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| CommandError::Failed(format!("cannot be written as JSON: {error}")))
}

pub(super) fn as_yaml(value: &impl Serialize) -> Result<String, CommandError> {
    serde_saphyr::to_string(value).map_err(|error| CommandError::Failed(format!("cannot be written as YAML: {error}")))
}
