//! The warning that prices are estimates.

use std::sync::{MutexGuard, PoisonError};

use super::{Offer, Prices, Quote};

/// The warning that prices are estimates, which is logged once.
#[derive(Debug)]
pub(super) enum Warning {
    /// The clouds' price lists have not been fetched yet. Holds the first node that was priced by an estimate.
    Held(Option<Offer>),
    /// It is logged with the next estimate.
    Due,
    /// It was logged.
    Given,
}

impl Prices {
    /// Holds the warning back until the clouds' price lists have been requested.
    pub(super) fn hold_warning(&self) {
        *self.warning() = Warning::Held(None);
    }

    /// Logs the warning if it was held back and the price is still an estimate.
    pub(super) fn release_warning(&self) {
        let held = std::mem::replace(&mut *self.warning(), Warning::Due);
        match held {
            Warning::Held(Some(offer)) => self.warn_if_estimate(&offer, &self.quote(&offer)),
            Warning::Held(None) | Warning::Due => {}
            Warning::Given => *self.warning() = Warning::Given,
        }
    }

    fn warning(&self) -> MutexGuard<'_, Warning> {
        self.warning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs the warning if the quote is an estimate, now or when it is no longer held back.
    pub(super) fn warn_if_estimate(&self, offer: &Offer, quote: &Quote) {
        let mut warning = self.warning();
        match &mut *warning {
            _ if !quote.provenance.is_estimate() => {}
            Warning::Held(first) => drop(first.get_or_insert_with(|| offer.clone())),
            Warning::Due => {
                *warning = Warning::Given;
                drop(warning);
                tracing::warn!(
                    instance_type = %offer.type_name, region = offer.region.as_deref().unwrap_or_default(),
                    price = quote.hourly, provenance = %quote.provenance,
                    "the Cluster Autoscaler asks for prices, and some are estimates; `headcount prices` shows which; to replace \
                     them, set price: and spotPrice: in a table of instance types"
                );
            }
            Warning::Given => {}
        }
    }
}
