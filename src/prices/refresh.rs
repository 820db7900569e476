//! Fetches the clouds' price lists in the background: after the first pricing call, and then every 12 hours.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep, timeout_at};

use super::Prices;
use crate::cloud::{CloudError, Family, PriceExtent, ReadOnlyCloud};
use crate::instance_types::Day;

/// List prices change a few times a year, and spot prices slowly. The in-tree projects fetch as rarely.
const REFRESH_EVERY: Duration = Duration::from_secs(12 * 60 * 60);
/// After a temporary failure, the lists are fetched again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(60 * 60);
/// The limit of all lists of one source. The longest have about 40 pages.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Fetches the price lists of the sources. Dropping it cancels the fetches.
pub struct PriceRefresh {
    prices: Arc<Prices>,
    sources: Vec<(Arc<str>, ReadOnlyCloud)>,
    /// The failures that were logged, by source and call, until the source succeeds.
    noted: Mutex<HashSet<(Arc<str>, Cow<'static, str>)>>,
}

impl Drop for PriceRefresh {
    fn drop(&mut self) {
        self.prices.release_warning();
    }
}

impl PriceRefresh {
    /// Fetches for these sources, except those whose prices are in another currency than the server's: prices in two
    /// currencies cannot be compared.
    pub fn new(prices: Arc<Prices>, sources: impl IntoIterator<Item = (Arc<str>, ReadOnlyCloud)>) -> Self {
        prices.hold_warning();
        let is_comparable = |(_, cloud): &(_, ReadOnlyCloud)| cloud.market().currency == prices.currency();
        let sources = sources.into_iter().filter(is_comparable).collect();
        Self { prices, sources, noted: Mutex::default() }
    }

    /// Keeps the price lists up to date, from the first pricing call on. Does not return.
    pub async fn run(&self) {
        self.prices.asked().await;
        loop {
            let problems = self.fetch(None).await;
            self.prices.release_warning();
            let may_pass = problems.iter().any(|(_, error)| error.may_pass());
            sleep(if may_pass { RETRY_AFTER } else { REFRESH_EVERY }).await;
        }
    }

    /// Fetches all price lists once, until this time at the latest. Returns what failed; that is logged too, each
    /// failure once.
    pub async fn fetch(&self, until: Option<Instant>) -> Vec<(Arc<str>, CloudError)> {
        let mut problems = Vec::new();
        // Sources in the same region share one list.
        let mut fetched = HashSet::new();
        for (name, cloud) in &self.sources {
            let limit = Instant::now() + SOURCE_TIMEOUT;
            let limit = until.map_or(limit, |until| limit.min(until));
            let of_source = timeout_at(limit, self.fetch_source(name, cloud, &mut fetched)).await;
            let of_source = of_source.unwrap_or_else(|_elapsed| {
                vec![CloudError::unreachable("price list", name, "the price list could not be read in time")]
            });
            self.log_changes(name, &of_source);
            problems.extend(of_source.into_iter().map(|error| (Arc::clone(name), error)));
        }
        problems
    }

    async fn fetch_source(
        &self,
        name: &Arc<str>,
        cloud: &ReadOnlyCloud,
        fetched: &mut HashSet<(Family, String)>,
    ) -> Vec<CloudError> {
        let regions = match cloud.price_regions().await {
            Ok(regions) => regions,
            Err(error) => return vec![error],
        };
        let mut problems = Vec::new();
        for region in regions {
            if fetched.contains(&(cloud.family(), region.clone())) {
                continue;
            }
            let list = cloud.price_list(&region, PriceExtent::All).await;
            self.prices.set_live(cloud.family(), &region, &list.prices, Day::of(SystemTime::now()));
            if !list.prices.is_empty() {
                tracing::info!(source = %name, region, prices = list.prices.len(), "prices fetched from the cloud");
            }
            if list.problems.is_empty() {
                fetched.insert((cloud.family(), region));
            }
            problems.extend(list.problems);
        }
        problems
    }

    /// Logs new failures, and forgets the failures of a source that has none.
    fn log_changes(&self, name: &Arc<str>, problems: &[CloudError]) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.is_empty() {
            noted.retain(|(source, _)| source != name);
        }
        for error in problems {
            if noted.insert((Arc::clone(name), error.fault().operation.clone())) {
                tracing::warn!(
                    source = %name, %error,
                    "prices cannot be fetched from the cloud; using the tables and estimates. Permit the call, or set \
                        prices.live to false"
                );
            }
        }
    }
}
