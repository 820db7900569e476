//! The admin port: probes, metrics, the status page and recordings over plain HTTP, which needs no client certificate.

mod connections;
mod metrics;
pub mod parsers;
mod recordings;
mod rendering;
pub mod statusz;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::net::TcpListener;

pub use metrics::{CertificateExpiry, Format, Metrics};
use rendering::{Page, PageKind, Renderings};
use statusz::Statusz;

use crate::tasks::{TaskKind, Tasks};

/// Whether the server is ready, and if not, why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it is ready.
    pub ready: bool,
    /// What is wrong, one short line for each.
    pub reasons: Vec<String>,
    /// For how long no source has been read.
    pub unread_for: Duration,
}

/// Returns the readiness of the server from memory.
pub type ReadinessCheck = Arc<dyn Fn() -> Readiness + Send + Sync>;

/// What this port serves.
#[derive(Clone)]
pub struct Pages {
    /// Whether the server is ready.
    pub readiness: ReadinessCheck,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The status page, and who gets it; `None` without a fleet.
    pub statusz: Option<Statusz>,
}

/// Returns the routes of this port.
pub fn router(pages: Pages) -> Router {
    let Pages { readiness, metrics, statusz } = pages;
    let probes = Router::new().route("/livez", get(livez)).route("/readyz", get(readyz)).with_state(readiness);
    let renderings = Renderings::default();
    let exposition = Router::new().route("/metrics", get(exposition)).with_state((metrics, renderings.clone()));
    let routes = probes.merge(exposition);
    match statusz {
        Some(statusz) => routes.merge(recordings::router(statusz.clone())).merge(statusz::router(statusz, renderings)),
        None => routes,
    }
}

/// Serves this port until `shutdown` completes.
pub async fn serve(listener: TcpListener, pages: Pages, tasks: &Tasks, shutdown: impl Future<Output = ()> + Send) {
    let router = router(pages);
    let mut restarts = tasks.supervise(TaskKind::AdminPort, "").endless();
    let serving = async { while restarts.run(connections::serve(&listener, &router, tasks)).await {} };
    tokio::select! {
        () = serving => {}
        () = shutdown => {}
    }
}

