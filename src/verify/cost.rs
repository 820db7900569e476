//! What a run costs, at most.

use std::fmt;
use std::time::Duration;

use super::limits::OWN_INSTANCES_MAX;
use crate::prices::Quote;

/// About how long the probes take on a real cloud.
pub const TAKES: Duration = Duration::from_secs(15 * 60);

/// What a run costs.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// The cloud is simulated.
    Nothing,
    /// By the price of an instance.
    Of(Quote),
    /// No price is known, for this reason.
    Unknown(String),
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => formatter.write_str("nothing: the cloud is simulated"),
            Self::Unknown(reason) => write!(formatter, "unknown ({reason})"),
            Self::Of(quote) => {
                let total = quote.hourly * f64::from(OWN_INSTANCES_MAX) * TAKES.as_secs_f64() / 3600.0;
                let Quote { hourly, currency, provenance, .. } = quote;
                write!(
                    formatter,
                    "about {total:.2} {currency} ({hourly} {currency} per instance and hour: {provenance})"
                )
            }
        }
    }
}
