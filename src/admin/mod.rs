//! The admin port: probes over plain HTTP, which needs no client certificate.

mod connections;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

/// Whether the server is ready, and if not, why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it is ready.
    pub ready: bool,
    /// What is not ready, one short line for each.
    pub reasons: Vec<String>,
}

/// Returns the readiness of the server from memory.
pub type ReadinessCheck = Arc<dyn Fn() -> Readiness + Send + Sync>;

/// Returns the routes of this port.
pub fn router(readiness: ReadinessCheck) -> Router {
    Router::new().route("/livez", get(async || "ok")).route("/readyz", get(readyz)).with_state(readiness)
}

/// Serves this port until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    readiness: ReadinessCheck,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = router(readiness);
    let serving = connections::serve(&listener, &router);
    tokio::select! {
        served = serving => served,
        () = shutdown => Ok(()),
    }
}

async fn readyz(State(check): State<ReadinessCheck>) -> (StatusCode, String) {
    let Readiness { ready, reasons } = check();
    if ready {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = reasons.join("\n");
    if text.is_empty() {
        text.push_str("not ready");
    }
    text.push('\n');
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;

    struct Served {
        address: SocketAddr,
        readiness: Arc<Mutex<Readiness>>,
        stop: oneshot::Sender<()>,
        serving: JoinHandle<io::Result<()>>,
    }

    async fn mk_served() -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let readiness = Arc::new(Mutex::new(Readiness::default()));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&readiness);
        let check: ReadinessCheck = Arc::new(move || shared.lock().expect("no panic").clone());
        let serving = tokio::spawn(serve(listener, check, async {
            let _ = stopped.await;
        }));
        Served { address, readiness, stop, serving }
    }

    /// Returns the status line and the body of the response.
    async fn ask(address: SocketAddr, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nHost: headcount\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn livez_succeeds_whether_or_not_the_server_is_ready() {
        let served = mk_served().await;
        assert_eq!(ask(served.address, "/livez").await, ("HTTP/1.1 200 OK".into(), "ok".into()));
        assert_eq!(ask(served.address, "/elsewhere").await.0, "HTTP/1.1 404 Not Found");
    }

    #[tokio::test]
    async fn readyz_lists_what_is_not_ready() {
        let served = mk_served().await;
        let unavailable = "HTTP/1.1 503 Service Unavailable";
        assert_eq!(ask(served.address, "/readyz").await, (unavailable.into(), "not ready\n".into()));
        let reasons = vec!["source us: not observed yet".into(), "source eu: throttled".into()];
        *served.readiness.lock().expect("no panic") = Readiness { ready: false, reasons };
        let body = "source us: not observed yet\nsource eu: throttled\n";
        assert_eq!(ask(served.address, "/readyz").await, (unavailable.into(), body.into()));
        *served.readiness.lock().expect("no panic") = Readiness { ready: true, reasons: Vec::new() };
        assert_eq!(ask(served.address, "/readyz").await, ("HTTP/1.1 200 OK".into(), "ok".into()));
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_a_request_that_never_ends() {
        let served = mk_served().await;
        let mut unfinished = TcpStream::connect(served.address).await.expect("a connection");
        unfinished.write_all(b"GET /livez HTTP/1.1\r\n").await.expect("half a request");
        ask(served.address, "/livez").await;
        served.stop.send(()).expect("a server");
        let end = tokio::time::timeout(Duration::from_secs(10), served.serving).await.expect("an end in time");
        end.expect("no panic").expect("a clean end");
        assert!(TcpStream::connect(served.address).await.is_err(), "the port is still open");
    }
}
