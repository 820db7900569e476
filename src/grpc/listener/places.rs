//! The places for connections. If all are taken, a new connection replaces the least useful one, so that no number of silent clients
//! keeps the Cluster Autoscaler out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::client::ClientState;

/// The most connections. The Cluster Autoscaler opens one; people and probes open a few.
const CONNECTIONS_MAX: usize = 256;
/// The share of the process's file descriptors that connections may take. The rest is for the clouds, the admin port and files.
const DESCRIPTORS_SHARE: usize = 3;
/// The fewest places, even with few file descriptors.
const CONNECTIONS_MIN: usize = 8;

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    clients: BTreeMap<u64, Arc<ClientState>>,
    next: u64,
}

/// A taken place. Dropping it frees it.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    places: Arc<Places>,
}

impl Places {
    /// As many places as the limit of descriptors allows.
    pub(super) fn new(descriptors: usize) -> Arc<Self> {
        Self::with(CONNECTIONS_MAX.min(descriptors / DESCRIPTORS_SHARE).max(CONNECTIONS_MIN))
    }

    fn with(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// Takes a place; `None` if every other connection has a call under way. The flag says whether another one lost its place.
    pub(super) fn take(self: &Arc<Self>, client: Arc<ClientState>) -> Option<(Place, bool)> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = taken.clients.len() >= self.max;
        if is_full && !taken.close_least_useful() {
            return None;
        }
        let id = taken.next;
        taken.next += 1;
        taken.clients.insert(id, client);
        Some((Place { id, places: Arc::clone(self) }, is_full))
    }

    /// Closes the least useful connection, because descriptors have run out.
    pub(super) fn close_least_useful(&self) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).close_least_useful()
    }

    /// Closes the connection with the most unread bytes of responses, if it has more than this many.
    pub(super) fn spare_slowest_reader(&self, more_than: usize) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let slowest = taken.clients.iter().map(|(id, client)| (client.unread(), *id)).max();
        let Some((_, id)) = slowest.filter(|(unread, _)| *unread > more_than) else { return false };
        if let Some(client) = taken.clients.remove(&id) {
            client.close();
        }
        true
    }

    /// How many connections there are.
    pub(super) fn len(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clients.len()
    }

    /// How many calls are under way.
    pub(super) fn calls(&self) -> usize {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.clients.values().map(|client| client.calls()).sum()
    }
}

impl Taken {
    fn close_least_useful(&mut self) -> bool {
        let spared = self.clients.iter().filter_map(|(id, client)| Some((client.usefulness()?, *id))).min();
        let Some(client) = spared.and_then(|(_, id)| self.clients.remove(&id)) else { return false };
        client.close();
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().unwrap_or_else(PoisonError::into_inner).clients.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::budget::Budget;
    use super::*;

    fn mk_client() -> Arc<ClientState> {
        ClientState::new(None, &Arc::new(Budget::default()), &Arc::new(Budget::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_replaces_the_one_that_can_best_be_spared() {
        let places = Places::with(3);
        let [busy, served, silent, newest] = std::array::from_fn(|_| mk_client());
        let call = busy.begin_call();
        drop(served.begin_call());
        let mut held: Vec<_> = [&busy, &served, &silent].map(|client| places.take(Arc::clone(client))).into();
        tokio::time::advance(Duration::from_secs(1)).await;
        held.push(places.take(Arc::clone(&newest)));
        assert!(silent.is_closed() && !busy.is_closed() && !served.is_closed());
        let again = mk_client();
        held.push(places.take(Arc::clone(&again)));
        assert!(newest.is_closed() && !served.is_closed(), "one that was served before is spared last");
        drop(again.begin_call());
        held.push(places.take(mk_client()));
        assert!(served.is_closed() && !busy.is_closed(), "of those that were served, the longest idle one goes");
        let calls = [again.begin_call(), call];
        let last = mk_client();
        let _last_call = last.begin_call();
        held.push(places.take(Arc::clone(&last)));
        assert!(held.iter().all(Option::is_some));
        assert!(places.take(mk_client()).is_none(), "no call under way is ever ended for a new connection");
        drop(calls);
        assert_eq!(places.len(), 3);
    }

    #[test]
    fn few_descriptors_mean_few_places() {
        assert_eq!([64, 256, 100_000, 0].map(|descriptors| Places::new(descriptors).max), [21, 85, 256, 8]);
    }
}
