//! What the clouds and the cluster report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::iter;
use tokio::sync::watch;
use tokio::time::timeout;

use super::pod_identity;
use super::prices::CollectedPrices;
use super::served::Served;
use super::{Autoscaler, CheckInput, ClusterError};
use crate::cloud::{
    AdverseSettings, CloudError, DeniedCall, Family, GroupName, GroupReading, GrowsBy, Identity, InstanceState,
    Listing, Missing, ProviderId, Provisioning, Quota, Quotas, ReadOnlyCloud, Recognition,
};
use crate::fleet::options::Options;
use crate::fleet::{BuiltTemplate, GroupKey, LivePolicies, NODE_AGE, TemplateBuilder, ZonePolicy};
use crate::template::NodeTemplate;

/// How long one source or the cluster may take to respond.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Templates built at a time per source, as when serving.
const TEMPLATE_BUILDS: usize = 4;

/// The data that findings are made from.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) warnings: Vec<String>,
    pub(super) sources: Vec<CollectedSource>,
    pub(super) gpu_label: bool,
    /// The label by which the Cluster Autoscaler knows GPU nodes.
    pub(super) gpu_label_key: String,
    /// What of the cluster can be read, or why that fails; `None` where nodes are not to be watched.
    pub(super) kubernetes: Option<Result<&'static str, ClusterError>>,
    /// What is known about the Cluster Autoscaler.
    pub(super) autoscaler: Autoscaler,
    /// Node groups with options, by the configuration or by their tags.
    pub(super) groups_with_options: Vec<String>,
    /// Whether options are sent to releases from 1.35 on.
    pub(super) are_options_sent_since_135: bool,
    /// Node groups with the option `zeroOrMaxNodeScaling`.
    pub(super) zero_or_max_groups: Vec<String>,
    /// Whether that option is sent.
    pub(super) is_zero_or_max_sent: bool,
    /// Whether new instances are listed at once.
    pub(super) are_new_listed_at_once: bool,
    /// What is known about prices.
    pub(super) prices: CollectedPrices,
    /// A webhook that did not run, and what to do.
    pub(super) webhook: Option<(String, &'static str)>,
}

/// A source.
pub(super) struct CollectedSource {
    pub(super) name: Arc<str>,
    pub(super) family: Family,
    /// The identity behind its credentials, if the cloud reports it.
    pub(super) identity: Option<String>,
    pub(super) listed: Result<CollectedListing, ListingFailure>,
}

/// Why a source could not be listed.
#[derive(Debug)]
pub(super) enum ListingFailure {
    Failed(CloudError),
    TimedOut,
}

/// What a source lists.
pub(super) struct CollectedListing {
    pub(super) groups: Vec<CollectedGroup>,
    pub(super) broken: Vec<(GroupName, String)>,
    pub(super) absent: Vec<GroupName>,
    pub(super) warnings: Vec<(GroupName, String)>,
    pub(super) adverse_settings: AdverseSettings,
    /// The calls that are not permitted, or why that was not found out.
    pub(super) denied_calls: Result<Vec<DeniedCall>, CloudError>,
    /// Why the quotas of the account cannot be read.
    pub(super) quotas_unread: Option<CloudError>,
}

#[cfg(test)]
impl Default for CollectedListing {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            broken: Vec::new(),
            absent: Vec::new(),
            warnings: Vec::new(),
            adverse_settings: AdverseSettings::default(),
            denied_calls: Ok(Vec::new()),
            quotas_unread: None,
        }
    }
}

