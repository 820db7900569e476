//! The prices of nodes and pods for `--expander=price`, from memory.
//!
//! [`Prices`] quotes an [`Offer`] with the most trusted price: from the user's tables, from the cloud's price list,
//! which [`PriceRefresh`] fetches, from the table in the binary, or by an estimate. A quote is always above zero:
//! without a price, the Cluster Autoscaler would drop the node group from a scale-up. `docs/prices.md` has the
//! formulas.

mod candidates;
mod live;
mod offer;
mod period;
mod pod;
mod quote;
mod rates;
mod refresh;
mod shipped;
mod warning;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use self::live::LivePrices;
use self::shipped::{PriceTable, currency_of};
use self::warning::Warning;
use crate::cloud::{Currency, Family, ListedPrice, Market};
use crate::instance_types::{Catalog, Day};

pub use self::offer::{Offer, family_of, is_spot};
pub use self::period::hours;
pub use self::quote::{Estimate, PriceProvenance, Quote};
pub use self::rates::Rates;
pub use self::refresh::PriceRefresh;

/// Spot prices in relation to on-demand prices, where no spot price is known. Both clouds advertise discounts of up to
/// 90 %; for most types and regions the discount is 50 to 70 %.
pub const SPOT_RATIO: f64 = 0.4;
/// Pods without requests cost as much as this many cores, because the Cluster Autoscaler divides by the price of pods.
pub const CORES_OF_EMPTY_POD: f64 = 0.001;

/// The prices of nodes and pods.
#[derive(Debug)]
pub struct Prices {
    catalog: Arc<Catalog>,
    /// The cloud of the first source.
    family: Family,
    /// The region of the first source, once it is known.
    region: OnceLock<String>,
    currency: Currency,
    live: ArcSwap<LivePrices>,
    /// Becomes true when the Cluster Autoscaler asks for a price.
    is_asked: AtomicBool,
    asked: Notify,
    estimates: AtomicU64,
    warning: Mutex<Warning>,
}

impl Prices {
    /// Prices for these sources, in the order of the configuration.
    ///
    /// Prices are in CNY if all sources are in China. Otherwise all prices are in USD, and prices of sources in China
    /// are estimates: prices in different currencies cannot be compared.
    pub fn new(catalog: Arc<Catalog>, markets: &[(Family, Market)]) -> Self {
        let is_china = !markets.is_empty() && markets.iter().all(|(_, market)| market.currency == Currency::Cny);
        let first = markets.first();
        let region = OnceLock::new();
        if let Some(name) = first.and_then(|(_, market)| market.region.clone()) {
            region.get_or_init(|| name);
        }
        Self {
            catalog,
            family: first.map_or(Family::Aws, |(family, _)| *family),
            region,
            currency: if is_china { Currency::Cny } else { Currency::Usd },
            live: ArcSwap::default(),
            is_asked: AtomicBool::new(false),
            asked: Notify::new(),
            estimates: AtomicU64::new(0),
            warning: Mutex::new(Warning::Due),
        }
    }

    /// Replaces the price list of a region. Its prices must be in [`Prices::currency`].
    fn set_live(&self, family: Family, region: &str, list: &[ListedPrice], fetched: Day) {
        self.live.rcu(|live| live.with(family, region, list, fetched));
    }

    /// Notes that the Cluster Autoscaler asks for prices.
    fn note_asked(&self) {
        if !self.is_asked.swap(true, Ordering::Relaxed) {
            self.asked.notify_one();
        }
    }

    /// Returns once the Cluster Autoscaler has asked for a price.
    async fn asked(&self) {
        while !self.is_asked.load(Ordering::Relaxed) {
            self.asked.notified().await;
        }
    }

    /// The cloud of the first source, which nodes without labels are assumed to be of.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The currency of all prices.
    pub fn currency(&self) -> Currency {
        self.currency
    }

    /// How many prices of nodes have been estimates so far.
    pub fn estimates(&self) -> u64 {
        self.estimates.load(Ordering::Relaxed)
    }

    /// Whether the region of the first source is still unknown.
    pub fn lacks_region(&self) -> bool {
        self.region.get().is_none()
    }

    /// Sets the region of the first source, where the configuration does not name it.
    pub fn set_region(&self, region: &str) {
        self.region.get_or_init(|| region.to_owned());
    }

    /// The price of a node for this many hours. Estimates are counted, and the first one is logged.
    pub fn node(&self, offer: &Offer, hours: f64) -> f64 {
        self.note_asked();
        let quote = self.quote(offer);
        if quote.provenance.is_estimate() {
            self.estimates.fetch_add(1, Ordering::Relaxed);
            self.warn_if_estimate(offer, &quote);
        }
        quote.hourly * hours
    }

    /// The price of a pod (a v1.Pod in protobuf) for this many hours.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a pod.
    pub fn pod(&self, bytes: &[u8], hours: f64) -> Result<f64, prost::DecodeError> {
        self.note_asked();
        let rates = self.rates();
        let floor = rates.core * CORES_OF_EMPTY_POD;
        Ok(rates.price(pod::requests(bytes)?).max(floor) * hours)
    }

    /// The rates that pods are priced by: those of the first source's region.
    pub fn rates(&self) -> Arc<Rates> {
        Rates::of(self.family, self.region.get().map(String::as_str), self.currency)
    }

    /// The price of a node per hour, and where it comes from.
    pub fn quote(&self, offer: &Offer) -> Quote {
        let mut candidates = if offer.is_spot { self.spot(offer) } else { self.on_demand(offer) }.into_iter();
        let (hourly, provenance) = candidates.next().unwrap_or_else(|| self.by_median(offer));
        Quote { hourly, currency: self.currency, provenance, runner_up: candidates.next() }
    }

    /// The offer's region, or that of the first source.
    fn region_of<'a>(&'a self, offer: &'a Offer) -> Option<&'a str> {
        let home = || self.region.get().filter(|_| offer.family == self.family);
        offer.region.as_deref().or_else(|| home().map(String::as_str))
    }
}

/// Every type of a cloud's shipped table in a region: its name, its price, and the estimate by [`Rates`] that it would
/// have without one.
pub fn estimates_of_known_types(family: Family, region: &str) -> impl Iterator<Item = (&'static str, f64, f64)> {
    let rates = Rates::of(family, Some(region), currency_of(region));
    rates::priced_types(family, region).map(move |(name, amounts, price)| (name, price, rates.price(amounts)))
}

/// The regions of a cloud's shipped table; the first one's figures stand in for regions without a table.
pub fn shipped_regions(family: Family) -> impl Iterator<Item = &'static str> {
    PriceTable::shipped(family).regions()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
