use std::path::Path;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use std::io;
use std::net::SocketAddr;

use super::super::authority::{Authority, Leaf};
use super::super::tls::TlsSettings;
use super::admission::{HANDSHAKE_LIMIT, admit};
use super::connection::{Connection, Transport};
use super::*;

/// Every condition here holds within this time, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the files are read in these tests.
const RELOAD_EVERY: Duration = Duration::from_millis(10);

/// A server that sends every client the names in its certificate, and the TLS files of the server.
struct EchoServer {
    address: SocketAddr,
    files: TempDir,
    live: Arc<LiveTls>,
}

impl EchoServer {
    async fn start(server: &Leaf, client_ca: &Authority, allowed_clients: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        write_files(files.path(), server, client_ca);
        let live = LiveTls::load(mk_settings(files.path(), allowed_clients));
        let live = Arc::new(live.expect("good files"));
        tokio::spawn(Arc::clone(&live).watch_every(RELOAD_EVERY));
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        tokio::spawn(greet(tcp, Arc::clone(&live)));
        Self { address, files, live }
    }

    /// What the server says to a client with this certificate that trusts this CA.
    async fn greets(&self, client: Option<&Leaf>, trusted: &Authority) -> io::Result<String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(trusted.roots());
        let mut config = match client {
            Some(leaf) => config.with_client_auth_cert(leaf.chain(), leaf.private_key()).expect("a certificate"),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let socket = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        let mut greeting = String::new();
        stream.read_to_string(&mut greeting).await?;
        // The server rejects a client after the handshake by closing the connection.
        if greeting.is_empty() { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(greeting) }
    }
}

async fn greet(tcp: TcpListener, tls: Arc<LiveTls>) {
    while let Ok((socket, _)) = tcp.accept().await {
        let tls = Arc::clone(&tls);
        tokio::spawn(async move {
            let Some(admitted) = admit(Socket::Tcp(socket), Some(&tls), &Refusals::default()).await else { return };
            let mut connection = mk_connection(admitted.transport);
            let greeting = format!("hello {}", admitted.peer.names.join(" "));
            let _ = connection.write_all(greeting.as_bytes()).await;
            let _ = connection.shutdown().await;
            let _ = connection.read(&mut [0; 1]).await;
        });
    }
}

fn mk_connection(transport: Transport) -> Connection {
    Connection { transport, client: ClientState::new(None, &Arc::default(), &Arc::default()) }
}

fn mk_settings(directory: &Path, allowed_clients: &[&str]) -> TlsSettings {
    TlsSettings {
        cert: directory.join("tls.crt"),
        key: directory.join("tls.key"),
        client_ca: Some(directory.join("ca.crt")),
        allowed_clients: allowed_clients.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn write_files(directory: &Path, server: &Leaf, client_ca: &Authority) {
    for (name, content) in [("tls.crt", &server.cert), ("tls.key", &server.key), ("ca.crt", &client_ca.pem())] {
        std::fs::write(directory.join(name), content).expect("a file");
    }
}

/// Tries until the condition holds. It is only visible from outside, so there is no signal to wait for.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let trying = async {
        while !is_so().await {
            tokio::time::sleep(RELOAD_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, trying).await.is_ok(), "timed out waiting until {what}");
}

#[tokio::test]
async fn a_client_of_the_ca_is_served_and_known_by_its_names() {
    let ca = Authority::new("ca");
    let server = EchoServer::start(&ca.server(), &ca, &[]).await;
    let greeting = server.greets(Some(&ca.client("cluster-autoscaler", Vec::new())), &ca).await;
    assert_eq!(greeting.expect("a greeting"), "hello cluster-autoscaler");
}

#[tokio::test]
async fn a_client_without_a_certificate_of_the_client_ca_is_rejected() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let server = EchoServer::start(&ca.server(), &ca, &[]).await;
    assert!(server.greets(Some(&stranger.client("cluster-autoscaler", Vec::new())), &ca).await.is_err());
    assert!(server.greets(None, &ca).await.is_err());
    assert!(server.greets(Some(&ca.client("cluster-autoscaler", Vec::new())), &ca).await.is_ok());
}

