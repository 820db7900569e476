//! The Azure Retail Prices API. It is public: requests need neither a token nor a permission.

use std::collections::BTreeMap;
use std::sync::Arc;

use azure_core::http::Url;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde::Deserialize;
use tokio::time::Instant;

use super::arm::{ErrorContext, classify};
use super::http::{HttpResponse, Transport};
use crate::cloud::{CallMeter, CallStatus, CloudError, ListedPrice, PriceList, is_price};
use crate::clouds::page_walk::PageWalk;
use crate::config::settings::azure::{AzureCloud, Settings};
use crate::limits::AZURE_PRICES;

/// The name of the call in logs, errors and metrics.
const OPERATION: &str = "RetailPrices_List";
const PUBLIC_API: &str = "https://prices.azure.com";
const PATH: &str = "/api/retail/prices";
/// The API version.
const VERSION: &str = "2023-01-01-preview";
/// Most pages of a region. The longest lists have about 20 pages of 1,000 items, or 200 of 100, the former size.
const PAGES_MAX: usize = 400;
/// The most items of a list.
const ITEMS_MAX: usize = 100_000;

/// A client of the API.
pub(super) struct RetailPrices {
    transport: Arc<Transport>,
    base: Url,
    meter: CallMeter,
}

/// A page of prices.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Page {
    items: Vec<Item>,
    next_page_link: Option<String>,
}

/// A price. Fields that Azure leaves out are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Item {
    currency_code: String,
    tier_minimum_units: f64,
    retail_price: f64,
    arm_region_name: String,
    meter_name: String,
    sku_name: String,
    product_name: String,
    service_name: String,
    unit_of_measure: String,
    #[serde(rename = "type")]
    price_type: String,
    is_primary_meter_region: bool,
    arm_sku_name: String,
}

impl RetailPrices {
    /// The client for a source. `None` in sovereign clouds, whose prices the API does not have. If an endpoint of
    /// Azure Resource Manager is configured, prices are requested from it too: a user who configures one does not
    /// want calls to other hosts.
    pub(super) fn new(
        settings: &Settings,
        endpoint: &Url,
        transport: Arc<Transport>,
        meter: CallMeter,
    ) -> Option<Self> {
        if settings.cloud != AzureCloud::Public {
            return None;
        }
        let is_azure = endpoint.host_str() == Some("management.azure.com");
        let base = if is_azure { Url::parse(PUBLIC_API).ok()? } else { endpoint.clone() };
        meter.expect([OPERATION]);
        Some(Self { transport, base, meter })
    }

    /// The prices of Linux VMs in a region.
    pub(super) async fn read(&self, region: &str) -> PriceList {
        match self.pages(region).await {
            Ok(items) => PriceList { prices: prices(&items), problems: Vec::new() },
            Err(error) => PriceList { prices: Vec::new(), problems: vec![error] },
        }
    }

