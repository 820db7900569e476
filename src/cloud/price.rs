//! What instances cost: currencies and markets, and prices as a cloud lists them.

use std::fmt;

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

/// The price of an instance type, as the cloud lists it now.
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