#[tokio::test]
async fn only_allowed_clients_are_served_where_a_list_is_kept() {
    let ca = Authority::new("ca");
    let server = EchoServer::start(&ca.server(), &ca, &["cluster-autoscaler", "spiffe://prod/ca"]).await;
    let by_uri = vec![rcgen::SanType::URI("spiffe://prod/ca".try_into().expect("a name"))];
    assert!(server.greets(Some(&ca.client("cluster-autoscaler", Vec::new())), &ca).await.is_ok());
    assert!(server.greets(Some(&ca.client("other", by_uri)), &ca).await.is_ok());
    let refusal = server.greets(Some(&ca.client("other", Vec::new())), &ca).await.expect_err("refused");
    assert!(matches!(refusal.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::UnexpectedEof), "{refusal}");
}

#[tokio::test]
async fn a_new_certificate_and_a_new_client_ca_take_effect_while_serving() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (old_client, new_client) = (old.client("ca", Vec::new()), new.client("ca", Vec::new()));
    let server = EchoServer::start(&old.server(), &old, &[]).await;
    assert!(server.greets(Some(&old_client), &old).await.is_ok());
    assert!(server.greets(Some(&new_client), &old).await.is_err());

    write_files(server.files.path(), &new.server(), &new);
    eventually("the new CA's client is served with the new certificate", async || {
        server.greets(Some(&new_client), &new).await.is_ok()
    })
    .await;
    assert!(server.greets(Some(&old_client), &new).await.is_err(), "the old CA's client is still served");
    assert!(server.greets(Some(&new_client), &old).await.is_err(), "the old certificate is still shown");
}

#[tokio::test]
async fn a_secret_that_kubernetes_swaps_takes_effect() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let mount = tempfile::tempdir().expect("a directory");
    // As the kubelet lays a secret out: files link through `..data`, which is replaced by a rename.
    let lay_out = |version: &str, authority: &Authority| {
        let directory = mount.path().join(version);
        std::fs::create_dir(&directory).expect("a directory");
        write_files(&directory, &authority.server(), authority);
        std::os::unix::fs::symlink(&directory, mount.path().join("..data_tmp")).expect("a link");
        std::fs::rename(mount.path().join("..data_tmp"), mount.path().join("..data")).expect("a rename");
    };
    lay_out("..1", &old);
    let settings = mk_settings(&mount.path().join("..data"), &[]);
    let live = Arc::new(LiveTls::load(settings).expect("good files"));
    tokio::spawn(Arc::clone(&live).watch_every(RELOAD_EVERY));
    let before = live.config();
    lay_out("..2", &new);
    eventually("the swapped secret is used", async || !Arc::ptr_eq(&before, &live.config())).await;
}

#[tokio::test]
async fn a_bad_reload_keeps_serving_and_a_good_one_after_it_is_taken() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let client = old.client("ca", Vec::new());
    let server = EchoServer::start(&old.server(), &old, &[]).await;
    let before = server.live.config();

    let key = server.files.path().join("tls.key");
    std::fs::write(&key, new.server().key).expect("a file");
    eventually("another certificate's key is noticed", async || {
        complains(&server.live, "does not match the first certificate")
    })
    .await;
    assert!(server.greets(Some(&client), &old).await.is_ok(), "a key of another certificate stopped the service");

    std::fs::remove_file(&key).expect("a file");
    eventually("a missing key is noticed", async || complains(&server.live, "tls.key cannot be read")).await;
    assert!(server.greets(Some(&client), &old).await.is_ok(), "a missing key stopped the service");
    assert!(Arc::ptr_eq(&before, &server.live.config()), "the configuration was replaced by a bad one");

    write_files(server.files.path(), &new.server(), &new);
    let client = new.client("ca", Vec::new());
    eventually("the good files are used", async || server.greets(Some(&client), &new).await.is_ok()).await;
    assert!(server.live.reload_error().is_none());
}

