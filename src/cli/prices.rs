//! `headcount prices`

use serde::Serialize;
use tokio::time::Instant;

use super::CommandError;
use super::clouds;
use super::output::columns;
use super::reading::Reading;
use crate::config::Config;
use crate::fleet::Fleet;
use crate::prices::{Prices, Quote};
use crate::template::NodeTemplate;

const TYPE: &str = "node.kubernetes.io/instance-type";
/// Digits after the point in the table; JSON and YAML have all.
const DECIMALS: f64 = 1e6;

/// Show what a node of each group costs per hour, as reported to the Cluster Autoscaler's price expander.
///
/// Shows where each price comes from, its date, and the price that it overrides. Reads the clouds directly, with
/// their price lists unless prices: {live: false} is set; no server needs to run, and nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct PricesOfGroups {
    /// The ID of one node group, as shown by `headcount groups`; all groups by default.
    group: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

/// One group, with the keys of the JSON output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    instance_type: String,
    /// The group launches other types too; the price is that of the first.
    mixed: bool,
    region: Option<String>,
    capacity_type: &'static str,
    price: f64,
    currency: String,
    provenance: String,
    estimate: bool,
    date: Option<String>,
    overrides: Option<Overridden>,
}

/// The next most trusted price.
#[derive(Debug, Serialize)]
struct Overridden {
    price: f64,
    provenance: String,
}

impl PricesOfGroups {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let Self { group, reading } = self;
        let Reading { configuration, output, patience } = reading;
        let config = Config::load(&configuration)?;
        let prepared = clouds::prepare(&config).await?;
        let (prices, refresh) = prepared.prices(&config);
        let fleet = prepared.start();
        let until = patience.wait_ready(&fleet).await?;
        if let Some(refresh) = refresh {
            // What cannot be fetched is logged, and its prices come from elsewhere.
            let _logged = refresh.fetch(Some(until)).await;
        }
        let ids = match group {
            Some(id) => vec![id],
            None => fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect(),
        };
        let (rows, problems) = rows(&fleet, &prices, &ids, until).await;
        if !rows.is_empty() || problems.is_empty() {
            output.print(&rows, || table(&rows))?;
        }
        CommandError::unless_read(&fleet, problems)
    }
}

async fn rows(fleet: &Fleet, prices: &Prices, ids: &[String], until: Instant) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    for id in ids {
        match fleet.template(id, until).await {
            Ok(template) => rows.push(row(id, &template, prices)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    (rows, problems)
}

fn row(id: &str, template: &NodeTemplate, prices: &Prices) -> Row {
    let offer = &template.offer;
    let Quote { hourly, currency, provenance, runner_up } = prices.quote(offer);
    let labels = template.node.metadata.as_ref().map(|metadata| &metadata.labels);
    Row {
        id: id.to_owned(),
        instance_type: offer.type_name.clone(),
        mixed: !labels.is_some_and(|labels| labels.contains_key(TYPE)),
        region: offer.region.clone(),
        capacity_type: if offer.is_spot { "spot" } else { "on-demand" },
        price: hourly,
        currency: currency.to_string(),
        estimate: provenance.is_estimate(),
        date: provenance.date().map(|day| day.to_string()),
        provenance: provenance.to_string(),
        overrides: runner_up.map(|(price, provenance)| Overridden { price, provenance: provenance.to_string() }),
    }
}

fn table(rows: &[Row]) -> String {
    let heading = ["ID", "TYPE", "REGION", "CAPACITY", "PER HOUR", "PROVENANCE", "DATE", "OVERRIDES"];
    let cells = rows.iter().map(|row| {
        let more = if row.mixed { " and others" } else { "" };
        let overrides = row.overrides.as_ref().map(|over| format!("{} ({})", rounded(over.price), over.provenance));
        vec![
            row.id.clone(),
            format!("{}{more}", row.instance_type),
            row.region.clone().unwrap_or_default(),
            row.capacity_type.to_owned(),
            format!("{} {}", rounded(row.price), row.currency),
            row.provenance.clone(),
            row.date.clone().unwrap_or_default(),
            overrides.unwrap_or_default(),
        ]
    });
    columns(&std::iter::once(heading.map(str::to_owned).to_vec()).chain(cells).collect::<Vec<_>>())
}

fn rounded(price: f64) -> f64 {
    (price * DECIMALS).round() / DECIMALS
}
