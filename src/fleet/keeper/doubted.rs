//! An observation in doubt (law 5), until a second one confirms it. Listings, reads beside the keeper and reads for a write share
//! it: whichever comes next confirms what another one showed first.

use tokio::time::Instant;

use super::Keeper;
use crate::fleet::doubt::{Doubt, doubt, doubt_first};
use crate::fleet::limits::CONFIRM_AFTER;
use crate::fleet::mailbox::Adoption;
use crate::fleet::observation::Observation;

/// An observation that waits for a second one to confirm it.
pub(super) struct Doubted {
    pub(super) why: Doubt,
    /// When it was read. A read that began less than [`CONFIRM_AFTER`] later is no second one.
    since: Instant,
    /// When the group is read again to confirm it.
    pub(super) confirm_at: Instant,
    /// Of the listing that it came with, which waits until the group is published.
    pub(super) adoption: Option<Adoption>,
}

impl Keeper {
    /// Why an observation is in doubt, if it is.
    pub(super) fn doubt_of(&self, observation: &Observation) -> Option<Doubt> {
        if self.is_another(&observation.reading) { doubt_first(observation) } else { doubt(&self.state, observation) }
    }

    /// Whether a read that began then confirms the doubt of an earlier one.
    pub(super) fn confirms(&self, why: &Doubt, begun: Instant) -> bool {
        let is_second = |earlier: &&Doubted| earlier.why.is_confirmed_by(why) && earlier.since + CONFIRM_AFTER <= begun;
        self.doubted.as_ref().filter(is_second).is_some()
    }

    /// Keeps an observation from being used until a second one confirms it. One that agrees with an earlier one, but was read too
    /// soon after it, changes nothing.
    pub(super) fn put_in_doubt(&mut self, why: Doubt, adoption: Option<Adoption>) {
        let now = Instant::now();
        match &mut self.doubted {
            Some(earlier) if earlier.why.is_confirmed_by(&why) => {
                earlier.adoption = adoption.or_else(|| earlier.adoption.take())
            }
            earlier => {
                let adoption = adoption.or_else(|| earlier.take()?.adoption);
                *earlier = Some(Doubted { why, since: now, confirm_at: now + CONFIRM_AFTER, adoption });
            }
        }
    }

    /// A read failed: the next one to confirm a doubt waits longer, and no listing waits for it.
    pub(super) fn postpone_confirmation(&mut self) {
        if let Some(doubted) = &mut self.doubted {
            doubted.confirm_at = Instant::now() + CONFIRM_AFTER * 5;
            doubted.adoption = None;
        }
    }
}
