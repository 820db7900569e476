//! A certificate authority for tests.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A CA with its key.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// A certificate and its key, PEM.
pub(super) struct Leaf {
    pub(super) cert: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { issuer: Issuer::new(params, key), certificate }
    }

    pub(super) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// What a client must trust to trust this CA.
    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("a root");
        roots
    }

    /// A server's certificate for `localhost`.
    pub(super) fn server(&self) -> Leaf {
        let names = vec![SanType::DnsName("localhost".try_into().expect("a name"))];
        self.leaf("headcount", names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's certificate.
    pub(super) fn client(&self, common_name: &str, names: Vec<SanType>) -> Leaf {
        self.leaf(common_name, names, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn leaf(&self, common_name: &str, names: Vec<SanType>, usage: ExtendedKeyUsagePurpose) -> Leaf {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names = names;
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Leaf { cert: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Leaf {
    pub(super) fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.cert.as_bytes()).collect::<Result<_, _>>().expect("certificates")
    }

    pub(super) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key")
    }
}
