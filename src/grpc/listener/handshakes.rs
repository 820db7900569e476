//! The pace of TLS handshakes, per address: a handshake costs a hundred times what a call does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::admission::HANDSHAKE_LIMIT;

/// The time between two handshakes of one address, once it has used its burst.
const PACE: Duration = Duration::from_millis(50);
/// The handshakes of one address that do not wait: those of a client that connects again, and of some probes.
const BURST: u32 = 40;
/// The most addresses that are remembered. Beyond these, addresses share one pace.
const ADDRESSES_MAX: usize = 1024;

/// When the burst of each address is used up.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    used_until: Mutex<BTreeMap<Option<IpAddr>, Instant>>,
}

impl Handshakes {
    /// Waits for the turn of this address; `false` if too many of its handshakes wait already.
    pub(super) async fn turn(&self, address: Option<IpAddr>) -> bool {
        // Processes on this host share one address: some of them would keep the Cluster Autoscaler waiting.
        let address = address.map(|address| address.to_canonical());
        if address.is_none_or(|address| address.is_loopback()) {
            return true;
        }
        let now = Instant::now();
        let Some(turn) = self.reserve(address, now) else { return false };
        sleep_until(turn).await;
        true
    }

    fn reserve(&self, address: Option<IpAddr>, now: Instant) -> Option<Instant> {
        let mut used_until = self.used_until.lock().unwrap_or_else(PoisonError::into_inner);
        if used_until.len() >= ADDRESSES_MAX {
            used_until.retain(|_, until| *until > now);
        }
        let shared = used_until.len() >= ADDRESSES_MAX && !used_until.contains_key(&address);
        let used = used_until.entry(if shared { None } else { address }).or_insert(now);
        let next = (*used).max(now) + PACE;
        // The turn comes when no more than a burst is ahead of it.
        let turn = next.checked_sub(PACE * BURST).unwrap_or(now).max(now);
        if turn.saturating_duration_since(now) >= HANDSHAKE_LIMIT {
            return None;
        }
        *used = next;
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_handshakes_waits_and_another_address_does_not() {
        let (handshakes, now) = (Handshakes::default(), Instant::now());
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let turns: Vec<_> = (0..1_000).map(|_| handshakes.reserve(address(1), now)).collect();
        assert_eq!(turns.iter().filter(|turn| **turn == Some(now)).count(), BURST as usize);
        assert_eq!(turns.last(), Some(&None), "a turn after the time limit of handshakes is none");
        let within = turns.iter().flatten().max().expect("turns").saturating_duration_since(now);
        assert!(within < HANDSHAKE_LIMIT && within > HANDSHAKE_LIMIT / 2, "{within:?}");
        assert_eq!(handshakes.reserve(address(2), now), Some(now));
        let later = now + 2 * HANDSHAKE_LIMIT;
        assert_eq!(handshakes.reserve(address(1), later), Some(later));
    }

    #[test]
    fn many_addresses_are_not_remembered_without_a_limit() {
        let (handshakes, now) = (Handshakes::default(), Instant::now());
        for number in 0..10_000_u32 {
            let _turn = handshakes.reserve(Some(IpAddr::from(number.to_be_bytes())), now);
        }
        assert!(handshakes.used_until.lock().expect("no panic").len() <= ADDRESSES_MAX + 1);
    }
}
