//! Attacks on a TLS port by clients without a certificate.

use std::io::Write;
use std::net::TcpStream;

use super::certificates::{Authority, Validity, is_served};
use crate::peers::headcount::{ConfigFile, Server};

/// A server with TLS, and an authority that signed for it and signs for its clients.
fn mk_server() -> (Server, Authority, ConfigFile) {
    let authority = Authority::new("ca");
    let certificate = authority.server(Validity::Now);
    let config = ConfigFile::new(
        "grpc: {tls: {cert: tls.crt, key: tls.key, clientCa: ca.crt, allowedClients: [cluster-autoscaler]}}\n\
         sources: [{name: demo, simulated: {}}]\n",
    );
    let config = config.beside("tls.crt", &certificate.chain).beside("tls.key", &certificate.key);
    let config = config.beside("ca.crt", &authority.pem());
    (Server::with_config(&config), authority, config)
}

#[tokio::test]
async fn silent_strangers_do_not_keep_the_autoscaler_from_connecting() {
    let (server, authority, _config) = mk_server();
    let client = authority.client("cluster-autoscaler", Vec::new());
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.extend((0..300).filter_map(|_| TcpStream::connect(server.grpc()).ok()));
        assert!(is_served(server.grpc(), &authority, Some(&client)).await);
    }
}

#[tokio::test]
async fn a_flood_of_strangers_costs_few_log_lines() {
    let (server, authority, _config) = mk_server();
    for _ in 0..500 {
        let mut stream = TcpStream::connect(server.grpc()).expect("connects");
        let _closed_already = stream.write_all(b"GET / HTTP/1.1\r\nHost: headcount\r\n\r\n");
    }
    server.logged("clients rejected");
    let client = authority.client("cluster-autoscaler", Vec::new());
    assert!(is_served(server.grpc(), &authority, Some(&client)).await);
    let lines = server.lines_with("\"WARN\"");
    assert!(lines.len() < 20, "{lines:#?}");
}

#[tokio::test]
async fn only_a_client_with_an_allowed_certificate_is_served() {
    let (server, authority, _config) = mk_server();
    let stranger = Authority::new("ca");
    assert!(is_served(server.grpc(), &authority, Some(&authority.client("cluster-autoscaler", Vec::new()))).await);
    assert!(!is_served(server.grpc(), &authority, Some(&stranger.client("cluster-autoscaler", Vec::new()))).await);
    for name in ["other", "Cluster-Autoscaler", "cluster-autoscaler2", "cluster-autoscale", "*"] {
        assert!(!is_served(server.grpc(), &authority, Some(&authority.client(name, Vec::new()))).await, "{name}");
    }
    assert!(!is_served(server.grpc(), &authority, None).await);
}
