//! `/statusz`: what Headcount knows and why it decided as it did, as a document for programs and a page for people.
//!
//! It shows texts from clouds and the names of groups, so by default only callers on this host get it.
//! `kubectl port-forward` is one.

mod document;
mod page;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

pub use document::{
    Autoscaler, BudgetStatus, DecisionEntry, Document, FailureEntry, GroupEntry, OperationEntry, SourceStatus,
};

use super::rendering::{Page, PageKind, Renderings};
use crate::cloud::text::printable_json;
use crate::fleet::Fleet;

/// Nothing may be loaded or run; the only style is the page's own.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Who gets the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Callers on this host.
    #[default]
    Loopback,
    /// Every caller that can connect.
    Everywhere,
}

/// What this page shows, and to whom.
#[derive(Clone)]
pub struct Statusz {
    /// The fleet.
    pub fleet: Arc<Fleet>,
    /// Who gets it.
    pub audience: Audience,
}

impl Statusz {
    /// Whether this caller gets it.
    pub(super) fn admits(&self, peer: SocketAddr, headers: &HeaderMap) -> bool {
        self.audience == Audience::Everywhere || is_local(peer, headers)
    }
}

/// The routes of the page.
pub(super) fn router(statusz: Statusz, renderings: Renderings) -> Router {
    Router::new().route("/statusz", get(respond)).with_state((statusz, renderings))
}

async fn respond(
    State((statusz, renderings)): State<(Statusz, Renderings)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    if !statusz.admits(peer, &headers) {
        let advice = "the status is served to callers on this host only: use kubectl port-forward and open it as localhost, or \
                      set admin.statusz: everywhere\n";
        return (StatusCode::FORBIDDEN, advice).into_response();
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut pairs = query.as_deref().unwrap_or_default().split('&');
    let is_json = match pairs.find_map(|pair| pair.strip_prefix("format=")) {
        Some(format) => format == "json",
        None => text(ACCEPT).split(',').any(|media| media.trim().starts_with("application/json")),
    };
    let kind = if is_json { PageKind::StatusDocument } else { PageKind::StatusPage };
    let render = move || {
        let document = Document::of(&statusz.fleet);
        Some(if is_json {
            let json = serde_json::to_string_pretty(&document).ok()?;
            Page { content_type: "application/json", body: (printable_json(&json).into_owned() + "\n").into() }
        } else {
            Page { content_type: "text/html; charset=utf-8", body: page::page(&document).into() }
        })
    };
    let Some(Page { content_type, body }) = renderings.page(kind, render).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, body).into_response()
}

/// Whether an address is this host's own. The other addresses of 127.0.0.0/8 may be those of a proxy in the pod: Istio's
/// connects from 127.0.0.6 for callers anywhere.
fn is_this_host(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST
}

/// Whether the caller is on this host, and is not a website's page in a browser on this host. The requests of such a
/// page name the website as their `Host`.
fn is_local(peer: SocketAddr, headers: &HeaderMap) -> bool {
    let is_no_site = |host: &HeaderValue| host.to_str().is_ok_and(names_no_site);
    is_this_host(peer.ip()) && headers.get(HOST).is_none_or(is_no_site)
}

/// Whether a `Host` header is an address, or a name without a domain, which no website can have.
fn names_no_site(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').map(|(address, _)| address),
        None => Some(host.split_once(':').map_or(host, |(name, _)| name)),
    };
    name.is_some_and(|name| !name.contains('.') || name.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_callers_on_this_host_are_local() {
        let headers = |host: &'static str| HeaderMap::from_iter([(HOST, host.parse().expect("a value"))]);
        let peer = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for local in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert!(is_local(peer(local), &headers("localhost:8087")), "{local}");
        }
        for other in ["10.0.0.7:9", "127.0.0.6:9"] {
            assert!(!is_local(peer(other), &headers("localhost:8087")), "{other}");
        }
        for (host, is_fine) in [
            ("localhost", true),
            ("headcount:8087", true),
            ("127.0.0.1:8087", true),
            ("[::1]:8087", true),
            ("evil.example", false),
            ("localhost.evil.example:8087", false),
        ] {
            assert_eq!(is_local(peer("127.0.0.1:9"), &headers(host)), is_fine, "{host}");
        }
    }
}
