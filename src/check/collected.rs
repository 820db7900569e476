//! What the clouds and the cluster say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::iter;
use tokio::time::timeout;

use super::CheckInput;
use crate::cloud::{AdverseSettings, CloudError, Family, GroupName, GroupReading, Listing, ReadOnlyCloud};
use crate::fleet::TemplateBuilder;
use crate::template::NodeTemplate;

/// How long anything may take that one source or the cluster is asked.
const PATIENCE: Duration = Duration::from_secs(60);
/// Templates built at a time per source, as when serving.
const TEMPLATE_BUILDS: usize = 4;

/// All there is to decide on.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) warnings: Vec<String>,
    pub(super) sources: Vec<CollectedSource>,
    pub(super) gpu_label: bool,
    /// What is wrong with learning; `None` where nothing is to be learned.
    pub(super) kubernetes: Option<Result<(), String>>,
}

/// What there is to a source.
pub(super) struct CollectedSource {
    pub(super) name: Arc<str>,
    pub(super) family: Family,
    pub(super) listed: Result<CollectedListing, ListingFailure>,
}

/// Why a source could not be listed.
#[derive(Debug)]
pub(super) enum ListingFailure {
    Failed(CloudError),
    TimedOut,
}

/// What a source lists.
#[derive(Default)]
pub(super) struct CollectedListing {
    pub(super) groups: Vec<CollectedGroup>,
    pub(super) broken: Vec<(GroupName, String)>,
    pub(super) absent: Vec<GroupName>,
    pub(super) warnings: Vec<(GroupName, String)>,
    pub(super) adverse_settings: AdverseSettings,
    pub(super) denied_calls: Vec<CloudError>,
}

/// What there is to a group.
pub(super) struct CollectedGroup {
    /// As served.
    pub(super) id: String,
    /// Whether another source has a group of this name.
    pub(super) shares_name: bool,
    pub(super) reading: GroupReading,
    pub(super) template: Result<NodeTemplate, String>,
}

/// Asks everyone.
pub(super) async fn collect(input: &CheckInput<'_>) -> Collected {
    let listings = join_all(input.sources.iter().map(|(_, cloud)| listing(cloud))).await;
    let mut names: BTreeMap<GroupName, usize> = BTreeMap::new();
    for reading in listings.iter().flatten().flat_map(|listing| &listing.groups) {
        *names.entry(reading.name.clone()).or_default() += 1;
    }
    let sources = input.sources.iter().zip(listings).map(|((name, cloud), listing)| async {
        let listed = match listing {
            Ok(listing) => Ok(listed(input, name, cloud, listing, &names).await),
            Err(failure) => Err(failure),
        };
        CollectedSource { name: Arc::clone(name), family: cloud.family(), listed }
    });
    Collected {
        warnings: input.warnings.to_vec(),
        sources: join_all(sources).await,
        gpu_label: input.gpu_label,
        kubernetes: kubernetes(input).await,
    }
}

async fn listing(cloud: &ReadOnlyCloud) -> Result<Listing, ListingFailure> {
    match timeout(PATIENCE, cloud.list()).await {
        Ok(listed) => listed.map_err(ListingFailure::Failed),
        Err(_elapsed) => Err(ListingFailure::TimedOut),
    }
}

async fn listed(
    input: &CheckInput<'_>,
    source: &Arc<str>,
    cloud: &ReadOnlyCloud,
    listing: Listing,
    names: &BTreeMap<GroupName, usize>,
) -> CollectedListing {
    let builder = TemplateBuilder {
        source: Arc::clone(source),
        cloud: Arc::clone(cloud),
        catalog: Arc::clone(input.catalog),
        policies: Arc::clone(input.policies),
        is_lookup_failing: Arc::default(),
    };
    let group = |reading: GroupReading| async {
        let shares_name = names.get(&reading.name).is_some_and(|sources| *sources > 1);
        let id = if shares_name { format!("{source}/{}", reading.name) } else { reading.name.to_string() };
        let template = builder.build_one(&id, &reading).await.template;
        CollectedGroup { id, shares_name, reading, template }
    };
    let groups = iter(listing.groups.into_iter().map(group)).buffered(TEMPLATE_BUILDS).collect().await;
    let adverse_settings = timeout(PATIENCE, cloud.adverse_settings()).await.unwrap_or_default();
    let denied_calls = timeout(PATIENCE, cloud.denied_calls()).await.unwrap_or_default();
    let Listing { broken, absent, .. } = listing;
    CollectedListing { groups, broken, absent, warnings: cloud.warnings(), adverse_settings, denied_calls }
}

/// Whether what learning reads can be read. Whether the ConfigMap can be written is not tried.
async fn kubernetes(input: &CheckInput<'_>) -> Option<Result<(), String>> {
    let api = match input.kubernetes? {
        Ok(api) => api,
        Err(reason) => return Some(Err(reason.to_owned())),
    };
    let read = async {
        api.check_nodes().await.map_err(|error| error.to_string())?;
        api.get_config_map().await.map_err(|error| error.to_string())?;
        Ok(())
    };
    let read = timeout(PATIENCE, read).await;
    Some(read.unwrap_or_else(|_elapsed| Err("no answer in time".to_owned())))
}
