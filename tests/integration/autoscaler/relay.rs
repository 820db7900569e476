//! An address that stays the same while Headcount's process is replaced.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Passes connections on to an address that can change. It stops when this is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    to: Arc<Mutex<SocketAddr>>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(super) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let to = Arc::new(Mutex::new(to));
        let destination = Arc::clone(&to);
        let task = tokio::spawn(async move {
            while let Ok((mut inbound, _)) = listener.accept().await {
                let to = *destination.lock().unwrap_or_else(PoisonError::into_inner);
                tokio::spawn(async move {
                    // Without a destination, the client's connection ends at once, as it would without the relay.
                    if let Ok(mut outbound) = TcpStream::connect(to).await {
                        let _either_end_closed = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
                    }
                });
            }
        });
        Self { address, to, task }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes new connections on to this address from now on.
    pub(super) fn redirect(&self, to: SocketAddr) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
