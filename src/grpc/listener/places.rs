//! The places for connections. If all are taken, a new connection replaces the least useful one, so that no number of
//! other clients keeps the Cluster Autoscaler out.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::client::{ClientState, Progress};

/// The most connections. The Cluster Autoscaler opens one; people and probes open a few.
const CONNECTIONS_MAX: usize = 256;
/// The share of the process's file descriptors that connections may take. The rest is for the clouds, the admin port
/// and files.
const DESCRIPTORS_SHARE: usize = 3;
/// The fewest places, even with few file descriptors.
const CONNECTIONS_MIN: usize = 8;
/// A newcomer is not closed while newcomers have less than this share of the places. Otherwise, clients that finished
/// one call each could take all places but one, and no new client would live long enough to make a call.
const NEWCOMERS_SHARE: usize = 4;
/// An address that has more than this share of the places is crowded.
const ADDRESS_SHARE: usize = 8;
/// The most addresses that are remembered because a call from them finished.
const KNOWN_MAX: usize = 64;

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
    /// The addresses of earlier connections that finished calls, the oldest first.
    known: Vec<IpAddr>,
}

/// A taken place. Dropping it frees it.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    places: Arc<Places>,
}

/// The order in which connections are closed to make room: the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Usefulness {
    /// Whether a call from its address has finished.
    is_known: bool,
    /// Whether its address has more than its share of the places.
    is_crowded: Reverse<bool>,
    progress: Progress,
}

impl Places {
    /// As many places as the limit of descriptors allows.
    pub(super) fn new(descriptors: usize) -> Arc<Self> {
        Self::with(CONNECTIONS_MAX.min(descriptors / DESCRIPTORS_SHARE).max(CONNECTIONS_MIN))
    }

    fn with(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// Takes a place; `None` if every other connection has a call under way, or is more useful than one more of a crowded
    /// address. The flag says whether another one lost its place.
    pub(super) fn take(self: &Arc<Self>, client: Arc<ClientState>) -> Option<(Place, bool)> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = taken.clients.len() >= self.max;
        if is_full && !taken.close_least_useful(self.max, Some(&client)) {
            return None;
        }
        let id = taken.next;
        taken.next += 1;
        taken.clients.insert(id, client);
        Some((Place { id, places: Arc::clone(self) }, is_full))
    }

