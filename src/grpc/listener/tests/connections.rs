//! Which connections are kept, and when they end.

use super::*;

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
async fn a_client_that_does_not_finish_its_request_is_disconnected() {
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
    let response = client.check(tonic_health::pb::HealthCheckRequest::default()).await.expect("a response");
    assert_eq!(response.into_inner().status(), tonic_health::pb::health_check_response::ServingStatus::Serving);

    drop(client);
    server.stop.send(()).expect("a server");
    server.serving.await.expect("a clean end");
    eventually("the port is closed", async || TcpStream::connect(address).await.is_err()).await;
}
