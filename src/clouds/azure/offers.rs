//! The machine sizes of a location, looked up seldom: the list is megabytes long and changes a few times a year.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::sizes::{fold, instance_type};
use super::{Azure, machine};
use crate::cloud::{CloudError, InstanceType};

const LIST: &str = "skus.list";
/// How long a list is good for.
const LIST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// A list that lacks a size that is asked for is not asked for anew sooner than this.
const MISS_EVERY: Duration = Duration::from_secs(10 * 60);
/// A list that could not be had is not asked for anew sooner than this.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Sizes by name in lower case.
type Sizes = BTreeMap<String, InstanceType>;

#[derive(Debug)]
struct Offer {
    tried: Instant,
    /// When it was read, and what it says.
    read: Option<(Instant, Arc<Sizes>)>,
    problem: Option<String>,
}

/// What each location offers. Whoever needs a list that is being read waits for it.
#[derive(Debug, Default)]
pub(super) struct Offers(Mutex<BTreeMap<String, Offer>>);

impl Azure {
    /// Looks sizes up by name.
    pub(super) async fn types_named(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        let mut found: BTreeMap<String, InstanceType> = BTreeMap::new();
        for location in self.locations().await? {
            let sizes = self.offer(&location, names).await?;
            for name in names {
                // Under the name it was asked for, for the same machine may be sold under two.
                let size = sizes.get(&fold(name)).map(|size| InstanceType { name: name.clone(), ..size.clone() });
                found.extend(size.map(|size| (name.clone(), size)));
            }
        }
        Ok(found.into_values().collect())
    }

    /// Every size.
    pub(super) async fn types_all(&self) -> Result<Vec<InstanceType>, CloudError> {
        let mut found = Sizes::new();
        for location in self.locations().await? {
            let sizes = self.offer(&location, &[]).await?;
            found.extend(sizes.iter().map(|(name, size)| (name.clone(), size.clone())));
        }
        Ok(found.into_values().collect())
    }

    /// The configured location, or those of the scale sets.
    async fn locations(&self) -> Result<BTreeSet<String>, CloudError> {
        if let Some(location) = &self.settings.location {
            return Ok(BTreeSet::from([machine::region(location)]));
        }
        let mut locations = self.memory.locations();
        if locations.is_empty() {
            let sets = self.api.list_scale_sets().await?;
            locations.extend(sets.into_iter().filter_map(|set| Some(set.ok()?.location)));
        }
        let locations: BTreeSet<String> = locations
            .iter()
            .map(|location| machine::region(location))
            .filter(|location| !location.is_empty())
            .collect();
        if locations.is_empty() {
            let message = "there is no scale set whose location could be asked for; set location in the configuration";
            return Err(CloudError::refused(LIST, &self.settings.resource_group, message));
        }
        Ok(locations)
    }

    /// What a location offers, anew if the list is old or lacks one of these.
    async fn offer(&self, location: &str, wanted: &[String]) -> Result<Arc<Sizes>, CloudError> {
        let mut offers = self.offers.0.lock().await;
        if let Some(offer) = offers.get(location) {
            match &offer.read {
                Some((read, sizes)) => {
                    let is_complete = wanted.iter().all(|name| sizes.contains_key(&fold(name)));
                    let is_good = read.elapsed() < LIST_LIFE && is_complete;
                    if is_good || offer.tried.elapsed() < MISS_EVERY {
                        return Ok(Arc::clone(sizes));
                    }
                }
                None if offer.tried.elapsed() < RETRY_AFTER => {
                    let problem = offer.problem.as_deref().unwrap_or("it took too long");
                    return Err(CloudError::unreachable(LIST, location, format!("not asked again so soon: {problem}")));
                }
                None => {}
            }
        }
        let offer = offers.entry(location.to_owned()).or_insert_with(|| Offer {
            tried: Instant::now(),
            read: None,
            problem: None,
        });
        // Noted before the call, for whoever waits for it may give up.
        offer.tried = Instant::now();
        offer.problem = None;
        match self.api.list_sizes(location).await {
            Ok(sizes) => {
                let sizes = sizes.iter().filter_map(instance_type).map(|size| (fold(&size.name), size));
                let sizes: Arc<Sizes> = Arc::new(sizes.collect());
                offer.read = Some((Instant::now(), Arc::clone(&sizes)));
                Ok(sizes)
            }
            Err(error) => {
                offer.problem = Some(error.to_string());
                let Some((_, sizes)) = &offer.read else { return Err(error) };
                tracing::warn!(location, %error, "machine sizes cannot be looked up; the list of earlier is used");
                Ok(Arc::clone(sizes))
            }
        }
    }
}
