//! The price lists that were fetched from the clouds, by region.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::cloud::{Family, ListedPrice};
use crate::instance_types::Day;

/// The most prices that are kept. The largest region has about 1,400 types, and a spot price of most in each of 6
/// zones.
const TYPES_MAX: usize = 10_000;
const ZONES_MAX: usize = 256;
const SPOT_MAX: usize = 100_000;
/// The longest name that is kept.
const NAME_MAX: usize = 64;

/// The price lists of all regions. It is replaced as a whole, so that readers need no lock.
#[derive(Clone, Debug, Default)]
pub(super) struct LivePrices(HashMap<Family, HashMap<Box<str>, RegionPrices>>);

/// The prices of a region.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionPrices {
    on_demand: Option<Arc<OnDemand>>,
    spot: Option<Arc<Spot>>,
}

/// By type: names and prices have the same order, so that a price takes 24 bytes and a shared name.
#[derive(Debug)]
struct OnDemand {
    fetched: Day,
    types: Box<[Arc<str>]>,
    prices: Box<[f64]>,
}

#[derive(Debug)]
struct Spot {
    fetched: Day,
    types: Box<[Arc<str>]>,
    zones: Box<[Box<str>]>,
    /// Sorted. The zone after the last one stands for prices that are the same in every zone.
    prices: Box<[(u16, u16, f64)]>,
}

impl LivePrices {
    /// The same lists with a new list for one region. If the new list lacks on-demand or spot prices, the previous ones
    /// stay.
    pub(super) fn with(&self, family: Family, region: &str, list: &[ListedPrice], fetched: Day) -> Self {
        let mut regions = self.0.clone();
        let mut names = self.names(family);
        let region = regions.entry(family).or_default().entry(region.into()).or_default();
        let on_demand = OnDemand::of(list, fetched, &mut names).map(Arc::new).or_else(|| region.on_demand.clone());
        let spot = Spot::of(list, fetched, &mut names).map(Arc::new).or_else(|| region.spot.clone());
        *region = RegionPrices { on_demand, spot };
        Self(regions)
    }

    /// The on-demand price of a type, and when it was fetched.
    pub(super) fn on_demand(&self, family: Family, region: &str, type_name: &str) -> Option<(f64, Day)> {
        let list = self.region(family, region)?.on_demand.as_ref()?;
        let price = list.prices.get(usize::from(find(&list.types, type_name)?))?;
        Some((*price, list.fetched))
    }

    /// The spot price of a type in a zone, and when it was fetched. Where the zone is not known or has no price, it is
    /// the highest of all zones.
    pub(super) fn spot(&self, family: Family, region: &str, zone: Option<&str>, type_name: &str) -> Option<(f64, Day)> {
        let list = self.region(family, region)?.spot.as_ref()?;
        let row = find(&list.types, type_name)?;
        let zone = zone.and_then(|zone| list.zones.iter().position(|known| **known == *zone));
        let first = list.prices.partition_point(|(other, ..)| *other < row);
        let of_type = || list.prices.iter().skip(first).take_while(|(other, ..)| *other == row);
        let in_zone = zone.and_then(|zone| of_type().find(|(_, other, _)| usize::from(*other) == zone));
        let highest = || of_type().max_by(|(_, _, one), (_, _, other)| one.total_cmp(other));
        in_zone.or_else(highest).map(|(_, _, price)| (*price, list.fetched))
    }

    fn region(&self, family: Family, region: &str) -> Option<&RegionPrices> {
        self.0.get(&family)?.get(region)
    }

    /// The names of a cloud's types, which all of its regions share.
    fn names(&self, family: Family) -> BTreeSet<Arc<str>> {
        let regions = self.0.get(&family).into_iter().flat_map(HashMap::values);
        let names = regions.flat_map(|region| {
            let on_demand = region.on_demand.iter().flat_map(|list| list.types.iter());
            on_demand.chain(region.spot.iter().flat_map(|list| list.types.iter()))
        });
        names.cloned().collect()
    }

