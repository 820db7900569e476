//! The limit on the bytes that the clients of this port make the process hold.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The most bytes that one connection may make the process hold: a request of the largest size, decoded, and what open
/// calls hold besides.
pub(crate) const CONNECTION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The most bytes that all connections may make it hold, in addition to what every connection is granted.
const SHARED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The bytes that every connection is granted, regardless of the others. That is 16 MiB for 256 connections, and 48 MiB
/// together with the shared bytes. The requests of the Cluster Autoscaler have a few KiB.
const GRANTED_BYTES: usize = 64 * 1024;

/// What all connections hold beyond their grant.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    shared: Mutex<usize>,
    freed: Notify,
}

impl Budget {
    /// Waits until bytes are freed, from this call on.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}

/// What one connection holds.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    held: Mutex<usize>,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Charge {
    /// Raises it to this many bytes in all; `None`, and no change, if there is no room for them.
    pub(crate) fn raise_to(&mut self, bytes: usize) -> Option<()> {
        let mut more = self.account.charge(bytes.saturating_sub(self.bytes))?;
        self.bytes += std::mem::take(&mut more.bytes);
        Some(())
    }
}

impl Account {
    /// An account of one connection.
    pub(crate) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { budget: Arc::clone(budget), held: Mutex::new(0) })
    }

    /// Reserves this many bytes; `None` if there is no room for them.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let after = held.checked_add(bytes).filter(|after| *after <= CONNECTION_BYTES_MAX)?;
        let more = beyond_grant(after) - beyond_grant(*held);
        let mut shared = self.budget.shared.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = shared.checked_add(more).filter(|shared| *shared <= SHARED_BYTES_MAX)?;
        *held = after;
        Some(Charge { account: Arc::clone(self), bytes })
    }

    /// How many bytes are held.
    pub(crate) fn held(&self) -> usize {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn beyond_grant(held: usize) -> usize {
    held.saturating_sub(GRANTED_BYTES)
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut held = self.account.held.lock().unwrap_or_else(PoisonError::into_inner);
        let after = held.saturating_sub(self.bytes);
        let less = beyond_grant(*held) - beyond_grant(after);
        *held = after;
        let mut shared = self.account.budget.shared.lock().unwrap_or_else(PoisonError::into_inner);
        *shared = shared.saturating_sub(less);
        self.account.budget.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn one_connection_holds_16_mib_and_all_of_them_48() {
        let budget = Arc::new(Budget::default());
        let accounts: Vec<_> = (0..256).map(|_| Account::new(&budget)).collect();
        let full = accounts[0].charge(CONNECTION_BYTES_MAX).expect("16 MiB");
        assert!(accounts[0].charge(1).is_none());
        let mut charges: Vec<_> = accounts[1..].iter().flat_map(|account| account.charge(15 * MIB)).collect();
        assert_eq!(charges.len(), 1);
        charges.extend(accounts[2..].iter().flat_map(|account| account.charge(GRANTED_BYTES)));
        assert_eq!(charges.len(), 1 + 254, "every connection gets its grant");
        assert!(accounts.iter().map(|account| account.held()).sum::<usize>() <= 48 * MIB);
        drop((full, charges));
        let mut grown = accounts[0].charge(0).expect("nothing");
        assert!(grown.raise_to(CONNECTION_BYTES_MAX).is_some() && grown.raise_to(CONNECTION_BYTES_MAX + 1).is_none());
        assert_eq!(accounts[0].held(), CONNECTION_BYTES_MAX);
        drop(grown);
        assert!(accounts.iter().all(|account| account.held() == 0));
        assert_eq!(*budget.shared.lock().expect("no panic"), 0);
    }
}
