//! A price, and where it comes from.

use std::fmt;

use crate::cloud::Currency;
use crate::instance_types::Day;

/// Where a price comes from, in order of trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceProvenance {
    /// A table of the user's.
    UserTable {
        /// The file.
        file: String,
    },
    /// The cloud's price list.
    Live {
        /// When it was fetched.
        fetched: Day,
    },
    /// The table in the binary.
    Shipped {
        /// The date of the figures.
        date: Day,
    },
    /// An estimate, because the price is not known.
    Estimate(Estimate),
}

/// The basis of an estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// The type's price in another region.
    OtherRegion(String),
    /// The on-demand price, times the usual ratio of spot prices.
    SpotRatio(Box<PriceProvenance>),
    /// The type's cores, memory and accelerators, at a region's rates.
    Rates(String),
    /// The median type of a region, because the type is unknown, too.
    MedianType(String),
}

impl PriceProvenance {
    /// Whether the price is an estimate.
    pub fn is_estimate(&self) -> bool {
        matches!(self, Self::Estimate(_))
    }

    /// The date of the figures.
    pub fn date(&self) -> Option<Day> {
        match self {
            Self::UserTable { .. } => None,
            Self::Live { fetched: date } | Self::Shipped { date } => Some(*date),
            Self::Estimate(Estimate::SpotRatio(base)) => base.date(),
            Self::Estimate(_) => None,
        }
    }
}

impl fmt::Display for PriceProvenance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserTable { file } => write!(formatter, "user table {file}"),
            Self::Live { fetched } => write!(formatter, "live {fetched}"),
            Self::Shipped { date } => write!(formatter, "shipped table {date}"),
            Self::Estimate(estimate) => write!(formatter, "estimate: {estimate}"),
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherRegion(region) => write!(formatter, "price in {region}"),
            Self::SpotRatio(base) => write!(formatter, "share of the on-demand price ({base})"),
            Self::Rates(region) => write!(formatter, "by cores and memory at the rates of {region}"),
            Self::MedianType(region) => write!(formatter, "unknown type, median of {region}"),
        }
    }
}

/// The price of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// Per hour, above zero.
    pub hourly: f64,
    /// The currency.
    pub currency: Currency,
    /// Where it comes from.
    pub provenance: PriceProvenance,
    /// The next most trusted price.
    pub runner_up: Option<(f64, PriceProvenance)>,
}
