//! The TLS handshake, and the check of the client's names.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, field, warn};

use super::connection::Transport;
use super::handshakes::Handshakes;
use super::refusals::Refusals;
use super::socket::Socket;
use crate::grpc::peer::{self, CertifiedName, Peer};
use crate::grpc::tls::LiveTls;

/// The longest a handshake may take. It needs only a few round trips.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// A client that may connect.
pub(super) struct Admitted {
    pub(super) transport: Transport,
    pub(super) peer: Peer,
    /// The certificates that it presented, its own first.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

/// Performs the TLS handshake and checks the client's names. A rejected client is counted, and its connection is
/// closed.
pub(super) async fn admit(
    socket: Socket,
    tls: Option<&LiveTls>,
    handshakes: &Handshakes,
    refusals: &Refusals,
) -> Option<Admitted> {
    let address = socket.peer();
    let Some(tls) = tls else {
        let peer = Peer { address, names: Arc::from([]) };
        return Some(Admitted { transport: Transport::Plain(socket), peer, certificates: Vec::new() });
    };
    // A probe that only connects takes no turn.
    match tokio::time::timeout(HANDSHAKE_LIMIT, socket.has_sent()).await {
        Ok(true) => {}
        Ok(false) => {
            debug!(client = address.map(field::display), "client disconnected before the TLS handshake");
            return None;
        }
        Err(_elapsed) => {
            refusals.count(address, format_args!("no TLS handshake within {HANDSHAKE_LIMIT:?}"));
            return None;
        }
    }
    if !handshakes.turn(address.map(|address| address.ip())).await {
        refusals.count(address, "too many TLS handshakes from this address");
        return None;
    }
    let handshake = TlsAcceptor::from(tls.config()).accept(socket);
    let stream = match tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await {
        Ok(Ok(stream)) => stream,
        // TCP probes do this all the time.
        Ok(Err(error)) if concerns_one_connection(&error) => {
            debug!(client = address.map(field::display), %error, "client disconnected during the TLS handshake");
            return None;
        }
        Ok(Err(error)) => {
            refusals.count(address, reason_of_failure(&error));
            return None;
        }
        Err(_) => {
            refusals.count(address, format_args!("no TLS handshake within {HANDSHAKE_LIMIT:?}"));
            return None;
        }
    };
    let certificates = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
    let names = certified_names(&certificates, address);
    if !peer::is_allowed(&names, tls.allowed_clients()) {
        let names: Vec<_> = names.iter().map(CertifiedName::text).collect();
        refusals.count(address, format_args!("its names ({names:?}) are not in allowedClients"));
        return None;
    }
    let names = names.iter().map(|name| name.text().to_owned()).collect();
    Some(Admitted { transport: Transport::Tls(Box::new(stream)), peer: Peer { address, names }, certificates })
}

/// Why a TLS handshake failed, and what to do about it. The library's own words do not say who rejects whom.
fn reason_of_failure(error: &io::Error) -> String {
    let text = error.to_string();
    let reasons = [
        ("InvalidContentType", "it does not speak TLS"),
        ("UnknownIssuer", "its certificate was not issued by a CA in grpc.tls.clientCa"),
        ("peer sent no certificates", "it has no client certificate; set cert and key in CA's cloud-config"),
        ("certificate expired", "its certificate has expired; CA reads a new one only when it starts"),
        ("fatal alert: UnknownCA", "it rejects this server's certificate; check cacert in CA's cloud-config"),
        // Go, and so CA, sends this for an unknown CA, another name and an expired certificate alike.
        (
            "fatal alert: BadCertificate",
            "it rejects this server's certificate; check cacert and address in CA's cloud-config, and that the \
             certificate has not expired",
        ),
    ];
    match reasons.iter().find(|(words, _)| text.contains(words)) {
        Some((_, reason)) => format!("{reason} (TLS: {text})"),
        None => format!("the TLS handshake failed: {text}"),
    }
}

/// Returns the names in the client's certificate; none if it presented no certificate or an unreadable one.
fn certified_names(certificates: &[CertificateDer<'_>], address: Option<SocketAddr>) -> Vec<CertifiedName> {
    let Some(leaf) = certificates.first() else { return Vec::new() };
    peer::certified_names(leaf).unwrap_or_else(|error| {
        warn!(client = address.map(field::display), %error, "names in the client certificate cannot be read; treating \
            it as a certificate without names");
        Vec::new()
    })
}

/// Whether an error concerns one connection only, and not this process.
pub(super) fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::Interrupted
            | io::ErrorKind::UnexpectedEof
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failed_handshake_says_who_rejects_whom() {
        let of = |text: &str| reason_of_failure(&io::Error::other(text));
        let theirs = of("received fatal alert: UnknownCA");
        assert!(theirs.starts_with("it rejects this server's certificate") && theirs.contains("UnknownCA"), "{theirs}");
        let ours = of("invalid peer certificate: UnknownIssuer");
        assert!(ours.starts_with("its certificate was not issued by a CA in grpc.tls.clientCa"), "{ours}");
        let of_go = of("received fatal alert: BadCertificate");
        assert!(of_go.contains("cacert and address"), "CA sends it for an unknown CA, too: {of_go}");
        assert!(of("received corrupt message of type InvalidContentType").starts_with("it does not speak TLS"));
        assert_eq!(of("something else"), "the TLS handshake failed: something else");
    }
}
