//! Accepts connections and serves them, within limits: the number of connections, the time for a client to send what it
//! began, and the bytes that clients make the process hold.

mod admission;
mod budget;
mod client;
mod connection;
mod exchange;
mod frames;
mod handshakes;
mod places;
mod refusals;
mod session;
mod socket;
mod socket_file;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::service::Routes;
use tracing::{debug, error, warn};

use super::tls::LiveTls;
use crate::tasks::{TaskKind, Tasks};
use budget::Budget;
use client::ClientState;
use handshakes::Handshakes;
use places::Places;
pub use refusals::Refusals;
use session::Session;
pub use socket::Listener;
use socket::Socket;

/// The pause after the system failed to accept a connection, usually because it ran out of file descriptors or memory.
/// Both become available when connections end; until then, immediate retries would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// After this time, shutdown no longer waits for connections that have no call under way.
const IDLE_DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How often shutdown checks whether the last call has ended.
const DRAIN_LOOK_EVERY: Duration = Duration::from_millis(50);

/// What all connections of one port share.
struct Port {
    routes: Routes,
    tls: Option<Arc<LiveTls>>,
    refusals: Arc<Refusals>,
    handshakes: Handshakes,
    places: Arc<Places>,
    requests: Arc<Budget>,
    responses: Arc<Budget>,
    tasks: Tasks,
    stopping: watch::Receiver<bool>,
}

/// Serves a listening socket until `shutdown` completes, then finishes the calls under way. No error of a single
/// connection ends it.
pub(super) async fn serve(
    listener: Listener,
    routes: Routes,
    tls: Option<Arc<LiveTls>>,
    refusals: Arc<Refusals>,
    tasks: Tasks,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (stop, stopping) = watch::channel(false);
    let port = Arc::new(Port {
        routes,
        tls,
        refusals,
        handshakes: Handshakes::default(),
        places: Places::new(descriptors()),
        requests: Arc::new(Budget::default()),
        responses: Arc::new(Budget::default()),
        tasks,
        stopping,
    });
    let (mut listener, mut sessions) = (listener, JoinSet::new());
    let mut restarts = port.tasks.supervise(TaskKind::GrpcPort, "").endless();
    let accepting = async {
        // Open connections keep working while the loop that accepts new ones restarts.
        while restarts.run(accept(&mut listener, &port, &mut sessions)).await {}
    };
    tokio::select! {
        () = accepting => {}
        () = shutdown => {}
    }
    drop(listener);
    stop.send_replace(true);
    drain(&port, &mut sessions).await;
}

/// Accepts connections, forever.
async fn accept(listener: &mut Listener, port: &Arc<Port>, sessions: &mut JoinSet<()>) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let socket = tokio::select! {
            _ = ticks.tick() => {
                port.refusals.log();
                continue;
            }
            Some(ended) = sessions.join_next() => {
                port.report_panic(ended);
                continue;
            }
            socket = listener.accept() => socket,
        };
        match socket {
            Ok(socket) => port.open(socket, sessions),
            Err(error) if admission::concerns_one_connection(&error) => {
                debug!(%error, "connection closed before it was accepted")
            }
            Err(error) => {
                warn!(%error, "cannot accept connections; retrying in 1s");
                port.places.close_least_useful();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Port {
    /// Gives a new connection a place, and serves it there.
    fn open(self: &Arc<Self>, socket: Socket, sessions: &mut JoinSet<()>) {
        let address = socket.peer();
        let client = ClientState::new(address, &self.requests, &self.responses);
        let Some((place, replaced_another)) = self.places.take(Arc::clone(&client)) else {
            self.refusals.count(address, "no place for a new connection: every open one has a call under way, or is of an address with fewer connections");
            return;
        };
        if replaced_another {
            self.refusals.count(address, "too many connections; the least useful one was closed to admit this client");
        }
        let session = Session { port: Arc::clone(self), client, place };
        sessions.spawn(session.run(socket));
    }
}

impl Port {
    fn report_panic(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended
            && error.is_panic()
        {
            self.tasks.note(TaskKind::GrpcConnection, "");
            error!(%error, "a connection panicked; it is closed, and its client can connect again");
        }
    }
}

/// Waits until every connection has ended. A connection without a call under way gets 5 s. A call that has just ended
/// may have bytes to write until the next look.
async fn drain(port: &Port, sessions: &mut JoinSet<()>) {
    let patience = Instant::now() + IDLE_DRAIN_LIMIT;
    let mut looks = interval(DRAIN_LOOK_EVERY);
    let mut was_idle = false;
    loop {
        tokio::select! {
            ended = sessions.join_next() => match ended {
                Some(ended) => port.report_panic(ended),
                None => return,
            },
            now = looks.tick() => {
                let is_idle = now >= patience && port.places.calls() == 0;
                if is_idle && was_idle {
                    return debug!(connections = port.places.len(), "closing idle connections");
                }
                was_idle = is_idle;
            }
        }
    }
}

/// How many files this process may have open.
fn descriptors() -> usize {
    rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
