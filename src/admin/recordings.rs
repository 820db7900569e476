//! `/debug/recordings` and `/debug/recordings/GROUP`: what happened lately to all groups or to one, and what was
//! decided, for `headcount record`. It is served to those who get the status page.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::sync::Semaphore;

use super::statusz::Statusz;

/// What is served: one recording at a time, because one of all groups may have 32 MiB.
#[derive(Clone)]
struct Recordings {
    statusz: Statusz,
    places: Arc<Semaphore>,
}

/// The routes of the recordings.
pub(super) fn router(statusz: Statusz) -> Router {
    let served = Recordings { statusz, places: Arc::new(Semaphore::new(1)) };
    Router::new().route("/debug/recordings", get(all)).route("/debug/recordings/{*group}", get(one)).with_state(served)
}

async fn all(
    State(served): State<Recordings>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    served.respond(peer, &headers, None).await
}

async fn one(
    State(served): State<Recordings>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(group): Path<String>,
    headers: HeaderMap,
) -> Response {
    served.respond(peer, &headers, Some(group)).await
}

impl Recordings {
    async fn respond(self, peer: SocketAddr, headers: &HeaderMap, group: Option<String>) -> Response {
        if !self.statusz.admits(peer, headers) {
            let advice = "recordings are served to callers on this host only: use kubectl port-forward, or set \
                          admin.statusz: everywhere\n";
            return (StatusCode::FORBIDDEN, advice).into_response();
        }
        let Ok(_place) = self.places.acquire().await else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
        let fleet = Arc::clone(&self.statusz.fleet);
        let text = tokio::task::spawn_blocking(move || fleet.recordings(group.as_deref())).await;
        let headers =
            [(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
        match text {
            Ok(Some(text)) => (headers, text).into_response(),
            Ok(None) => (StatusCode::NOT_FOUND, "no node group of this ID is or was served\n").into_response(),
            Err(_panicked) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}
