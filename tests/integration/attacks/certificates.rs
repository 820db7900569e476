//! Certificates, and a client that presents them.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use headcount::grpc::proto::NodeGroupsRequest;
use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// When a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validity {
    Now,
    Past,
    Future,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::with_key(name, &KeyPair::generate().expect("a key"))
    }

    /// An authority with this key. Each call makes another certificate.
    pub(crate) fn with_key(name: &str, key: &KeyPair) -> Self {
        let key = KeyPair::from_pem(&key.serialize_pem()).expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn server(&self, validity: Validity) -> Certificate {
        self.issue("headcount", vec![SanType::DnsName("localhost".try_into().expect("a name"))], validity)
    }

    pub(crate) fn client(&self, common_name: &str, names: Vec<SanType>) -> Certificate {
        self.issue(common_name, names, Validity::Now)
    }

    /// A client's certificate that is not valid now.
    pub(crate) fn client_of(&self, common_name: &str, validity: Validity) -> Certificate {
        self.issue(common_name, Vec::new(), validity)
    }

    fn issue(&self, common_name: &str, names: Vec<SanType>, validity: Validity) -> Certificate {
        let mut params = mk_params(common_name);
        params.subject_alt_names = names;
        match validity {
            Validity::Now => {}
            Validity::Past => params.not_after = date_time_ymd(2020, 1, 1),
            Validity::Future => params.not_before = date_time_ymd(2090, 1, 1),
        }
        self.sign(&params)
    }

    /// Signs any certificate.
    pub(crate) fn sign(&self, params: &CertificateParams) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Certificate { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// A certificate that a client's own certificate signed, which must not sign any.
    pub(crate) fn sign_through(&self, client: &str, common_name: &str) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let client = CertifiedIssuer::signed_by(mk_params(client), key, &self.0).expect("a certificate");
        let signed = Self(client);
        let Certificate { chain, key } = signed.sign(&mk_params(common_name));
        Certificate { chain: format!("{chain}{}", signed.pem()), key }
    }
}

/// What servers and clients have in common.
pub(crate) fn mk_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Connects with TLS to one address, regardless of the URI.
#[derive(Clone)]
struct Connector {
    address: SocketAddr,
    tls: TlsConnector,
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { address, tls } = self.clone();
        Box::pin(async move {
            let name = ServerName::try_from("localhost").expect("a name");
            // The autoscaler's client does the same: head and body are two writes, and the second would wait for an
            // ACK.
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(tls.connect(name, stream).await?))
        })
    }
}

/// A connector with this certificate, for a server with a certificate of this authority.
fn connector(
    address: SocketAddr,
    trusted: &Authority,
    certificate: Option<&Certificate>,
    protocol: &[u8],
) -> Connector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem().as_bytes()).expect("PEM")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => config.with_no_client_auth(),
        Some(Certificate { chain, key }) => {
            let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            config.with_client_auth_cert(chain, key).expect("a certificate")
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    Connector { address, tls: TlsConnector::from(Arc::new(config)) }
}

/// A connection with this certificate.
pub(crate) async fn channel(
    address: SocketAddr,
    trusted: &Authority,
    certificate: Option<&Certificate>,
) -> Result<Channel, tonic::transport::Error> {
    let connector = connector(address, trusted, certificate, b"h2");
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await
}

/// The same without gRPC.
pub(crate) async fn stream(
    address: SocketAddr,
    trusted: &Authority,
    certificate: Option<&Certificate>,
) -> std::io::Result<TlsStream<TcpStream>> {
    stream_for(b"h2", address, trusted, certificate).await
}

/// The same for another protocol over TLS.
pub(crate) async fn stream_for(
    protocol: &[u8],
    address: SocketAddr,
    trusted: &Authority,
    certificate: Option<&Certificate>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let Connector { address, tls } = connector(address, trusted, certificate, protocol);
    let name = ServerName::try_from("localhost").expect("a name");
    tls.connect(name, TcpStream::connect(address).await?).await
}

/// Lists the groups over a connection.
pub(crate) async fn groups(channel: &Channel) -> Result<usize, Status> {
    let listed = CloudProviderClient::new(channel.clone()).node_groups(NodeGroupsRequest {}).await?;
    Ok(listed.into_inner().node_groups.len())
}

/// Whether a client with this certificate is served.
pub(crate) async fn is_served(address: SocketAddr, trusted: &Authority, certificate: Option<&Certificate>) -> bool {
    let Ok(channel) = channel(address, trusted, certificate).await else { return false };
    match groups(&channel).await {
        Ok(groups) => groups > 0,
        Err(status) => {
            assert!(
                matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal),
                "{status}"
            );
            false
        }
    }
}