/// A group.
pub(super) struct CollectedGroup {
    /// As served.
    pub(super) id: String,
    /// Whether another source has a group of this name.
    pub(super) shares_name: bool,
    /// The other source that matches this group, if there is one.
    pub(super) also_in: Option<Arc<str>>,
    pub(super) reading: GroupReading,
    /// By its tags or the configuration.
    pub(super) options: Options,
    pub(super) template: Result<NodeTemplate, String>,
    /// The cloud's error, if that is why there is no template.
    pub(super) undescribed: Option<CloudError>,
    /// The part of its capacity that no VM fills, in a scale set in which nothing runs. `None` where it was not read.
    pub(super) unfilled: Option<u32>,
    /// Why its instances cannot be read, where the listing lacks them.
    pub(super) unread: Option<CloudError>,
    /// Its scarcest quota, with the number of nodes that it leaves room for. `None` if no quota is known.
    pub(super) quota: Option<(Arc<str>, Quota, u32)>,
    /// Why it cannot grow as the configuration says; `None` if it can.
    pub(super) not_launched: Option<String>,
    /// Why the cloud refused a running server's launches.
    pub(super) launches_refused: Option<String>,
    /// Whether each of its zones is to be a node group.
    pub(super) are_zones_wanted: bool,
    /// Why a running server serves it as one that cannot grow.
    pub(super) blocked: Option<String>,
    /// Its instances that are older than 15 minutes, if none of its instances is a node of this cluster.
    pub(super) foreign_instances: usize,
}

/// The groups of each name: their sources, and what the clouds say they are.
type Names = BTreeMap<GroupName, Vec<(Arc<str>, Option<Identity>)>>;

/// Reads everything.
pub(super) async fn collect(input: &CheckInput<'_>) -> Collected {
    let listings = join_all(input.sources.iter().map(|(_, cloud)| listing(cloud))).await;
    let mut names = Names::new();
    for ((source, cloud), listing) in input.sources.iter().zip(&listings) {
        for reading in listing.iter().flat_map(|listing| &listing.groups) {
            let identity = reading.identity.map(|identity| identity.at(cloud.endpoint()));
            names.entry(reading.name.clone()).or_default().push((Arc::clone(source), identity));
        }
    }
    let mut warnings = input.warnings.to_vec();
    warnings.extend(unmatched(input, &listings));
    let nodes = nodes(input).await;
    let sources = input.sources.iter().zip(listings).map(|((name, cloud), listing)| async {
        let listed = match listing {
            Ok(listing) => Ok(listed(input, name, cloud, listing, &names, nodes.as_ref()).await),
            Err(failure) => Err(failure),
        };
        // Without an identity, the listing shows what is wrong with the credentials.
        let identity = timeout(PATIENCE, cloud.identity()).await.ok().and_then(Result::ok).flatten();
        CollectedSource { name: Arc::clone(name), family: cloud.family(), identity, listed }
    });
    let sources = join_all(sources).await;
    Collected {
        warnings,
        groups_with_options: groups_with(&sources, |options| !options.is_empty()),
        zero_or_max_groups: groups_with(&sources, |options| options.zero_or_max_node_scaling == Some(true)),
        is_zero_or_max_sent: input.is_zero_or_max_sent,
        are_new_listed_at_once: input.are_new_listed_at_once,
        are_options_sent_since_135: input.are_options_sent_since_135,
        prices: CollectedPrices::collect(input, &sources).await,
        webhook: pod_identity::webhook(input).or_else(|| pod_identity::no_identity(input, &sources)),
        sources,
        gpu_label: input.gpu_label,
        gpu_label_key: input.gpu_label_key.to_owned(),
        kubernetes: kubernetes(input).await,
        autoscaler: input.autoscaler.clone(),
    }
}