    /// Closes the least useful connection, because descriptors have run out.
    pub(super) fn close_least_useful(&self) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).close_least_useful(self.max, None)
    }

    /// Closes the connection with the most unread bytes of responses, if it has more than this many.
    pub(super) fn close_slowest_reader(&self, more_than: usize) -> bool {
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

/// What is known about the connections of one address.
#[derive(Clone, Copy, Debug, Default)]
struct Address {
    connections: usize,
    was_served: bool,
}

impl Taken {
    /// Closes the least useful connection of `max`. While there are few newcomers, it is one of those that were served. A
    /// newcomer of a crowded address closes no connection of a known address that is not crowded.
    fn close_least_useful(&mut self, max: usize, newcomer: Option<&ClientState>) -> bool {
        let mut addresses = BTreeMap::<_, Address>::new();
        for client in self.clients.values() {
            let address = addresses.entry(ip(client)).or_default();
            address.connections += 1;
            address.was_served |= client.was_served();
        }
        let is_crowded = |client: &ClientState| {
            addresses.get(&ip(client)).is_some_and(|address| address.connections * ADDRESS_SHARE > max)
        };
        let is_of_crowd = newcomer.is_some_and(is_crowded);
        let ranked = self.clients.iter().filter_map(|(id, client)| {
            let was_served = addresses.get(&ip(client)).is_some_and(|address| address.was_served);
            let is_known = was_served || ip(client).is_some_and(|address| self.known.contains(&address));
            let is_crowded = Reverse(is_crowded(client));
            Some((Usefulness { is_known, is_crowded, progress: client.progress()? }, *id))
        });
        let is_worth_more = |usefulness: &Usefulness| usefulness.is_known && !usefulness.is_crowded.0;
        let (served, new): (Vec<_>, Vec<_>) = ranked
            .filter(|(usefulness, _)| !(is_of_crowd && is_worth_more(usefulness)))
            .partition(|(usefulness, _)| matches!(usefulness.progress, Progress::Served(..)));
        let has_few_newcomers = new.len() < max / NEWCOMERS_SHARE;
        let (new, served) = (new.into_iter().min(), served.into_iter().min());
        let closed = if has_few_newcomers { served.or(new) } else { new.or(served) };
        let Some(client) = closed.and_then(|(_, id)| self.clients.remove(&id)) else { return false };
        self.remember(&client);
        client.close();
        true
    }

    /// Remembers the address of a connection that finished calls.
    fn remember(&mut self, client: &ClientState) {
        let Some(address) = ip(client).filter(|_| client.was_served()) else { return };
        self.known.retain(|known| *known != address);
        if self.known.len() >= KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(address);
    }
}

fn ip(client: &ClientState) -> Option<IpAddr> {
    client.address().map(|address| address.ip())
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = taken.clients.remove(&self.id) {
            taken.remember(&client);
        }
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

    fn mk_client_at(address: &str) -> Arc<ClientState> {
        let address = format!("{address}:1000").parse().expect("an address");
        ClientState::new(Some(address), &Arc::new(Budget::default()), &Arc::new(Budget::default()))
    }

    fn mk_served_at(address: &str, calls: usize) -> Arc<ClientState> {
        let client = mk_client_at(address);
        (0..calls).for_each(|_| client.begin_call().finish());
        client
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_made_one_call_each_do_not_replace_one_that_made_many() {
        let places = Places::with(8);
        let autoscaler = mk_served_at("127.0.0.1", 100);
        let mut held = vec![places.take(Arc::clone(&autoscaler))];
        for _ in 0..100 {
            tokio::time::advance(Duration::from_millis(1)).await;
            held.push(places.take(mk_served_at("127.0.0.1", 1)));
        }
        assert!(!autoscaler.is_closed(), "it was idle for longer, but made more calls");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_of_a_known_client_is_kept_before_a_crowd_of_strangers() {
        let places = Places::with(8);
        drop(places.take(mk_served_at("10.0.0.1", 1)));
        let autoscaler = mk_client_at("10.0.0.1");
        let mut held = vec![places.take(Arc::clone(&autoscaler))];
        for _ in 0..100 {
            tokio::time::advance(Duration::from_millis(1)).await;
            held.push(places.take(mk_client_at("10.0.0.2")));
        }
        assert!(!autoscaler.is_closed(), "a call from its address has finished before");
        let unknown = mk_client_at("10.0.0.3");
        held.push(places.take(Arc::clone(&unknown)));
        for _ in 0..100 {
            held.push(places.take(mk_client_at("10.0.0.2")));
        }
        assert!(!unknown.is_closed(), "the crowd's own connections go first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_busy_clients_does_not_replace_an_idle_one_of_another_address() {
        let places = Places::with(8);
        let autoscaler = mk_served_at("10.0.0.1", 100);
        let mut held = vec![places.take(Arc::clone(&autoscaler))];
        let busy: Vec<_> = (0..7).map(|_| mk_client_at("10.0.0.2")).collect();
        let calls: Vec<_> = busy.iter().map(ClientState::begin_call).collect();
        held.extend(busy.iter().map(|client| places.take(Arc::clone(client))));
        assert!(places.take(mk_client_at("10.0.0.2")).is_none(), "its address has all other places");
        assert!(!autoscaler.is_closed());
        assert!(places.take(mk_client_at("10.0.0.3")).is_some(), "a client of another address has one");
        drop(calls);
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_of_a_crowd_replaces_an_idle_one_of_the_crowd() {
        let places = Places::with(8);
        let autoscaler = mk_served_at("10.0.0.1", 100);
        let mut held = vec![places.take(Arc::clone(&autoscaler))];
        let busy: Vec<_> = (0..6).map(|_| mk_client_at("10.0.0.2")).collect();
        let calls: Vec<_> = busy.iter().map(ClientState::begin_call).collect();
        held.extend(busy.iter().map(|client| places.take(Arc::clone(client))));
        let idle = mk_client_at("10.0.0.2");
        held.push(places.take(Arc::clone(&idle)));
        assert!(places.take(mk_client_at("10.0.0.2")).is_some() && idle.is_closed(), "one of its own makes room");
        assert!(!autoscaler.is_closed());
        drop(calls);
    }

    #[tokio::test(start_paused = true)]
    async fn newcomers_have_places_although_others_made_calls() {
        let places = Places::with(8);
        let mut held: Vec<_> = (0..8).map(|_| places.take(mk_served_at("127.0.0.1", 50))).collect();
        let [first, second] = std::array::from_fn(|_| mk_client_at("127.0.0.1"));
        held.push(places.take(Arc::clone(&first)));
        held.push(places.take(Arc::clone(&second)));
        assert!(!first.is_closed() && !second.is_closed());
        held.push(places.take(mk_client_at("127.0.0.1")));
        assert!(first.is_closed(), "a quarter of the places are for newcomers");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_replaces_the_one_that_can_best_be_spared() {
        let places = Places::with(3);
        let [busy, served, silent, newest] = std::array::from_fn(|_| mk_client());
        let call = busy.begin_call();
        served.begin_call().finish();
        let mut held: Vec<_> = [&busy, &served, &silent].map(|client| places.take(Arc::clone(client))).into();
        tokio::time::advance(Duration::from_secs(1)).await;
        held.push(places.take(Arc::clone(&newest)));
        assert!(silent.is_closed() && !busy.is_closed() && !served.is_closed());
        let again = mk_client();
        held.push(places.take(Arc::clone(&again)));
        assert!(newest.is_closed() && !served.is_closed(), "one that was served before is spared last");
        again.begin_call().finish();
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
