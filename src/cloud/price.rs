//! What instances cost: currencies and markets, and prices as a cloud lists them.

use std::fmt;

use super::CloudError;

/// The currency of all prices of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Currency {
    /// US dollars.
    #[default]
    Usd,
    /// Chinese yuan, which the clouds in China are billed in.
    Cny,
}

impl fmt::Display for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Usd => "USD",
            Self::Cny => "CNY",
        })
    }
}

/// Where a source buys its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Market {
    /// The region, if it is known before any group was read.
    pub region: Option<String>,
    /// The currency of the bill.
    pub currency: Currency,
}

/// The price of an instance type, as the cloud lists it now, in the currency of the source's [`Market`].
#[derive(Clone, Debug, PartialEq)]
pub struct ListedPrice {
    /// The instance type.
    pub type_name: String,
    /// The zone, where prices differ by zone.
    pub zone: Option<String>,
    /// Whether it is the price of spot capacity.
    pub is_spot: bool,
    /// The price per hour, above zero.
    pub hourly: f64,
}

/// How much of a region's price list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceExtent {
    /// All of it.
    All,
    /// As little as shows whether it may be read.
    Sample,
}

/// The price list of a region. On-demand and spot prices come from different calls, each of which may fail by itself.
#[derive(Debug, Default)]
pub struct PriceList {
    /// The prices.
    pub prices: Vec<ListedPrice>,
    /// The calls that failed.
    pub problems: Vec<CloudError>,
}

/// Whether a figure can be a price per hour.
pub fn is_price(hourly: f64) -> bool {
    /// The most expensive type costs a few hundred dollars.
    const HOURLY_MAX: f64 = 1e6;
    hourly > 0.0 && hourly < HOURLY_MAX
}