    /// The memory that the lists take, in bytes. Shared names count once.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let mut names: HashMap<*const u8, usize> = HashMap::new();
        let mut bytes = 0;
        for region in self.0.values().flat_map(HashMap::values) {
            bytes += size_of::<Box<str>>() + size_of::<RegionPrices>() + 64;
            for types in
                [region.on_demand.as_ref().map(|list| &list.types), region.spot.as_ref().map(|list| &list.types)]
            {
                let types = types.into_iter().flatten();
                for name in types {
                    bytes += size_of::<Arc<str>>();
                    // A shared text is preceded by two counters, and the allocator rounds up.
                    names.insert(name.as_ptr(), name.len() + 2 * size_of::<usize>() + 16);
                }
            }
            bytes += region.on_demand.iter().map(|list| size_of_val(&*list.prices)).sum::<usize>();
            bytes += region.spot.iter().map(|list| size_of_val(&*list.prices) + list.zones.len() * 40).sum::<usize>();
        }
        bytes + names.values().sum::<usize>()
    }
}

impl OnDemand {
    /// `None` if the list has no such price.
    fn of(list: &[ListedPrice], fetched: Day, names: &mut BTreeSet<Arc<str>>) -> Option<Self> {
        let mut prices: BTreeMap<Arc<str>, f64> = BTreeMap::new();
        for listed in list.iter().filter(|listed| !listed.is_spot && is_name(&listed.type_name)).take(TYPES_MAX) {
            prices.insert(shared(names, &listed.type_name), listed.hourly);
        }
        let (types, prices): (Vec<_>, Vec<_>) = prices.into_iter().unzip();
        (!types.is_empty()).then(|| Self { fetched, types: types.into(), prices: prices.into() })
    }
}

