//! `headcount groups`

use serde::Serialize;
use tokio::time::Instant;

use super::autoscaler::AutoscalerArguments;
use super::output::{Output, columns};
use super::reading::Reading;
use super::{CommandError, clouds};
use crate::admin::statusz::{Document, GroupEntry};
use crate::check::{Autoscaler, similar};
use crate::config::Config;
use crate::fleet::Fleet;

/// List the node groups and their sizes as the Cluster Autoscaler would see them.
///
/// Reads the clouds directly; no server needs to run, and nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Groups {
    #[command(flatten)]
    reading: Reading,
    /// Show which groups the Cluster Autoscaler balances with each other, and how the others differ. This depends on
    /// its release and flags.
    #[arg(long)]
    similar: bool,
    #[command(flatten)]
    autoscaler: AutoscalerArguments,
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
        let Self { reading, similar, autoscaler } = self;
        let Reading { configuration, output, patience } = reading;
        let config = Config::load(&configuration)?;
        let prepared = clouds::prepare(&config).await?;
        if similar {
            prepared.recall().await;
        }
        let fleet = prepared.start();
        let until = patience.wait_ready(&fleet).await?;
        if similar {
            let autoscaler = autoscaler.learn(&config, None).await?;
            print_similar(&fleet, &autoscaler, output, until).await?;
        } else {
            let rows: Vec<Row> = Document::of(&fleet).groups.into_iter().map(Row::from).collect();
            output.print(&rows, || table(&rows))?;
        }
        CommandError::unless_read(&fleet, Vec::new())
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
        let template = template
            .inspect_err(
                |error| tracing::warn!(%error, "node group is left out of the comparison, because it has no template"),
            )
            .ok();
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

impl From<GroupEntry> for Row {
    fn from(group: GroupEntry) -> Self {
        Self {
            id: group.id,
            source: group.source,
            min: group.min,
            max: group.max,
            target: group.target,
            desired: group.desired,
            live: group.live,
            creating: group.creating,
            deleting: group.deleting,
            failed: group.failed,
            age_seconds: group.age_seconds,
        }
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
