//! Which clients are served, and with which certificates.

use super::*;

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

    /// What the server sends to a client that has this certificate and trusts this CA.
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
            let Some(admitted) =
                admit(Socket::Tcp(socket), Some(&tls), &Handshakes::default(), &Refusals::default()).await
            else {
                return;
            };
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

#[tokio::test]
async fn a_client_with_a_certificate_of_the_ca_is_served_and_its_names_are_known() {
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
async fn only_allowed_clients_are_served_if_there_is_a_list() {
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
    // As the kubelet mounts a secret: files link through `..data`, which is replaced by a rename.
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
async fn a_bad_reload_changes_nothing_and_a_good_one_after_it_is_used() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let client = old.client("ca", Vec::new());
    let server = EchoServer::start(&old.server(), &old, &[]).await;
    let before = server.live.config();

    let key = server.files.path().join("tls.key");
    std::fs::write(&key, new.server().key).expect("a file");
    eventually("another certificate's key is noticed", async || {
        reports(&server.live, "does not match the first certificate")
    })
    .await;
    assert!(server.greets(Some(&client), &old).await.is_ok(), "a key of another certificate stopped the service");

    std::fs::remove_file(&key).expect("a file");
    eventually("a missing key is noticed", async || reports(&server.live, "tls.key cannot be read")).await;
    assert!(server.greets(Some(&client), &old).await.is_ok(), "a missing key stopped the service");
    assert!(Arc::ptr_eq(&before, &server.live.config()), "the configuration was replaced by a bad one");

    write_files(server.files.path(), &new.server(), &new);
    let client = new.client("ca", Vec::new());
    eventually("the good files are used", async || server.greets(Some(&client), &new).await.is_ok()).await;
    assert!(server.live.reload_error().is_none());
}

fn reports(live: &LiveTls, expected: &str) -> bool {
    live.reload_error().is_some_and(|error| error.reason.contains(expected))
}

#[tokio::test]
async fn a_silent_client_does_not_delay_others() {
    let ca = Authority::new("ca");
    let server = EchoServer::start(&ca.server(), &ca, &[]).await;
    let _silent = TcpStream::connect(server.address).await.expect("a connection");
    assert!(server.greets(Some(&ca.client("ca", Vec::new())), &ca).await.is_ok());
}
