//! The emulator's certificates, and a listener with or without TLS.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::serve::Listener;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The CA's certificate, the server's and a client's, PEM.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) authority: String,
    pub(super) server: (String, String),
    pub(super) client: (String, String),
}

impl Certificates {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        let authority = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::new(params, key);
        let leaf = |usage| {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::default();
            params.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
            params.extended_key_usages = vec![usage];
            (params.signed_by(&key, &issuer).expect("a certificate").pem(), key.serialize_pem())
        };
        let server = leaf(ExtendedKeyUsagePurpose::ServerAuth);
        Self { authority, server, client: leaf(ExtendedKeyUsagePurpose::ClientAuth) }
    }

    /// The server's side of TLS, which may require a client's certificate.
    pub(super) fn acceptor(&self, requires_client_certificate: bool) -> TlsAcceptor {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).expect("PEM")).expect("a root");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = if requires_client_certificate {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_slice(self.server.0.as_bytes()).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(self.server.1.as_bytes()).expect("PEM");
        TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).expect("a configuration")))
    }
}

/// A connection, with TLS or without.
pub(super) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

/// Accepts connections, after a handshake where there is to be one.
pub(super) struct MaybeTlsListener {
    pub(super) listener: TcpListener,
    pub(super) acceptor: Option<TlsAcceptor>,
}

impl Listener for MaybeTlsListener {
    type Io = Box<dyn Connection>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            match &self.acceptor {
                None => return (Box::new(stream), address),
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => return (Box::new(stream), address),
                    Err(_refused) => {}
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
