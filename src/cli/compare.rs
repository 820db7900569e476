//! `headcount compare`

use std::collections::BTreeMap;

use super::autoscaler::AutoscalerArguments;
use super::output::columns;
use super::reading::Reading;
use super::{CommandError, clouds, server};
use crate::admin::statusz::Document;
use crate::check::compare::{Comparison, Row, Sides, compare};
use crate::config::Config;
use crate::fleet::Fleet;
use crate::kubernetes::{self, AUTOSCALER_STATUS_DEFAULT, AutoscalerStatus, KubernetesApi as _};

/// Compare the sizes of every node group in the cloud, Headcount, the Cluster Autoscaler and Kubernetes.
///
/// Reads the clouds, a running server if --server names one, the Cluster Autoscaler's status ConfigMap and the nodes;
/// nothing is written. Exits with 1 if they differ, or if the server, a source or a group cannot be read. Operations under way, and groups
/// that cannot grow or shrink, are shown as notes and do not count as differences.
#[derive(Debug, clap::Args)]
pub(super) struct Compare {
    #[command(flatten)]
    reading: Reading,
    /// The admin port of the running server, such as http://127.0.0.1:8087. Without it, Headcount's view is computed.
    /// With --demo, this command has a simulated cloud of its own, so there is no server to compare with.
    #[arg(long, value_name = "URL", conflicts_with = "demo")]
    server: Option<String>,
    /// The ConfigMap with the Cluster Autoscaler's status.
    #[arg(long, value_name = "NAME", default_value = AUTOSCALER_STATUS_DEFAULT)]
    ca_status: String,
    #[command(flatten)]
    autoscaler: AutoscalerArguments,
}

impl Compare {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let config = Config::load(&self.reading.configuration)?;
        let fleet = clouds::prepare(&config).await?.start();
        let ready = self.reading.patience.wait_ready(&fleet);
        let server = async {
            match &self.server {
                Some(url) => Some(server::status(url).await),
                None => None,
            }
        };
        let flags = self.autoscaler.learn(&config, None);
        let (ready, server, flags, (autoscaler, nodes)) = tokio::join!(ready, server, flags, self.cluster(&config));
        ready?;
        let flags = flags?;
        let nodes = nodes.map(|nodes| by_group(&fleet, &nodes));
        let sides = Sides { cloud: Document::of(&fleet), server, autoscaler, backoff: flags.backoff(), nodes };
        let comparison = compare(&sides);
        self.reading.output.print(&comparison, || table(&comparison))?;
        if let Some(Err(reason)) = sides.server {
            return Err(CommandError::Failed(format!("Headcount's server cannot be read: {reason}")));
        }
        if comparison.agrees() {
            return CommandError::unless_read(&fleet, Vec::new());
        }
        let differing = comparison.groups.iter().filter(|row| !row.differences.is_empty()).count();
        Err(CommandError::Failed(format!("{differing} of {} node groups differ", comparison.groups.len())))
    }

    /// What the Cluster Autoscaler wrote, and the provider IDs of all nodes.
    async fn cluster(&self, config: &Config) -> (Result<AutoscalerStatus, String>, Result<Vec<String>, String>) {
        let settings = config.learn.as_ref().or(config.taints.as_ref()).or(config.events.as_ref());
        let settings = settings.cloned().unwrap_or_default();
        let client = match kubernetes::Client::new(settings, &|name| std::env::var(name).ok()) {
            Ok(client) => client,
            Err(error) => return (Err(error.to_string()), Err(error.to_string())),
        };
        let status = async {
            let text = client.autoscaler_status(&self.autoscaler.ca_namespace, &self.ca_status).await;
            let text = text.map_err(|error| error.to_string())?;
            let missing = || {
                format!(
                    "there is no ConfigMap {}/{}; name it with --ca-namespace and --ca-status",
                    self.autoscaler.ca_namespace, self.ca_status
                )
            };
            AutoscalerStatus::parse(&text.ok_or_else(missing)?)
        };
        let nodes = async {
            let nodes = client.list_nodes().await.map_err(|error| error.to_string())?;
            Ok(nodes.into_iter().map(|node| node.provider_id).collect())
        };
        let patience = self.reading.patience;
        tokio::join!(patience.within(status), patience.within(nodes))
    }
}

fn by_group(fleet: &Fleet, provider_ids: &[String]) -> BTreeMap<String, u32> {
    let snapshot = fleet.snapshot();
    let mut nodes = BTreeMap::new();
    for (group, _) in provider_ids.iter().filter_map(|id| snapshot.group_of(id)) {
        *nodes.entry(group.to_string()).or_default() += 1;
    }
    nodes
}

const COLUMNS: [&str; 7] = ["ID", "CLOUD", "LIVE", "HEADCOUNT", "AUTOSCALER", "NODES", "DIFFERENCES"];

fn table(comparison: &Comparison) -> String {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let size = |size: Option<u32>| shown(size.map(|size| size.to_string()));
    let row = |row: &Row| {
        vec![
            row.id.clone(),
            size(row.cloud_desired),
            size(row.cloud_live),
            size(row.headcount_target),
            shown(row.autoscaler_target.map(|target| target.to_string())),
            size(row.nodes),
        ]
    };
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for group in &comparison.groups {
        let notes = group.notes.iter().map(|note| format!("note: {note}"));
        let mut texts = group.differences.iter().cloned().chain(notes);
        let mut first = row(group);
        first.extend(texts.next().or_else(|| Some(String::new())));
        rows.push(first);
        for text in texts {
            let mut more = vec![String::new(); COLUMNS.len() - 1];
            more.push(text);
            rows.push(more);
        }
    }
    let notes: String = comparison.notes.iter().map(|note| format!("note: {note}\n")).collect();
    columns(&rows) + &notes
}