fn complains(live: &LiveTls, complaint: &str) -> bool {
    live.reload_error().is_some_and(|error| error.reason.contains(complaint))
}

#[tokio::test]
async fn a_client_that_says_nothing_hinders_nobody() {
    let ca = Authority::new("ca");
    let server = EchoServer::start(&ca.server(), &ca, &[]).await;
    let _silent = TcpStream::connect(server.address).await.expect("a connection");
    assert!(server.greets(Some(&ca.client("ca", Vec::new())), &ca).await.is_ok());
}

/// A port that serves health checks.
struct HealthServer {
    address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<()>,
    refusals: Arc<Refusals>,
}

impl HealthServer {
    async fn start(tls: Option<Arc<LiveTls>>) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        let tcp = tcp.try_into().expect("a listener");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (_reporter, health) = tonic_health::server::health_reporter();
        let refusals = Arc::new(Refusals::default());
        let serving =
            tokio::spawn(serve(tcp, Routes::new(health), tls, Arc::clone(&refusals), Tasks::default(), async {
                let _ = stopped.await;
            }));
        Self { address, stop, serving, refusals }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }
}

/// Waits for the end of a connection by the server.
async fn end_of(mut stream: TcpStream) {
    let mut bytes = [0; 1024];
    while !matches!(stream.read(&mut bytes).await, Ok(0) | Err(_)) {}
}

const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

// The paused clock runs on to the next timer when there is nothing else to do.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_what_it_began_is_disconnected() {
    let ca = Authority::new("ca");
    let files = tempfile::tempdir().expect("a directory");
    write_files(files.path(), &ca.server(), &ca);
    let live = LiveTls::load(mk_settings(files.path(), &[])).expect("good files");
    let half_a_head = [PREFACE_AND_SETTINGS, b"\0\0\x09\x01\0\0\0\0\x01abc"].concat();
    for (tls, sent) in
        [(Some(Arc::new(live)), &b""[..]), (None, b""), (None, b"PRI * HTTP/2.0\r\n"), (None, &half_a_head)]
    {
        let server = HealthServer::start(tls).await;
        let mut client = server.connect().await;
        client.write_all(sent).await.expect("sent");
        let began = Instant::now();
        end_of(client).await;
        assert!(began.elapsed() >= HANDSHAKE_LIMIT && began.elapsed() < 2 * HANDSHAKE_LIMIT, "{:?}", began.elapsed());
        assert_eq!(server.refusals.total(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_client_without_a_call() {
    for sent in [&b""[..], b"PRI", PREFACE_AND_SETTINGS] {
        let server = HealthServer::start(None).await;
        let mut client = server.connect().await;
        client.write_all(sent).await.expect("sent");
        let began = Instant::now();
        server.stop.send(()).expect("a server");
        server.serving.await.expect("a clean end");
        assert!(began.elapsed() <= 2 * IDLE_DRAIN_LIMIT, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn the_server_serves_plaintext_and_closes_the_port_when_it_stops() {
    let server = HealthServer::start(None).await;
    let address = server.address;
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel = endpoint.connect().await.expect("a connection");
    let mut client = tonic_health::pb::health_client::HealthClient::new(channel);
    let answer = client.check(tonic_health::pb::HealthCheckRequest::default()).await.expect("an answer");
    assert_eq!(answer.into_inner().status(), tonic_health::pb::health_check_response::ServingStatus::Serving);

    drop(client);
    server.stop.send(()).expect("a server");
    server.serving.await.expect("a clean end");
    eventually("the port is closed", async || TcpStream::connect(address).await.is_err()).await;
}
