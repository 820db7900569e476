//! The prices that AWS lists: on demand by the Price List API, spot by EC2.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use aws_sdk_ec2::types::SpotPrice;
use serde::Deserialize;

use super::sdk::api::{Ec2Api, Hardware, PricingApi};
use crate::cloud::{CloudError, Currency, ListedPrice, PriceExtent, PriceList, is_price};
use crate::clouds::page_walk::PageWalk;

/// Most pages of one list. The longest one, spot prices of us-east-1, has about 20.
const PAGES_MAX: usize = 100;
/// Most prices of one list. A page has 1,000 spot prices at most.
const PRICES_MAX: usize = 100_000;
/// The unit of on-demand prices.
const HOURS: &str = "Hrs";

/// Reads the price lists of one region.
pub(super) struct PriceLists {
    pub(super) region: String,
    pub(super) currency: Currency,
    pub(super) ec2: Arc<dyn Ec2Api>,
    /// `None` where no Price List API may be called for the region.
    pub(super) pricing: Option<Arc<dyn PricingApi>>,
}

impl PriceLists {
    /// All prices. Each of the two calls can fail by itself, and then only its prices are missing.
    pub(super) async fn read(&self, now: SystemTime, extent: PriceExtent) -> PriceList {
        let mut list = PriceList::default();
        let spot = self.spot(now, extent).await;
        for read in [self.on_demand(extent).await, spot] {
            match read {
                Ok(prices) => list.prices.extend(prices),
                Err(error) => list.problems.push(error),
            }
        }
        list
    }

    async fn on_demand(&self, extent: PriceExtent) -> Result<Vec<ListedPrice>, CloudError> {
        let Some(pricing) = &self.pricing else { return Ok(Vec::new()) };
        let mut prices = Vec::new();
        for hardware in [Hardware::Shared, Hardware::Metal] {
            let (mut token, mut walk) = (None, PageWalk::default());
            let mut pages = 0;
            loop {
                let page = pricing.get_products(&self.region, hardware, extent, token).await?;
                prices.extend(page.price_list().iter().filter_map(|product| on_demand(product, self.currency)));
                if prices.len() > PRICES_MAX {
                    return Err(too_long("GetProducts", &self.region));
                }
                let next = walk.token(page.next_token);
                token = next.map_err(|why| CloudError::unintelligible("GetProducts", &self.region, why))?;
                if extent == PriceExtent::Sample {
                    return Ok(prices);
                }
                if token.is_none() {
                    break;
                }
                pages += 1;
                if pages >= PAGES_MAX {
                    return Err(too_long("GetProducts", &self.region));
                }
            }
        }
        Ok(prices)
    }

    async fn spot(&self, now: SystemTime, extent: PriceExtent) -> Result<Vec<ListedPrice>, CloudError> {
        // By zone and type: the list may have two descriptions of Linux, and a price that has just ended.
        let mut newest: HashMap<(String, String), (i64, f64)> = HashMap::new();
        let (mut token, mut walk) = (None, PageWalk::default());
        for _ in 0..PAGES_MAX {
            let page = self.ec2.describe_spot_price_history(now, extent, token).await?;
            for (key, priced) in page.spot_price_history().iter().filter_map(spot) {
                let known = newest.entry(key).or_insert(priced);
                if known.0 < priced.0 {
                    *known = priced;
                }
            }
            if newest.len() > PRICES_MAX {
                return Err(too_long("DescribeSpotPriceHistory", &self.region));
            }
            let next = walk.token(page.next_token.filter(|_| extent == PriceExtent::All));
            token = next.map_err(|why| CloudError::unintelligible("DescribeSpotPriceHistory", &self.region, why))?;
            if token.is_none() {
                let price = |((type_name, zone), (_, hourly))| ListedPrice {
                    type_name,
                    zone: Some(zone),
                    is_spot: true,
                    hourly,
                };
                return Ok(newest.into_iter().map(price).collect());
            }
        }
        Err(too_long("DescribeSpotPriceHistory", &self.region))
    }
}

fn too_long(operation: &'static str, region: &str) -> CloudError {
    CloudError::unintelligible(operation, region, format!("more than {PAGES_MAX} pages or {PRICES_MAX} prices"))
}

/// A product of the Price List API.
#[derive(Debug, Deserialize)]
struct Listed {
    product: Product,
    terms: Terms,
}

#[derive(Debug, Deserialize)]
struct Product {
    attributes: Attributes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    instance_type: String,
    operating_system: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand")]
    on_demand: HashMap<String, Term>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    price_dimensions: HashMap<String, Dimension>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    unit: String,
    price_per_unit: HashMap<String, String>,
}

/// The on-demand price of a product. `None` for a product without one in this currency.
fn on_demand(product: &str, currency: Currency) -> Option<ListedPrice> {
    let Listed { product: Product { attributes }, terms } = serde_json::from_str(product).ok()?;
    if attributes.operating_system.is_some_and(|name| name != "Linux") {
        return None;
    }
    let dimensions = terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
    let hourly = dimensions.filter(|dimension| dimension.unit == HOURS).filter_map(|dimension| {
        dimension.price_per_unit.get(&currency.to_string())?.parse::<f64>().ok().filter(|price| is_price(*price))
    });
    // A product has one term and one dimension. If it ever has several, the choice must not depend on the order of a
    // map.
    let hourly = hourly.min_by(f64::total_cmp)?;
    Some(ListedPrice { type_name: attributes.instance_type, zone: None, is_spot: false, hourly })
}

type ZonePrice = ((String, String), (i64, f64));

/// The type and zone of a spot price, the start of its validity, and the price.
fn spot(price: &SpotPrice) -> Option<ZonePrice> {
    let is_linux =
        price.product_description.as_ref().is_none_or(|description| description.as_str().starts_with("Linux"));
    let hourly = price.spot_price.as_deref()?.parse::<f64>().ok().filter(|price| is_linux && is_price(*price))?;
    let key = (price.instance_type.as_ref()?.as_str().to_owned(), price.availability_zone.clone()?);
    Some((key, (price.timestamp.map_or(0, |since| since.secs()), hourly)))
}
