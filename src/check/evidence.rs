//! What the clouds and the cluster say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::iter;
use tokio::time::timeout;

use super::Subject;
use crate::cloud::{CloudError, Conflicts, Family, GroupName, GroupReading, Listing, SharedCloud};
use crate::fleet::TemplateBuilder;
use crate::template::NodeTemplate;

/// How long anything may take that one source or the cluster is asked.
const PATIENCE: Duration = Duration::from_secs(60);
/// Templates built at a time per source, as when serving.
const TEMPLATE_BUILDS: usize = 4;

/// All there is to decide on.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) warnings: Vec<String>,
    pub(super) sources: Vec<SourceEvidence>,
    pub(super) gpu_label: bool,
    /// What is wrong with learning; `None` where nothing is to be learned.
    pub(super) kubernetes: Option<Result<(), String>>,
}

/// What there is to a source.
pub(super) struct SourceEvidence {
    pub(super) name: Arc<str>,
    pub(super) family: Family,
    pub(super) listed: Result<Listed, Unlisted>,
}

/// Why a source could not be listed.
#[derive(Debug)]
pub(super) enum Unlisted {
    Failed(CloudError),
    TooLate,
}

/// What a source lists.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) groups: Vec<GroupEvidence>,
    pub(super) broken: Vec<(GroupName, String)>,
    pub(super) absent: Vec<GroupName>,
    pub(super) remarks: Vec<(GroupName, String)>,
    pub(super) conflicts: Conflicts,
}

/// What there is to a group.
pub(super) struct GroupEvidence {
    /// As served.
    pub(super) id: String,
    /// Whether another source has a group of this name.
    pub(super) shares_name: bool,
    pub(super) reading: GroupReading,
    pub(super) template: Result<NodeTemplate, String>,
}

/// Asks everyone.
pub(super) async fn gather(subject: &Subject<'_>) -> Evidence {
    let listings = join_all(subject.sources.iter().map(|(_, cloud)| listing(cloud))).await;
    let mut names: BTreeMap<GroupName, usize> = BTreeMap::new();
    for reading in listings.iter().flatten().flat_map(|listing| &listing.groups) {
        *names.entry(reading.name.clone()).or_default() += 1;
    }
    let sources = subject.sources.iter().zip(listings).map(|((name, cloud), listing)| async {
        let listed = match listing {
            Ok(listing) => Ok(listed(subject, name, cloud, listing, &names).await),
            Err(unlisted) => Err(unlisted),
        };
        SourceEvidence { name: Arc::clone(name), family: cloud.family(), listed }
    });
    Evidence {
        warnings: subject.warnings.to_vec(),
        sources: join_all(sources).await,
        gpu_label: subject.gpu_label,
        kubernetes: kubernetes(subject).await,
    }
}

async fn listing(cloud: &SharedCloud) -> Result<Listing, Unlisted> {
    match timeout(PATIENCE, cloud.list()).await {
        Ok(listed) => listed.map_err(Unlisted::Failed),
        Err(_elapsed) => Err(Unlisted::TooLate),
    }
}

async fn listed(
    subject: &Subject<'_>,
    source: &Arc<str>,
    cloud: &SharedCloud,
    listing: Listing,
    names: &BTreeMap<GroupName, usize>,
) -> Listed {
    let builder = TemplateBuilder {
        source: Arc::clone(source),
        cloud: Arc::clone(cloud),
        catalog: Arc::clone(subject.catalog),
        policies: Arc::clone(subject.policies),
    };
    let group = |reading: GroupReading| async {
        let shares_name = names.get(&reading.name).is_some_and(|sources| *sources > 1);
        let id = if shares_name { format!("{source}/{}", reading.name) } else { reading.name.to_string() };
        let template = builder.build_one(&id, &reading).await.template;
        GroupEvidence { id, shares_name, reading, template }
    };
    let groups = iter(listing.groups.into_iter().map(group)).buffered(TEMPLATE_BUILDS).collect().await;
    let conflicts = timeout(PATIENCE, cloud.conflicts()).await.unwrap_or_default();
    let Listing { broken, absent, .. } = listing;
    Listed { groups, broken, absent, remarks: cloud.remarks(), conflicts }
}

/// Whether what learning reads can be read. Whether the ConfigMap can be written is not tried.
async fn kubernetes(subject: &Subject<'_>) -> Option<Result<(), String>> {
    let api = match subject.kubernetes? {
        Ok(api) => api,
        Err(reason) => return Some(Err(reason.to_owned())),
    };
    let read = async {
        api.list_nodes(None).await.map_err(|error| error.to_string())?;
        api.get_config_map().await.map_err(|error| error.to_string())?;
        Ok(())
    };
    let read = timeout(PATIENCE, read).await;
    Some(read.unwrap_or_else(|_elapsed| Err("no answer in time".to_owned())))
}