impl Spot {
    /// `None` if the list has no such price.
    fn of(list: &[ListedPrice], fetched: Day, names: &mut BTreeSet<Arc<str>>) -> Option<Self> {
        let is_kept = |listed: &&ListedPrice| {
            listed.is_spot && is_name(&listed.type_name) && listed.zone.as_deref().is_none_or(is_name)
        };
        let listed: Vec<&ListedPrice> = list.iter().filter(is_kept).take(SPOT_MAX).collect();
        let types: BTreeSet<_> = listed.iter().map(|listed| shared(names, &listed.type_name)).collect();
        let types: Vec<Arc<str>> = types.into_iter().collect();
        let zones = listed.iter().filter_map(|listed| listed.zone.as_deref());
        let zones: Vec<Box<str>> = zones.collect::<BTreeSet<_>>().into_iter().map(Box::from).collect();
        if types.is_empty() || types.len() > TYPES_MAX || zones.len() > ZONES_MAX {
            return None;
        }
        let place = |listed: &&ListedPrice| {
            let zone = match &listed.zone {
                Some(zone) => zones.binary_search_by(|known| (**known).cmp(zone.as_str())).ok()?,
                None => zones.len(),
            };
            Some((find(&types, &listed.type_name)?, u16::try_from(zone).ok()?, listed.hourly))
        };
        let mut prices: Vec<(u16, u16, f64)> = listed.iter().filter_map(place).collect();
        prices.sort_by_key(|(row, zone, _)| (*row, *zone));
        Some(Self { fetched, types: types.into(), zones: zones.into(), prices: prices.into() })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() < NAME_MAX
}

/// The name of a type in lower case, because Azure's names differ in case. It is stored once for all regions.
fn shared(names: &mut BTreeSet<Arc<str>>, name: &str) -> Arc<str> {
    let name = name.to_ascii_lowercase();
    if let Some(known) = names.get(name.as_str()) {
        return Arc::clone(known);
    }
    let name: Arc<str> = name.into();
    names.insert(Arc::clone(&name));
    name
}

/// The row of a type. Azure lists promotional sizes under their own name or under the plain one.
fn find(types: &[Arc<str>], type_name: &str) -> Option<u16> {
    let name = type_name.to_ascii_lowercase();
    let row = |name: &str| types.binary_search_by(|known| (**known).cmp(name)).ok();
    let row = row(&name).or_else(|| row(name.strip_suffix("_promo")?));
    row.and_then(|row| u16::try_from(row).ok())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn listed(type_name: &str, zone: Option<&str>, is_spot: bool, hourly: f64) -> ListedPrice {
        ListedPrice { type_name: type_name.to_owned(), zone: zone.map(str::to_owned), is_spot, hourly }
    }

    fn day(text: &str) -> Day {
        Day::parse(text).expect("a day")
    }

    #[test]
    fn a_spot_price_is_that_of_the_zone_or_the_highest() {
        let list = [
            listed("m5.large", None, false, 0.096),
            listed("m5.large", Some("us-east-1b"), true, 0.0341),
            listed("m5.large", Some("us-east-1a"), true, 0.0312),
            listed("c5.large", Some("us-east-1a"), true, 0.5),
        ];
        let live = LivePrices::default().with(Family::Aws, "us-east-1", &list, day("2026-11-22"));
        let spot = |zone| live.spot(Family::Aws, "us-east-1", zone, "m5.large").map(|(price, _)| price);
        assert_eq!(spot(Some("us-east-1a")), Some(0.0312));
        assert_eq!(spot(Some("us-east-1b")), Some(0.0341));
        assert_eq!((spot(Some("us-east-1f")), spot(None)), (Some(0.0341), Some(0.0341)));
        assert_eq!(live.on_demand(Family::Aws, "us-east-1", "m5.large"), Some((0.096, day("2026-11-22"))));
        assert_eq!(live.on_demand(Family::Aws, "us-east-1", "c5.large"), None);
        assert_eq!(live.on_demand(Family::Aws, "us-east-2", "m5.large"), None);
        assert_eq!(live.on_demand(Family::Azure, "us-east-1", "m5.large"), None);
    }

    #[test]
    fn a_list_without_a_kind_of_price_leaves_the_older_ones_with_their_date() {
        let first = [listed("Standard_D2s_v3", None, false, 0.1), listed("Standard_D2s_v3", None, true, 0.02)];
        let live = LivePrices::default().with(Family::Azure, "eastus", &first, day("2026-11-20"));
        let second = [listed("standard_d2s_V3", None, true, 0.03)];
        let live = live.with(Family::Azure, "eastus", &second, day("2026-11-22"));
        assert_eq!(live.on_demand(Family::Azure, "eastus", "Standard_D2s_v3_Promo"), Some((0.1, day("2026-11-20"))));
        assert_eq!(live.spot(Family::Azure, "eastus", Some("1"), "Standard_D2s_v3"), Some((0.03, day("2026-11-22"))));
        let unusable = [listed("", None, false, 1.0), listed(&"x".repeat(NAME_MAX), None, true, 1.0)];
        let live = live.with(Family::Azure, "eastus", &unusable, day("2026-11-23"));
        assert_eq!(live.spot(Family::Azure, "eastus", None, "Standard_D2s_v3"), Some((0.03, day("2026-11-22"))));
    }

    #[test]
    fn live_prices_of_all_types_of_all_shipped_regions_take_less_than_5_mib_with_the_tables() {
        let mut live = LivePrices::default();
        for family in [Family::Aws, Family::Azure] {
            let table = super::super::shipped::PriceTable::shipped(family);
            for region in table.regions() {
                // Every type of the cloud, not only those of the region.
                let mut list = Vec::new();
                for name in table.names() {
                    list.push(listed(name, None, false, 1.0));
                    match family {
                        Family::Aws => {
                            list.extend((0..6).map(|zone| listed(name, Some(&format!("zone-{zone}")), true, 1.0)))
                        }
                        Family::Azure => list.push(listed(name, None, true, 1.0)),
                    }
                }
                live = live.with(family, region, &list, Day::of(SystemTime::now()));
            }
        }
        let (live, shipped) = (live.bytes(), super::super::shipped::bytes());
        println!("{live} bytes of live prices, {shipped} of the shipped tables");
        assert!(live + shipped < 5 << 20, "{live} + {shipped}");
    }
}