/// Entries of `groups:` that match nothing, where all sources can be listed and have groups: probably a typing error.
fn unmatched(input: &CheckInput<'_>, listings: &[Result<Listing, ListingFailure>]) -> Vec<String> {
    let mut groups = Vec::new();
    for ((source, _), listing) in input.sources.iter().zip(listings) {
        let Ok(listing) = listing else { return Vec::new() };
        let names =
            listing.groups.iter().map(|reading| &reading.name).chain(listing.broken.iter().map(|(name, _)| name));
        let names = names.chain(&listing.absent);
        groups.extend(names.map(|name| GroupKey { source: Arc::clone(source), name: name.clone() }));
    }
    if groups.is_empty() {
        return Vec::new();
    }
    let patterns = input.policies.unmatched(&groups).into_iter();
    patterns.map(|pattern| format!("groups: match {pattern:?} matches no node group")).collect()
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
    names: &Names,
    nodes: Option<&BTreeSet<ProviderId>>,
) -> CollectedListing {
    let builder = TemplateBuilder {
        source: Arc::clone(source),
        cloud: Arc::clone(cloud),
        catalog: Arc::clone(input.catalog),
        policies: Arc::new(LivePolicies::new(Arc::clone(input.policies))),
        is_lookup_failing: Arc::default(),
        remembered: watch::channel(true).1,
        waits: false,
    };
    let quotas = match timeout(PATIENCE, cloud.quotas()).await {
        Ok(quotas) => quotas,
        Err(_elapsed) => Err(no_response("source", source, "the quotas of the account")),
    };
    let group = |served: Served| async {
        let Served { whole, zone, reading } = served;
        let own = reading.identity.map(|identity| identity.at(cloud.endpoint()));
        let named_so = names.get(&whole.name).into_iter().flatten();
        let (same, others): (Vec<_>, Vec<_>) = named_so
            .filter(|(other, _)| other != source)
            .partition(|(_, identity)| identity.is_some() && *identity == own);
        let (shares_name, also_in) = (!others.is_empty(), same.first().map(|(other, _)| Arc::clone(other)));
        let id = if shares_name { format!("{source}/{}", reading.name) } else { reading.name.to_string() };
        let BuiltTemplate { template, cause: undescribed, .. } = builder.build_one(&id, &whole, zone.as_ref()).await;
        let foreign_instances = match nodes {
            Some(nodes) => foreign_instances(cloud, &whole, nodes).await,
            None => 0,
        };
        let (unfilled, unread) = match unfilled(cloud, &reading).await {
            Ok(unfilled) => (unfilled, None),
            Err(error) => (None, Some(error)),
        };
        let quota = quotas.as_ref().ok().and_then(|quotas| scarcest(quotas, &whole.name));
        let blocked = input.autoscaler.cannot_grow.get(&id).cloned();
        let launches_refused = input.autoscaler.launches_refused.get(&id).cloned();
        let policy = input.policies.of(&GroupKey { source: Arc::clone(source), name: whole.name.clone() });
        let options = Options::from_tags(&id, &reading.hints.options).merge(&policy.options);
        let are_zones_wanted = policy.zones == ZonePolicy::Separate;
        let is_to_launch = policy.grows_by == Some(GrowsBy::Launch) && !are_zones_wanted;
        let not_launched = if is_to_launch { reading.launch_zone().map(drop).err() } else { None };
        CollectedGroup {
            id,
            shares_name,
            also_in,
            reading,
            options,
            template,
            undescribed,
            unfilled,
            unread,
            quota,
            not_launched,
            launches_refused,
            are_zones_wanted,
            blocked,
            foreign_instances,
        }
    };
    let served = listing.groups.into_iter().flat_map(|whole| Served::of(whole, source, input.policies));
    let groups = iter(served.map(group)).buffered(TEMPLATE_BUILDS).collect().await;
    // At the same time: each may take all of its time.
    let (settings, denied_calls) =
        join(timeout(PATIENCE, cloud.adverse_settings()), timeout(PATIENCE, cloud.denied_calls())).await;
    let adverse_settings = settings.unwrap_or_else(|_elapsed| AdverseSettings {
        unread: vec![no_response("source", source, "the settings of its groups")],
        ..AdverseSettings::default()
    });
    let denied_calls = denied_calls.map_err(|_elapsed| no_response("source", source, "what is permitted"));
    let Listing { broken, absent, .. } = listing;
    let (warnings, quotas_unread) = (cloud.warnings(), quotas.err());
    CollectedListing { groups, broken, absent, warnings, adverse_settings, denied_calls, quotas_unread }
}

/// The error of a source or group whose cloud did not respond to the calls that read this.
pub(super) fn no_response(kind: &'static str, name: &str, what: &str) -> CloudError {
    let message = format!("the cloud did not respond within {} s to the calls that read {what}", PATIENCE.as_secs());
    CloudError::unreachable(kind, name, message)
}

