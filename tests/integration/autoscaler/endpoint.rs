//! The address where the autoscaler finds Headcount, and the certificates of both ends.

use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use super::relay::Relay;
use super::scenario::Transport;
use crate::emulators::Emulator;
use crate::emulators::certificate_authority::CertificateAuthority;
use crate::emulators::setup::{Setup, SetupOptions};

/// The files of Headcount's end, next to its configuration.
const HEADCOUNT_FILES: [&str; 3] = ["grpc.crt", "grpc.key", "clients.crt"];

/// The connection between the autoscaler and Headcount.
pub(super) enum Endpoint {
    Plaintext(Relay),
    MutualTls(Relay),
    UnixSocket(TempDir),
}

/// What Headcount has to be configured with before it starts.
pub(super) struct Listener {
    transport: Transport,
    socket: TempDir,
    authority: CertificateAuthority,
}

impl Listener {
    pub(super) fn new(transport: Transport) -> Self {
        // Its own folder: the path of a socket has at most 107 bytes.
        let socket = tempfile::tempdir().expect("a folder");
        Self { transport, socket, authority: CertificateAuthority::new() }
    }

    /// Adds the listener to Headcount's configuration.
    pub(super) fn configure(&self, options: &mut SetupOptions) {
        match self.transport {
            Transport::Plaintext => {}
            Transport::UnixSocket => {
                options.grpc = Some(format!("{{listen: \"{}\"}}", socket(&self.socket)));
            }
            Transport::MutualTls => {
                let [cert, key, clients] = HEADCOUNT_FILES;
                let tls = format!("{{cert: {cert}, key: {key}, clientCa: {clients}}}");
                options.grpc = Some(format!("{{listen: \"127.0.0.1:0\", tls: {tls}}}"));
                let files = headcount_files(&self.authority);
                options.files.extend(files.map(|(name, text)| (name.to_owned(), text)));
            }
        }
    }

    /// The autoscaler's end, once Headcount listens there. Its files go into this folder.
    pub(super) async fn connect(self, headcount: &str, folder: &Path) -> Endpoint {
        let relay = async || Relay::start(headcount.parse().expect("an address and a port")).await;
        match self.transport {
            Transport::Plaintext => Endpoint::Plaintext(relay().await),
            Transport::UnixSocket => Endpoint::UnixSocket(self.socket),
            Transport::MutualTls => {
                write_client_files(&self.authority, folder);
                Endpoint::MutualTls(relay().await)
            }
        }
    }
}

impl Endpoint {
    /// The autoscaler's `--cloud-config`, with its files in this folder.
    pub(super) fn cloud_config(&self, folder: &Path) -> String {
        let file = |name: &str| folder.join(name).display().to_string();
        let address = match self {
            Self::Plaintext(relay) | Self::MutualTls(relay) => relay.address().to_string(),
            Self::UnixSocket(folder) => socket(folder),
        };
        let tls = match self {
            Self::MutualTls(_) => {
                format!(
                    "cert: {:?}\nkey: {:?}\ncacert: {:?}\n",
                    file("client.crt"),
                    file("client.key"),
                    file("server-ca.crt")
                )
            }
            Self::Plaintext(_) | Self::UnixSocket(_) => String::new(),
        };
        format!("address: {address:?}\ngrpc_timeout: 5s\n{tls}")
    }

    /// Points to Headcount's new process.
    pub(super) fn redirect(&self, headcount: SocketAddr) {
        if let Self::Plaintext(relay) | Self::MutualTls(relay) = self {
            relay.redirect(headcount);
        }
    }

    /// Ends all connections; the autoscaler makes new ones.
    pub(super) fn cut(&self) {
        if let Self::Plaintext(relay) | Self::MutualTls(relay) = self {
            relay.cut();
        }
    }
}

/// Gives Headcount a certificate of this authority and makes it accept the authority's clients; and the same for the
/// autoscaler, which reads its files when it starts.
pub(super) fn renew(authority: &CertificateAuthority, setup: &Setup<impl Emulator>, folder: &Path) {
    for (name, text) in headcount_files(authority) {
        setup.write(name, &text);
    }
    write_client_files(authority, folder);
}

fn headcount_files(authority: &CertificateAuthority) -> [(&'static str, String); 3] {
    let (certificate, key) = authority.server_pems();
    let [cert_file, key_file, clients_file] = HEADCOUNT_FILES;
    [(cert_file, certificate), (key_file, key), (clients_file, authority.pem())]
}

fn write_client_files(authority: &CertificateAuthority, folder: &Path) {
    let (certificate, key) = authority.server_pems();
    for (name, text) in [("client.crt", certificate), ("client.key", key), ("server-ca.crt", authority.pem())] {
        std::fs::write(folder.join(name), text).expect("written");
    }
}

fn socket(folder: &TempDir) -> String {
    format!("unix://{}", folder.path().join("grpc.sock").display())
}
