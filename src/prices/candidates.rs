//! The known prices of an offer, the most trusted one first.

use super::rates::{self, Amounts, Rates, accelerators, gib, median, reference_region};
use super::shipped::{PriceTable, currency_of};
use super::{Estimate, Offer, PriceProvenance, Prices, SPOT_RATIO};
use crate::cloud::Currency;
use crate::instance_types::{MemorySize, Provenance};

impl Prices {
    /// Every known price of spot capacity, the most trusted one first; a share of the on-demand price comes last. Never
    /// empty.
    pub(super) fn spot(&self, offer: &Offer) -> Vec<(f64, PriceProvenance)> {
        let mut candidates: Vec<_> = self.of_user(offer, true).collect();
        candidates.extend(self.listed(offer));
        let share = |(price, provenance): (f64, PriceProvenance)| {
            (price * SPOT_RATIO, PriceProvenance::Estimate(Estimate::SpotRatio(Box::new(provenance))))
        };
        candidates.extend(self.on_demand(&Offer { is_spot: false, ..offer.clone() }).into_iter().map(share));
        candidates
    }

    /// Every known price, the most trusted one first; an estimate if there is no other. Never empty.
    pub(super) fn on_demand(&self, offer: &Offer) -> Vec<(f64, PriceProvenance)> {
        let mut candidates: Vec<_> = self.of_user(offer, false).collect();
        candidates.extend(self.listed(offer));
        let region = self.region_of(offer);
        let shipped = region.filter(|region| currency_of(region) == self.currency);
        let shipped = shipped.and_then(|region| PriceTable::shipped(offer.family).price(region, &offer.type_name));
        candidates.push(match shipped {
            Some((price, date)) => (price, PriceProvenance::Shipped { date }),
            None => self.estimate(offer),
        });
        candidates
    }

    fn of_user(&self, offer: &Offer, is_spot: bool) -> impl Iterator<Item = (f64, PriceProvenance)> {
        self.catalog.user_prices(offer.family, &offer.type_name, is_spot).into_iter().map(|(price, provenance)| {
            let file = match provenance {
                Provenance::UserTable { file } => file.to_string(),
                other => other.to_string(),
            };
            (price, PriceProvenance::UserTable { file })
        })
    }

    /// The price in the list that was fetched from the cloud.
    fn listed(&self, offer: &Offer) -> Option<(f64, PriceProvenance)> {
        let (region, live) = (self.region_of(offer)?, self.live.load());
        let (price, fetched) = if offer.is_spot {
            live.spot(offer.family, region, offer.zone.as_deref(), &offer.type_name)?
        } else {
            live.on_demand(offer.family, region, &offer.type_name)?
        };
        Some((price, PriceProvenance::Live { fetched }))
    }

    fn estimate(&self, offer: &Offer) -> (f64, PriceProvenance) {
        self.of_other_region(offer).or_else(|| self.by_rates(offer)).unwrap_or_else(|| self.by_median(offer))
    }

    /// The type's price in the region that stands in for the offer's, or in any other.
    fn of_other_region(&self, offer: &Offer) -> Option<(f64, PriceProvenance)> {
        let table = PriceTable::shipped(offer.family);
        let reference = reference_region(offer.family, self.region_of(offer), self.currency);
        let of_reference = table.price(reference, &offer.type_name).map(|(price, _)| (price, reference));
        let (price, region) = of_reference
            .or_else(|| table.anywhere(&offer.type_name, self.currency))
            .or_else(|| table.anywhere(&offer.type_name, Currency::Usd))?;
        let price = price * rates::exchange(currency_of(region), self.currency);
        Some((price, PriceProvenance::Estimate(Estimate::OtherRegion(region.to_owned()))))
    }

    fn by_rates(&self, offer: &Offer) -> Option<(f64, PriceProvenance)> {
        let capacity = self.catalog.resolve(offer.family, &offer.type_name)?;
        let memory = capacity.nominal_memory.or_else(|| match capacity.memory.as_ref()?.value {
            MemorySize::Reported(memory) | MemorySize::Nominal(memory) => Some(memory),
        });
        let amounts = Amounts {
            cores: capacity.cpu.map(|cpu| cpu.value.as_f64()).unwrap_or_default(),
            gib: memory.map(|memory| gib(memory.as_f64())).unwrap_or_default(),
            accelerators: accelerators(|name| capacity.resources.get(name).map(|amount| amount.value.as_f64())),
        };
        let region = self.region_of(offer);
        let price = Rates::of(offer.family, region, self.currency).price(amounts);
        let reference = reference_region(offer.family, region, self.currency);
        (price > 0.0).then(|| (price, PriceProvenance::Estimate(Estimate::Rates(reference.to_owned()))))
    }

    /// The estimate that is always possible.
    pub(super) fn by_median(&self, offer: &Offer) -> (f64, PriceProvenance) {
        let region = reference_region(offer.family, self.region_of(offer), self.currency);
        let prices = PriceTable::shipped(offer.family).types(region).map(|(_, price)| price).collect();
        let price = median(prices) * rates::exchange(currency_of(region), self.currency);
        (price, PriceProvenance::Estimate(Estimate::MedianType(region.to_owned())))
    }
}
