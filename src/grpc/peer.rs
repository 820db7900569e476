//! The client at the other end of a connection.

use std::net::{IpAddr, SocketAddr};
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

/// Returns the names in a certificate: its common names, then its DNS, URI, IP and e-mail alternative names.
pub fn certified_names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, NamesError> {
    let unreadable = |error: &dyn std::fmt::Display| NamesError(error.to_string());
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| unreadable(&error))?;
    let common_names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = common_names.map(str::to_owned).collect();
    let alternatives = certificate.subject_alternative_name().map_err(|error| unreadable(&error))?;
    let alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    names.extend(alternatives.filter_map(alternative_name));
    Ok(names)
}

fn alternative_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from)).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// Whether a client with these names may connect: one of them must equal an allowed name. Without a list of allowed names,
/// every client may.
pub fn is_allowed(names: &[String], allowed: &[String]) -> bool {
    allowed.is_empty() || names.iter().any(|name| allowed.contains(name))
}

#[cfg(test)]
mod tests {
    use rcgen::SanType;

    use super::super::authority::Authority;
    use super::*;

    #[test]
    fn the_common_name_and_every_alternative_name_are_read() {
        let names = vec![
            SanType::DnsName("ca.kube-system.svc".try_into().expect("a name")),
            SanType::URI("spiffe://prod/ns/kube-system/sa/ca".try_into().expect("a name")),
            SanType::IpAddress(IpAddr::from([10, 0, 0, 7])),
            SanType::IpAddress(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 7])),
            SanType::Rfc822Name("ca@prod".try_into().expect("a name")),
        ];
        let leaf = Authority::new("ca").client("cluster-autoscaler", names);
        let expected = [
            "cluster-autoscaler",
            "ca.kube-system.svc",
            "spiffe://prod/ns/kube-system/sa/ca",
            "10.0.0.7",
            "fd00::7",
            "ca@prod",
        ];
        assert_eq!(certified_names(&leaf.chain()[0]).expect("names"), expected);
    }

    #[test]
    fn one_name_of_a_client_must_equal_an_allowed_name() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(is_allowed(&list(&["a", "b"]), &list(&["x", "b"])));
        assert!(is_allowed(&[], &[]));
        assert!(is_allowed(&list(&["a"]), &[]));
        assert!(!is_allowed(&list(&["a"]), &list(&["A", "*", "aa"])));
        assert!(!is_allowed(&[], &list(&["a"])));
    }

    #[test]
    fn bytes_that_are_not_a_certificate_have_no_names() {
        assert!(certified_names(&CertificateDer::from(vec![1, 2, 3])).is_err());
    }
}