    async fn pages(&self, region: &str) -> Result<Vec<Item>, CloudError> {
        let context = ErrorContext { operation: OPERATION, name: region };
        // The region becomes part of a filter.
        if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(context.refused("the region is not the name of an Azure region"));
        }
        let mut first = self.base.clone();
        first.set_path(PATH);
        first.set_query(Some(&format!(
            "api-version={VERSION}&$filter=serviceName eq 'Virtual Machines' and armRegionName eq '{region}' and priceType \
             eq 'Consumption'"
        )));
        let mut walk = PageWalk::default();
        let (mut next, mut items) = (Some(first), Vec::new());
        for _ in 0..PAGES_MAX {
            let Some(url) = next else { return Ok(items) };
            let response = self.get(context, &url).await?;
            let page = parse(&response.body)
                .map_err(|error| context.unintelligible(&format!("the page is not a list of prices: {error}")))?;
            items.extend(page.items.into_iter().filter(|item| is_linux_vm(item, region)));
            if items.len() > ITEMS_MAX {
                return Err(context.unintelligible("the list has too many items"));
            }
            let link = walk.token(page.next_page_link).map_err(|reason| context.unintelligible(reason))?;
            next = link.map(|link: String| self.next(context, &link)).transpose()?;
        }
        if next.is_none() { Ok(items) } else { Err(context.unintelligible("the list has too many pages")) }
    }

    /// The address of the next page, which must be on the same host.
    fn next(&self, context: ErrorContext<'_>, link: &str) -> Result<Url, CloudError> {
        let url = self
            .base
            .join(link)
            .map_err(|error| context.unintelligible(&format!("the address of the next page is invalid: {error}")))?;
        let is_ours = url.origin() == self.base.origin() && url.username().is_empty() && url.password().is_none();
        if is_ours { Ok(url) } else { Err(context.unintelligible("the next page is on another host")) }
    }

    async fn get(&self, context: ErrorContext<'_>, url: &Url) -> Result<HttpResponse, CloudError> {
        let request = Request::get(url.as_str()).body(Full::new(Bytes::new()));
        let request = request.map_err(|error| context.refused(&format!("the request is invalid: {error}")))?;
        let sent = Instant::now();
        let exchanged = self.transport.exchange_up_to(request, AZURE_PRICES.time(), AZURE_PRICES).await;
        let took = sent.elapsed();
        let response = exchanged.map_err(|error| {
            self.meter.observe(OPERATION, took, CallStatus::NoResponse);
            context.unreachable(&error)
        })?;
        if response.status.is_success() {
            self.meter.observe(OPERATION, took, CallStatus::Success);
            return Ok(response);
        }
        let error = classify(context, &response);
        let code = error.fault().code.as_deref().unwrap_or(response.status.as_str());
        let is_throttled = matches!(error, CloudError::Throttled { .. });
        self.meter.observe(OPERATION, took, CallStatus::Failed { code, is_throttled });
        Err(error)
    }
}

/// Reads a page.
pub(super) fn parse(body: &[u8]) -> Result<Page, serde_json::Error> {
    serde_json::from_slice(body)
}

/// Whether an item is the hourly price of a Linux VM, on demand or spot. Items for Windows have it in the product's
/// name, those for Low Priority (the predecessor of spot, for other services) in the meter's name. Reservations have
/// the price of their whole term.
fn is_linux_vm(item: &Item, region: &str) -> bool {
    let Item { product_name, sku_name, meter_name, .. } = item;
    let is_other = product_name.contains("Windows")
        || product_name.contains("Cloud Services")
        || product_name.contains("CloudServices")
        || [sku_name, meter_name].iter().any(|name| name.contains("Low Priority") || name.ends_with(" Expired"));
    item.price_type == "Consumption"
        && item.service_name == "Virtual Machines"
        && item.currency_code == "USD"
        && item.unit_of_measure == "1 Hour"
        && item.tier_minimum_units == 0.0
        && item.arm_region_name.eq_ignore_ascii_case(region)
        && !item.arm_sku_name.is_empty()
        && is_price(item.retail_price)
        && !is_other
}

/// One price for each size, on demand and spot. Of several, the highest one of the region's primary meter is taken.
fn prices(items: &[Item]) -> Vec<ListedPrice> {
    let mut best: BTreeMap<(String, bool), (bool, f64)> = BTreeMap::new();
    for item in items {
        let is_spot = [&item.sku_name, &item.meter_name].iter().any(|name| name.ends_with(" Spot"));
        let candidate = (item.is_primary_meter_region, item.retail_price);
        let known = best.entry((item.arm_sku_name.clone(), is_spot)).or_insert(candidate);
        if *known < candidate {
            *known = candidate;
        }
    }
    let price = |((type_name, is_spot), (_, hourly))| ListedPrice { type_name, zone: None, is_spot, hourly };
    best.into_iter().map(price).collect()
}

#[cfg(test)]
mod tests;
