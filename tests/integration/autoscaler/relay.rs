//! An address that stays the same while Headcount's process is replaced.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes connections on to an address that can change. It stops when this is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    to: Arc<Mutex<SocketAddr>>,
    /// Changes when all connections have to end.
    cuts: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(super) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let to = Arc::new(Mutex::new(to));
        let destination = Arc::clone(&to);
        let cuts = watch::Sender::new(());
        let cut = cuts.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((mut inbound, _)) = listener.accept().await {
                let to = *destination.lock().unwrap_or_else(PoisonError::into_inner);
                let mut cut = cut.clone();
                cut.mark_unchanged();
                tokio::spawn(async move {
                    // Without a destination, the client's connection ends at once, as it would without the relay.
                    if let Ok(mut outbound) = TcpStream::connect(to).await {
                        // Without this, each small message waits 40 ms for an acknowledgement.
                        for stream in [&inbound, &outbound] {
                            let _as_it_was = stream.set_nodelay(true);
                        }
                        tokio::select! {
                            _either_end_closed = tokio::io::copy_bidirectional(&mut inbound, &mut outbound) => {}
                            _cut = cut.changed() => {}
                        }
                    }
                });
            }
        });
        Self { address, to, cuts, task }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        self.cuts.send_replace(());
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
