//! Shutdown: orderly at the first signal, immediate at the second.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

use crate::tasks::{TaskKind, Tasks};

/// The exit code after SIGINT, by the convention of shells: 128 plus the signal's number.
const EXIT_INTERRUPTED: i32 = 130;

/// The exit code after SIGTERM.
const EXIT_TERMINATED: i32 = 143;

/// The exit code after a panic, as Rust's own.
const EXIT_DEFECT: i32 = 101;

/// The shutdown of the process. Any task can begin it or wait for it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    begun: Arc<watch::Sender<bool>>,
}

impl Shutdown {
    /// Returns a shutdown that begins at the first SIGTERM or SIGINT. The second makes the process exit immediately.
    ///
    /// Fails if signal handlers cannot be installed. Must be called inside a Tokio runtime.
    pub fn on_signals() -> io::Result<Self> {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        // Nothing waits for these signals, but without a handler they would end the process at once.
        for ignored in [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::alarm()] {
            drop(signal(ignored)?);
        }
        let (received, signals) = mpsc::channel(2);
        supervised(async move {
            loop {
                let code = tokio::select! {
                    Some(()) = terminate.recv() => EXIT_TERMINATED,
                    Some(()) = interrupt.recv() => EXIT_INTERRUPTED,
                    else => return,
                };
                if received.send(code).await.is_err() {
                    return;
                }
            }
        });
        let shutdown = Self::default();
        // The only place that exits without cleaning up: a second signal means that the user does not want to wait.
        supervised(shutdown.clone().follow(signals, |code| std::process::exit(code)));
        Ok(shutdown)
    }

    /// Begins the shutdown without a signal.
    pub fn begin(&self) {
        self.begun.send_replace(true);
    }

    /// Whether the shutdown has begun.
    pub fn has_begun(&self) -> bool {
        *self.begun.borrow()
    }

    /// Waits until the shutdown has begun.
    pub fn begun(&self) -> impl Future<Output = ()> + Send + 'static {
        // The future holds a sender too, which keeps the channel open while it waits.
        let begun = Arc::clone(&self.begun);
        async move {
            let _ = begun.subscribe().wait_for(|begun| *begun).await;
        }
    }

    /// Runs `work`. Once the shutdown has begun, it has `limit` to finish; returns `None` if it does not.
    pub async fn drain<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let too_late = async {
            self.begun().await;
            tokio::time::sleep(limit).await;
        };
        tokio::select! {
            biased;
            result = work => Some(result),
            () = too_late => {
                warn!(?limit, "shutdown time limit reached; exiting with unfinished calls");
                None
            }
        }
    }

    async fn follow(self, mut signals: mpsc::Receiver<i32>, exit: impl FnOnce(i32)) {
        if signals.recv().await.is_none() {
            return;
        }
        info!("shutting down; send a second signal to exit immediately");
        self.begin();
        if let Some(code) = signals.recv().await {
            warn!("second signal received; exiting immediately");
            exit(code);
        }
    }
}

/// Starts a task that handles signals. The process ends if it panics, because it would then ignore them.
fn supervised(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(panic) = Tasks::default().guard(TaskKind::Signals, task).await {
            error!(panic, "the task that handles signals panicked; exiting");
            super::log::flush();
            std::process::exit(EXIT_DEFECT);
        }
    });
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn the_first_signal_begins_the_shutdown_and_the_second_exits() {
        let shutdown = Shutdown::default();
        let (signals, received) = mpsc::channel(2);
        let (exit, exited) = oneshot::channel();
        tokio::spawn(shutdown.clone().follow(received, |code| exit.send(code).expect("a listener")));
        let waiting = [tokio::spawn(shutdown.begun()), tokio::spawn(shutdown.begun())];
        assert!(!shutdown.has_begun());

        signals.send(EXIT_TERMINATED).await.expect("a follower");
        for waiting in waiting {
            waiting.await.expect("no panic");
        }
        assert!(shutdown.has_begun());
        shutdown.begun().await;

        signals.send(EXIT_INTERRUPTED).await.expect("a follower");
        assert_eq!(exited.await, Ok(EXIT_INTERRUPTED));
    }

    #[tokio::test]
    async fn a_real_signal_begins_the_shutdown() {
        let shutdown = Shutdown::on_signals().expect("signals");
        let pid = std::process::id().to_string();
        let kill = std::process::Command::new("kill").args(["-TERM", &pid]).status();
        assert!(kill.expect("kill").success());
        tokio::time::timeout(LIMIT, shutdown.begun()).await.expect("to begin");
    }

    #[tokio::test(start_paused = true)]
    async fn work_has_a_time_limit_only_after_the_shutdown_began() {
        let shutdown = Shutdown::default();
        let long = async { tokio::time::sleep(100 * LIMIT).await };
        assert_eq!(shutdown.drain(LIMIT, long).await, Some(()));

        let began = Instant::now();
        shutdown.begin();
        assert_eq!(shutdown.drain(LIMIT, std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
        assert_eq!(shutdown.drain(LIMIT, async { 7 }).await, Some(7));
    }
}
