//! The root certificates of the system, which TLS to a cloud needs.

use std::path::Path;

use thiserror::Error;

/// The places that most distributions use. `rustls-native-certs` knows a few more.
const USUAL_PLACES: &str = "/etc/ssl/certs, /etc/pki/tls and /etc/ssl/cert.pem";

/// The system has no root certificates.
#[derive(Debug, Error)]
#[error(
    "no root certificates, so no cloud can be called over TLS: looked in {places}{detail}; install the package \
     ca-certificates, or set SSL_CERT_FILE to a file of PEM certificates"
)]
pub struct NoRoots {
    places: String,
    detail: String,
}

/// Fails if the system has no root certificates.
pub(super) fn check() -> Result<(), NoRoots> {
    let found = rustls_native_certs::load_native_certs();
    if !found.certs.is_empty() {
        return Ok(());
    }
    let detail = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
    Err(NoRoots { places: places(&|name| std::env::var(name).ok()), detail })
}

/// Where certificates are looked for. Variables replace the usual places.
fn places(variable: &dyn Fn(&str) -> Option<String>) -> String {
    let set = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(|name| {
        let value = variable(name).filter(|value| !Path::new(value).as_os_str().is_empty())?;
        Some(format!("{name}={value}"))
    });
    let set: Vec<String> = set.collect();
    if set.is_empty() { USUAL_PLACES.to_owned() } else { set.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_replace_the_usual_places() {
        assert_eq!(places(&|_| None), USUAL_PLACES);
        assert_eq!(places(&|_| Some(String::new())), USUAL_PLACES);
        let file = |name: &str| (name == "SSL_CERT_FILE").then(|| "/a/ca.pem".to_owned());
        assert_eq!(places(&file), "SSL_CERT_FILE=/a/ca.pem");
        assert_eq!(places(&|_| Some("/a".to_owned())), "SSL_CERT_FILE=/a and SSL_CERT_DIR=/a");
    }
}
