//! The client at the other end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The client at the other end of a connection. Every request carries it as an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: Option<SocketAddr>,
    /// The names in its verified certificate: the common name, then the alternative names. Empty if it presented none.
    pub names: Arc<[String]>,
}

/// A verified certificate whose names cannot be read.
#[derive(Debug, Error)]
#[error("the names in the client's certificate cannot be read: {0}")]
pub struct NamesError(String);

/// A name that a certificate certifies. E-mail and IP names do not count: authorities let applicants choose those
/// freely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertifiedName {
    /// A common name or a DNS name.
    Plain(String),
    /// A URI, such as a SPIFFE ID.
    Uri(String),
}

impl CertifiedName {
    /// The name as it is written.
    pub fn text(&self) -> &str {
        let (Self::Plain(text) | Self::Uri(text)) = self;
        text
    }

    /// Whether it is the name in an entry of `allowedClients`. Only an entry with `://` names a URI.
    fn is(&self, entry: &str) -> bool {
        match self {
            Self::Plain(name) => !entry.contains("://") && name == entry,
            Self::Uri(name) => entry.contains("://") && name == entry,
        }
    }
}

/// Returns the names in a certificate: its common names, then its DNS and URI alternative names.
pub fn certified_names(certificate: &CertificateDer<'_>) -> Result<Vec<CertifiedName>, NamesError> {
    let unreadable = |error: &dyn std::fmt::Display| NamesError(error.to_string());
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| unreadable(&error))?;
    let common_names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<_> = common_names.map(|name| CertifiedName::Plain(name.to_owned())).collect();
    let alternatives = certificate.subject_alternative_name().map_err(|error| unreadable(&error))?;
    let alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    names.extend(alternatives.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(CertifiedName::Plain((*name).to_owned())),
        GeneralName::URI(name) => Some(CertifiedName::Uri((*name).to_owned())),
        _ => None,
    }));
    Ok(names)
}

/// Whether a client with these names may connect: one of them must be an allowed name. Without a list of allowed names,
/// every client may.
pub fn is_allowed(names: &[CertifiedName], allowed: &[String]) -> bool {
    allowed.is_empty() || names.iter().any(|name| allowed.iter().any(|entry| name.is(entry)))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use rcgen::SanType;

    use super::super::authority::Authority;
    use super::*;

    #[test]
    fn common_dns_and_uri_names_are_read_and_no_others() {
        let names = vec![
            SanType::DnsName("ca.kube-system.svc".try_into().expect("a name")),
            SanType::URI("spiffe://prod/ns/kube-system/sa/ca".try_into().expect("a name")),
            SanType::IpAddress(IpAddr::from([10, 0, 0, 7])),
            SanType::IpAddress(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 7])),
            SanType::Rfc822Name("ca@prod".try_into().expect("a name")),
        ];
        let leaf = Authority::new("ca").client("cluster-autoscaler", names);
        let plain = |name: &str| CertifiedName::Plain(name.to_owned());
        let uri = CertifiedName::Uri("spiffe://prod/ns/kube-system/sa/ca".to_owned());
        let expected = [plain("cluster-autoscaler"), plain("ca.kube-system.svc"), uri];
        assert_eq!(certified_names(&leaf.chain()[0]).expect("names"), expected);
    }

    #[test]
    fn one_name_of_a_client_must_be_an_allowed_name_of_its_kind() {
        let plain =
            |names: &[&str]| names.iter().map(|name| CertifiedName::Plain((*name).to_owned())).collect::<Vec<_>>();
        let uris = |names: &[&str]| names.iter().map(|name| CertifiedName::Uri((*name).to_owned())).collect::<Vec<_>>();
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(is_allowed(&plain(&["a", "b"]), &list(&["x", "b"])));
        assert!(is_allowed(&uris(&["spiffe://a"]), &list(&["x", "spiffe://a"])));
        assert!(is_allowed(&[], &[]));
        assert!(is_allowed(&plain(&["a"]), &[]));
        assert!(!is_allowed(&plain(&["a"]), &list(&["A", "*", "aa"])));
        assert!(!is_allowed(&[], &list(&["a"])));
        assert!(!is_allowed(&uris(&["cluster-autoscaler"]), &list(&["cluster-autoscaler"])));
        assert!(!is_allowed(&plain(&["spiffe://a"]), &list(&["spiffe://a"])));
    }

    #[test]
    fn bytes_that_are_not_a_certificate_have_no_names() {
        assert!(certified_names(&CertificateDer::from(vec![1, 2, 3])).is_err());
    }
}