/// Whether the process runs. With `?max-age=15m`, also whether any source has been read within that time: if none
/// has, a restart may help.
async fn livez(State(check): State<ReadinessCheck>, uri: Uri) -> (StatusCode, String) {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    let Some(max_age) = parameters.find_map(|parameter| parameter.strip_prefix("max-age=")) else {
        return (StatusCode::OK, "ok".to_owned());
    };
    let Ok(max_age) = humantime::parse_duration(max_age) else {
        return (StatusCode::BAD_REQUEST, "max-age is not a duration; write 15m, for example\n".to_owned());
    };
    let unread_for = Duration::from_secs(check().unread_for.as_secs());
    if unread_for <= max_age {
        return (StatusCode::OK, "ok".to_owned());
    }
    let text = format!("no source has been read for {}\n", humantime::format_duration(unread_for));
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

async fn readyz(State(check): State<ReadinessCheck>) -> (StatusCode, String) {
    let Readiness { ready, reasons, .. } = check();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let verdict = if ready { "ok" } else { "not ready" };
    let text = match (ready, reasons.as_slice()) {
        (true, []) => verdict.to_owned(),
        (false, []) => format!("{verdict}\n"),
        (true, reasons) => format!("{verdict}\n{}", reasons.join("\n")),
        (false, reasons) => format!("{}\n", reasons.join("\n")),
    };
    (status, text)
}

async fn exposition(State((metrics, renderings)): State<(Arc<Metrics>, Renderings)>, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::wanted(accept);
    let kind = match format {
        Format::Classic => PageKind::ClassicMetrics,
        Format::OpenMetrics => PageKind::OpenMetrics,
    };
    let render = move || {
        let text = metrics.render(format).ok()?;
        Some(Page { content_type: format.content_type(), body: text.into() })
    };
    match renderings.page(kind, render).await {
        Some(page) => ([(CONTENT_TYPE, page.content_type)], page.body).into_response(),
        None => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be rendered\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;

    struct Served {
        address: SocketAddr,
        readiness: Arc<Mutex<Readiness>>,
        stop: oneshot::Sender<()>,
        serving: JoinHandle<()>,
    }

    async fn mk_served() -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let readiness = Arc::new(Mutex::new(Readiness::default()));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&readiness);
        let check: ReadinessCheck = Arc::new(move || shared.lock().expect("no panic").clone());
        let pages = Pages { readiness: check, metrics: Arc::default(), statusz: None };
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serve(listener, pages, &Tasks::default(), stopped).await
        });
        Served { address, readiness, stop, serving }
    }

    /// Returns the status line and the body of the response.
    async fn ask(address: SocketAddr, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nHost: headcount\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut received = String::new();
        stream.read_to_string(&mut received).await.expect("a response");
        let (head, body) = received.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn livez_succeeds_whether_or_not_the_server_is_ready() {
        let served = mk_served().await;
        assert_eq!(ask(served.address, "/livez").await, ("HTTP/1.1 200 OK".into(), "ok".into()));
        assert_eq!(ask(served.address, "/elsewhere").await.0, "HTTP/1.1 404 Not Found");
    }

    #[tokio::test]
    async fn livez_fails_if_no_source_was_read_within_max_age() {
        let served = mk_served().await;
        served.readiness.lock().expect("no panic").unread_for = Duration::from_millis(900_500);
        for (query, expected) in [
            ("", "HTTP/1.1 200 OK"),
            ("?max-age=15m", "HTTP/1.1 200 OK"),
            ("?max-age=14m", "HTTP/1.1 503 Service Unavailable"),
            ("?x=1&max-age=1s", "HTTP/1.1 503 Service Unavailable"),
            ("?max-age=soon", "HTTP/1.1 400 Bad Request"),
        ] {
            assert_eq!(ask(served.address, &format!("/livez{query}")).await.0, expected, "{query}");
        }
    }

    #[tokio::test]
    async fn readyz_lists_what_is_not_ready() {
        let served = mk_served().await;
        let unavailable = "HTTP/1.1 503 Service Unavailable";
        assert_eq!(ask(served.address, "/readyz").await, (unavailable.into(), "not ready\n".into()));
        let reasons = vec!["source us: not observed yet".into(), "source eu: throttled".into()];
        *served.readiness.lock().expect("no panic") = Readiness { ready: false, reasons, ..Readiness::default() };
        let body = "source us: not observed yet\nsource eu: throttled\n";
        assert_eq!(ask(served.address, "/readyz").await, (unavailable.into(), body.into()));
        *served.readiness.lock().expect("no panic") =
            Readiness { ready: true, reasons: vec!["tls: old".into()], ..Readiness::default() };
        assert_eq!(ask(served.address, "/readyz").await, ("HTTP/1.1 200 OK".into(), "ok\ntls: old".into()));
        *served.readiness.lock().expect("no panic") =
            Readiness { ready: true, reasons: Vec::new(), ..Readiness::default() };
        assert_eq!(ask(served.address, "/readyz").await, ("HTTP/1.1 200 OK".into(), "ok".into()));
        let reasons = vec!["us: slow, a listing takes 1m 5s".into()];
        *served.readiness.lock().expect("no panic") = Readiness { ready: true, reasons, ..Readiness::default() };
        let body = "ok\nus: slow, a listing takes 1m 5s";
        assert_eq!(ask(served.address, "/readyz").await, ("HTTP/1.1 200 OK".into(), body.into()));
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_a_request_that_never_ends() {
        let served = mk_served().await;
        let mut unfinished = TcpStream::connect(served.address).await.expect("a connection");
        unfinished.write_all(b"GET /livez HTTP/1.1\r\n").await.expect("half a request");
        ask(served.address, "/livez").await;
        served.stop.send(()).expect("a server");
        let end = tokio::time::timeout(Duration::from_secs(60), served.serving).await.expect("an end");
        end.expect("no panic");
        // Another test may have the port by now, so only the connection shows that the server is gone.
        let closed = tokio::time::timeout(Duration::from_secs(60), unfinished.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "the connection is still open");
    }
}
