//! `/debug/recordings` and `/debug/recordings/GROUP`: what happened lately to all groups or to one, and what was
//! decided, for `headcount record`. It is served to those who get the status page.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::statusz::Statusz;

/// What is served: one recording at a time, because one of all groups may have 32 MiB.
#[derive(Clone)]
struct Recordings {
    statusz: Statusz,
    places: Arc<Semaphore>,
}

/// A recording, which keeps its place until it is sent or its client has gone.
struct Unsent {
    text: String,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
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
        let Ok(place) = self.places.acquire_owned().await else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        let fleet = Arc::clone(&self.statusz.fleet);
        let read = move || fleet.recordings(group.as_deref()).map(|text| Unsent { text, _place: place });
        let unsent = tokio::task::spawn_blocking(read).await;
        let headers =
            [(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
        match unsent {
            Ok(Some(unsent)) => (headers, Bytes::from_owner(unsent)).into_response(),
            Ok(None) => (StatusCode::NOT_FOUND, "no node group of this ID is or was served\n").into_response(),
            Err(_panicked) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}