/// The scarcest quota of a group, and the number of nodes that it leaves room for.
fn scarcest(quotas: &Quotas, group: &GroupName) -> Option<(Arc<str>, Quota, u32)> {
    let taken = quotas.groups.get(group)?;
    let of_group = taken.names.iter().filter_map(|name| {
        let quota = *quotas.by_name.get(name)?;
        let nodes = quota.left() / u64::from(taken.per_node.max(1));
        Some((Arc::clone(name), quota, u32::try_from(nodes).unwrap_or(u32::MAX)))
    });
    of_group.min_by_key(|(.., nodes)| *nodes)
}

/// The part of a group's capacity that no instance fills, if the cloud does not launch what is missing.
async fn unfilled(cloud: &ReadOnlyCloud, listed: &GroupReading) -> Result<Option<u32>, CloudError> {
    if listed.consistency.missing == Missing::Retried {
        return Ok(None);
    }
    let read = timeout(PATIENCE, cloud.observe(&listed.name)).await;
    let read = read.unwrap_or_else(|_elapsed| Err(no_response("node group", listed.name.as_str(), "its instances")))?;
    let at_rest = read.filter(|reading| reading.provisioning == Provisioning::Succeeded);
    Ok(at_rest.and_then(|reading| {
        let listed = reading.instances?.len() + usize::try_from(reading.without_id).unwrap_or(usize::MAX);
        Some(reading.desired.saturating_sub(u32::try_from(listed).unwrap_or(u32::MAX)))
    }))
}

/// The running instances of a group that are old enough to be nodes, if none of them is one.
async fn foreign_instances(cloud: &ReadOnlyCloud, listed: &GroupReading, nodes: &BTreeSet<ProviderId>) -> usize {
    // The listing of scale sets has no instances.
    let read = match listed.instances {
        Some(_) => None,
        None => timeout(PATIENCE, cloud.observe(&listed.name)).await.ok().and_then(Result::ok).flatten(),
    };
    let instances = read.as_ref().unwrap_or(listed).instances.iter().flatten();
    let running = instances.filter(|instance| instance.state == InstanceState::Running && instance.failure.is_none());
    let running: Vec<ProviderId> = running.map(|instance| instance.id.clone()).collect();
    // Nothing follows from the nodes of another cloud.
    let is_comparable = nodes.iter().any(|id| cloud.recognise(id.as_str()) != Recognition::Foreign);
    if running.is_empty() || !is_comparable || running.iter().any(|id| nodes.contains(id)) {
        return 0;
    }
    let old = timeout(PATIENCE, cloud.created_before(&listed.name, &running, cloud.now() - NODE_AGE)).await;
    old.ok().and_then(Result::ok).map_or(0, |old| old.len())
}

/// The IDs of the groups with such options.
fn groups_with(sources: &[CollectedSource], is_one: impl Fn(&Options) -> bool) -> Vec<String> {
    let groups = sources.iter().filter_map(|source| source.listed.as_ref().ok()).flat_map(|listed| &listed.groups);
    groups.filter(|group| is_one(&group.options)).map(|group| group.id.clone()).collect()
}

/// The provider IDs of the cluster's nodes; `None` for a cluster without nodes, from which nothing follows.
async fn nodes(input: &CheckInput<'_>) -> Option<BTreeSet<ProviderId>> {
    let api = input.kubernetes.as_ref()?.as_ref().ok()?;
    let nodes = timeout(PATIENCE, api.list_nodes()).await.ok()?.ok()?;
    let ids: BTreeSet<ProviderId> = nodes.into_iter().map(|node| ProviderId::from(node.provider_id)).collect();
    (!ids.is_empty()).then_some(ids)
}

/// What can be read of what `headcount serve` reads. Writing the ConfigMap is not tried.
async fn kubernetes(input: &CheckInput<'_>) -> Option<Result<&'static str, ClusterError>> {
    let api = match input.kubernetes? {
        Ok(api) => api,
        Err(error) => return Some(Err(Arc::clone(error).into())),
    };
    let read = async {
        api.check_nodes().await?;
        if !input.learns {
            return Ok("the nodes");
        }
        api.get_config_map().await?;
        Ok("the nodes and the ConfigMap")
    };
    let read = timeout(PATIENCE, read).await;
    Some(read.unwrap_or(Err(ClusterError::TimedOut)))
}
