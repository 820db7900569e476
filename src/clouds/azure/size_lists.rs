//! The VM sizes of each location. They are looked up rarely: the list is megabytes long and changes a few times a year.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::arm::Size;
use super::arm::operations::LIST_SKUS;
use super::sizes::{instance_type, quota_cpus, size_key};
use super::{Azure, launch_spec};
use crate::cloud::{CloudError, DeniedCall, InstanceType};

/// How long a list is used.
const LIST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// A list that lacks a requested size is read again no sooner than this.
const REREAD_AFTER_MISS: Duration = Duration::from_secs(10 * 60);
/// A list that could not be read is tried again no sooner than this.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Sizes by name in lower case.
type Sizes = BTreeMap<String, KnownSize>;

/// A size of a list.
#[derive(Clone, Debug)]
struct KnownSize {
    instance_type: InstanceType,
    family: Option<String>,
    /// The vCPUs of quota that a VM takes: those of the whole size, also where it offers fewer.
    quota_cpus: u32,
}

#[derive(Debug)]
struct SizeList {
    tried: Instant,
    /// When it was read, and its content.
    read: Option<(Instant, Arc<Sizes>)>,
    problem: Option<String>,
}

/// The VM sizes of each location. A caller that needs a list that is being read waits for it, and for no other one.
#[derive(Debug, Default)]
pub(super) struct SizeLists(std::sync::Mutex<BTreeMap<String, Arc<Mutex<Option<SizeList>>>>>);

impl SizeLists {
    fn of(&self, location: &str) -> Arc<Mutex<Option<SizeList>>> {
        Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(location.to_owned()).or_default())
    }
}

impl Azure {
    /// Looks sizes up by name. A location whose sizes cannot be read matters only where another one lacks some of them.
    pub(super) async fn types_named(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        let mut found: BTreeMap<String, InstanceType> = BTreeMap::new();
        let mut unread = None;
        for location in self.locations().await? {
            let sizes = match self.size_list(&location, names).await {
                Ok(sizes) => sizes,
                Err(error) => {
                    unread = Some(error);
                    continue;
                }
            };
            for name in names {
                // Returned under the requested name, because the same VM may be sold under two names.
                let size = sizes.get(&size_key(name)).map(|size| &size.instance_type);
                let size = size.map(|size| InstanceType { name: name.clone(), ..size.clone() });
                found.extend(size.map(|size| (name.clone(), size)));
            }
        }
        match unread {
            Some(error) if !names.iter().all(|name| found.contains_key(name)) => Err(error),
            _ => Ok(found.into_values().collect()),
        }
    }

    /// Every size.
    pub(super) async fn types_all(&self) -> Result<Vec<InstanceType>, CloudError> {
        let mut found: BTreeMap<String, InstanceType> = BTreeMap::new();
        for location in self.locations().await? {
            let sizes = self.size_list(&location, &[]).await?;
            found.extend(sizes.iter().map(|(name, size)| (name.clone(), size.instance_type.clone())));
        }
        Ok(found.into_values().collect())
    }

    /// The family whose quota a size counts against, and how much of it a VM takes.
    pub(super) async fn family_and_cpus(&self, location: &str, size: &str) -> Option<(String, u32)> {
        let sizes = self.size_list(location, &[size.to_owned()]).await.ok()?;
        let known = sizes.get(&size_key(size))?;
        Some((known.family.clone()?, known.quota_cpus))
    }

    /// The configured location, or the locations of the scale sets.
    pub(super) async fn locations(&self) -> Result<BTreeSet<String>, CloudError> {
        if let Some(location) = &self.settings.location {
            return Ok(BTreeSet::from([launch_spec::region(location)]));
        }
        let mut locations = self.cache.locations();
        if locations.is_empty() {
            let sets = self.api.list_scale_sets().await?;
            locations.extend(sets.into_iter().filter_map(|set| Some(set.ok()?.location)));
        }
        let locations: BTreeSet<String> = locations
            .iter()
            .map(|location| launch_spec::region(location))
            .filter(|location| !location.is_empty())
            .collect();
        if locations.is_empty() {
            let message = "no location is known, because there is no scale set; set location in the configuration";
            return Err(CloudError::refused(LIST_SKUS, &self.settings.resource_group, message));
        }
        Ok(locations)
    }

    /// The denied lists of sizes, one for each location. What was read was not denied.
    pub(super) async fn denied_size_lists(&self) -> Vec<DeniedCall> {
        const LOSS: &str = "templates rely on tables, which lack newer VM sizes, and groups are offered up to their \
                            own maximum, whatever the quotas leave";
        let mut denied = Vec::new();
        for location in self.locations().await.unwrap_or_default() {
            if self.size_list(&location, &[]).await.is_ok() {
                continue;
            }
            // A failure that is remembered is not the cloud's own error.
            if let Err(error @ CloudError::Denied(_)) = self.api.list_sizes(&location).await {
                denied.push(DeniedCall { error, loss: LOSS });
            }
        }
        denied
    }

    /// The sizes of a location. Reads them again if the list is old or lacks a wanted size.
    async fn size_list(&self, location: &str, wanted: &[String]) -> Result<Arc<Sizes>, CloudError> {
        let size_list = self.size_lists.of(location);
        let mut size_list = size_list.lock().await;
        if let Some(size_list) = &*size_list {
            match &size_list.read {
                Some((read, sizes)) => {
                    let is_complete = wanted.iter().all(|name| sizes.contains_key(&size_key(name)));
                    let is_good = read.elapsed() < LIST_LIFE && is_complete;
                    if is_good || size_list.tried.elapsed() < REREAD_AFTER_MISS {
                        return Ok(Arc::clone(sizes));
                    }
                }
                None if size_list.tried.elapsed() < RETRY_AFTER => {
                    let problem = size_list.problem.as_deref().unwrap_or("the call took too long");
                    return Err(CloudError::unreachable(
                        LIST_SKUS,
                        location,
                        format!("the last lookup failed and is not retried yet: {problem}"),
                    ));
                }
                None => {}
            }
        }
        let size_list = size_list.get_or_insert_with(|| SizeList { tried: Instant::now(), read: None, problem: None });
        // Recorded before the call, because the caller may be cancelled while it waits.
        size_list.tried = Instant::now();
        size_list.problem = None;
        match self.api.list_sizes(location).await {
            Ok(sizes) => {
                let known = |size: &Size| {
                    let (instance_type, family) = (instance_type(size)?, size.family.clone());
                    let quota_cpus = quota_cpus(size).unwrap_or(instance_type.cpus);
                    Some((size_key(&instance_type.name), KnownSize { instance_type, family, quota_cpus }))
                };
                let sizes = sizes.iter().filter_map(known);
                let sizes: Arc<Sizes> = Arc::new(sizes.collect());
                size_list.read = Some((Instant::now(), Arc::clone(&sizes)));
                Ok(sizes)
            }
            Err(error) => {
                size_list.problem = Some(error.to_string());
                let Some((_, sizes)) = &size_list.read else { return Err(error) };
                tracing::warn!(location, %error, "VM size lookup failed; using the earlier list");
                Ok(Arc::clone(sizes))
            }
        }
    }
}
