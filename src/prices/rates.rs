//! What a core, a GiB of memory and an accelerator cost per hour: fitted to a region's prices. Pods and types without a
//! price are priced by these rates.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::shipped::{PriceTable, currency_of};
use crate::cloud::{Currency, Family};
use crate::instance_types::{Entry, Table};

/// The resources besides cores and memory that have a price of their own.
const ACCELERATORS: [&str; 5] =
    ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "microsoft.com/directx"];
const GIB: f64 = 1_073_741_824.0;

/// The ratios between the price of a GiB and that of a core that a fit tries.
const RATIO_MIN: f64 = 0.02;
const RATIO_MAX: f64 = 1.0;
const RATIO_STEPS: u32 = 60;

/// Amounts of the resources that have a price.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amounts {
    pub(super) cores: f64,
    pub(super) gib: f64,
    pub(super) accelerators: f64,
}

impl Amounts {
    /// The amounts of a type in a table. `None` if it has neither cores nor memory.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let memory = entry.nominal_memory.or(entry.memory)?;
        let amounts = Self {
            cores: entry.cpu?.as_f64(),
            gib: memory.as_f64() / GIB,
            accelerators: accelerators(|name| entry.resources.get(name).map(|quantity| quantity.as_f64())),
        };
        (amounts.cores > 0.0 || amounts.gib > 0.0).then_some(amounts)
    }
}

/// The number of accelerators in these resources.
pub(super) fn accelerators(resource: impl Fn(&str) -> Option<f64>) -> f64 {
    ACCELERATORS.iter().filter_map(|name| resource(name)).sum()
}

/// Bytes as GiB.
pub(super) fn gib(bytes: f64) -> f64 {
    bytes / GIB
}

/// Prices per hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Of a core.
    pub core: f64,
    /// Of a GiB of memory.
    pub gib: f64,
    /// Of an accelerator.
    pub accelerator: f64,
}

impl Rates {
    /// The rates of a region; for a region without a table, those of the cloud's first region.
    pub(super) fn of(family: Family, region: Option<&str>, currency: Currency) -> Arc<Self> {
        type Known = HashMap<(Family, &'static str, Currency), Arc<Rates>>;
        static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
        let region = reference_region(family, region, currency);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let fit = || Arc::new(Self::fit(family, region).times(exchange(currency_of(region), currency)));
        Arc::clone(known.entry((family, region, currency)).or_insert_with(fit))
    }

    fn times(self, factor: f64) -> Self {
        Self { core: self.core * factor, gib: self.gib * factor, accelerator: self.accelerator * factor }
    }

    /// What these amounts cost per hour.
    pub(super) fn price(&self, amounts: Amounts) -> f64 {
        self.core * amounts.cores + self.gib * amounts.gib + self.accelerator * amounts.accelerators
    }

    /// Fits the rates to a region's types.
    ///
    /// The fit tries each ratio between the price of a GiB and that of a core. It takes the ratio for which the prices
    /// per core of types without accelerators vary least, by the mean of the logarithms. The rate of a core is their
    /// median. The rate of an accelerator is the median of the rest of the price, if it is positive, or that of a core
    /// in a region without such types.
    fn fit(family: Family, region: &str) -> Self {
        let types: Vec<(Amounts, f64)> =
            priced_types(family, region).map(|(_, amounts, price)| (amounts, price)).collect();
        let plain = || types.iter().filter(|(amounts, _)| amounts.accelerators == 0.0);
        let candidates = (0..=RATIO_STEPS).map(|step| {
            let ratio = RATIO_MIN * (RATIO_MAX / RATIO_MIN).powf(f64::from(step) / f64::from(RATIO_STEPS));
            let cores = plain().map(|(amounts, price)| price / (amounts.cores + ratio * amounts.gib));
            let cores: Vec<f64> = cores.collect();
            let core = median(cores.clone());
            let difference: f64 = cores.iter().map(|other| (other / core).ln().abs()).sum();
            (difference, Self { core, gib: core * ratio, accelerator: 0.0 })
        });
        let best = candidates.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, rates)| rates);
        let rates = best.unwrap_or(Self { core: 0.0, gib: 0.0, accelerator: 0.0 });
        // Some types with accelerators cost less than the same cores and memory without them.
        let accelerated = types.iter().filter(|(amounts, _)| amounts.accelerators > 0.0);
        let rest = accelerated.map(|(amounts, price)| (price - rates.price(*amounts)) / amounts.accelerators);
        let accelerator = median(rest.filter(|rest| *rest > 0.0).collect());
        Self { accelerator: if accelerator > 0.0 { accelerator } else { rates.core }, ..rates }
    }
}

/// The types of a region with a price and known amounts.
pub(super) fn priced_types(family: Family, region: &str) -> impl Iterator<Item = (&'static str, Amounts, f64)> {
    let capacities = Table::shipped(family);
    let types = PriceTable::shipped(family).types(region);
    types.filter_map(move |(name, price)| Some((name, Amounts::of(capacities.get(family, name)?)?, price)))
}

/// The region whose figures are used for `region`: itself if it has a table and the currency is right.
pub(super) fn reference_region(family: Family, region: Option<&str>, currency: Currency) -> &'static str {
    let table = PriceTable::shipped(family);
    let own = || table.regions().find(|known| Some(*known) == region && currency_of(known) == currency);
    let same_currency = || table.regions().find(|known| currency_of(known) == currency);
    own().or_else(same_currency).or_else(|| table.regions().next()).unwrap_or_default()
}

/// The factor between two currencies by list prices: the median of CNY prices in AWS's Beijing region over USD prices
/// in its first region. It is not an exchange rate: it serves to estimate prices of a cloud in China that has no table.
pub(super) fn exchange(from: Currency, to: Currency) -> f64 {
    static CNY_PER_USD: LazyLock<f64> = LazyLock::new(|| {
        let table = PriceTable::shipped(Family::Aws);
        let prices = |currency| table.types(reference_region(Family::Aws, None, currency));
        let usd: HashMap<&str, f64> = prices(Currency::Usd).collect();
        median(prices(Currency::Cny).filter_map(|(name, price)| Some(price / usd.get(name)?)).collect())
    });
    match (from, to) {
        (Currency::Usd, Currency::Cny) => *CNY_PER_USD,
        (Currency::Cny, Currency::Usd) => 1.0 / *CNY_PER_USD,
        _ => 1.0,
    }
}

/// The median of these figures; 0 if there are none.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_every_region_are_above_zero() {
        for family in [Family::Aws, Family::Azure] {
            for region in PriceTable::shipped(family).regions() {
                let rates = Rates::of(family, Some(region), currency_of(region));
                println!("{family:?} {region} {rates:?}");
                assert!(rates.core > 0.0 && rates.gib > 0.0 && rates.accelerator > 0.0, "{region} {rates:?}");
            }
        }
    }

    #[test]
    fn half_of_the_types_cost_more_than_estimated() {
        let rates = Rates::of(Family::Aws, Some("us-east-1"), Currency::Usd);
        let plain = priced_types(Family::Aws, "us-east-1").filter(|(_, amounts, _)| amounts.accelerators == 0.0);
        let errors: Vec<f64> = plain.map(|(_, amounts, price)| rates.price(amounts) / price - 1.0).collect();
        assert!(median(errors.clone()).abs() < 0.01, "{}", median(errors));
    }
}
