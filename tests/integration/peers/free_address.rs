//! Addresses for processes that must be told where to listen.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports of outgoing connections, which Linux takes from 32768 on. A port from there could be taken before
/// the process listens on it, and then the process would not start.
const PORTS: Range<u16> = 20_000..32_000;

/// How many of them have been returned.
static RETURNED: AtomicU16 = AtomicU16::new(0);

/// A loopback address that nothing listens on, and that no other call of this process returns.
pub(crate) fn free_address() -> SocketAddr {
    // Test processes that run at the same time begin with different ports.
    let first = std::process::id().wrapping_mul(101) % u32::from(PORTS.end - PORTS.start);
    let addresses = PORTS.map(|_| {
        let offset = (first + u32::from(RETURNED.fetch_add(1, Ordering::Relaxed))) % u32::from(PORTS.end - PORTS.start);
        SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + u16::try_from(offset).expect("within the range")))
    });
    addresses.into_iter().find(|address| TcpListener::bind(address).is_ok()).expect("a free port")
}

#[test]
fn free_addresses_differ_and_skip_those_that_are_in_use() {
    let next = free_address().port() + 1;
    let _used = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
    let mut ports: Vec<u16> = (0..100).map(|_| free_address().port()).collect();
    assert!(!ports.contains(&next), "{next} is in use");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 100);
}
