//! `headcount groups`

use std::path::PathBuf;

use serde::Serialize;
use tokio::time::Instant;

use super::CommandError;
use super::clouds;
use super::output::{Output, columns};
use super::patience::Patience;
use crate::check::{Autoscaler, similar};
use crate::cloud::InstanceState;
use crate::config::{self, Config};
use crate::fleet::{Fleet, GroupView};

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
    /// Show which groups the Cluster Autoscaler balances with each other, and what separates the others.
    #[arg(long)]
    similar: bool,
    /// With --similar: the release of the Cluster Autoscaler, such as 1.34.
    #[arg(long, value_name = "RELEASE", requires = "similar")]
    ca_version: Option<String>,
    /// With --similar: the manifest of the Cluster Autoscaler's Deployment, whose flags are used.
    #[arg(long, value_name = "FILE", requires = "similar")]
    ca_deployment: Option<PathBuf>,
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
        let Self { configuration, output, patience, similar, ca_version, ca_deployment } = self;
        let autoscaler = Autoscaler::from_arguments(ca_version.as_deref(), ca_deployment.as_deref());
        let autoscaler = autoscaler.map_err(|error| CommandError::Usage(error.to_string()))?.unwrap_or_default();
        let prepared = clouds::prepare(&Config::load(&configuration)?).await?;
        if similar {
            prepared.recall().await;
        }
        let fleet = prepared.start();
        let until = patience.wait_ready(&fleet).await?;
        if similar {
            return print_similar(&fleet, &autoscaler, output, until).await;
        }
        let rows: Vec<Row> = fleet.snapshot().groups().map(|(id, view)| row(id, view)).collect();
        output.print(&rows, || table(&rows))?;
        match fleet.problems() {
            problems if problems.is_empty() => Ok(()),
            problems => Err(CommandError::Failed(problems.join("; "))),
        }
    }
}

async fn print_similar(
    fleet: &Fleet,
    autoscaler: &Autoscaler,
    output: Output,
    until: Instant,
) -> Result<(), CommandError> {
    let ids: Vec<String> = fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect();
    let mut templates = Vec::new();
    for id in ids {
        let template = fleet.template(&id, until).await;
        let template =
            template.inspect_err(|error| tracing::warn!(%error, "node group is compared with no other")).ok();
        templates.push((id, template));
    }
    let groups: Vec<_> = templates.iter().map(|(id, template)| (id.clone(), template.as_deref())).collect();
    let rows = similar(&groups, autoscaler);
    output.print(&rows, || {
        let mut cells = vec![["ID", "SET", "NEAREST", "SEPARATED BY"].map(str::to_owned).to_vec()];
        cells.extend(rows.iter().map(|row| {
            let set = row.set.map_or_else(|| "-".to_owned(), |set| set.to_string());
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            vec![row.id.clone(), set, text(&row.nearest), text(&row.separated_by)]
        }));
        columns(&cells)
    })
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
