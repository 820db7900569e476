//! Attacks on a TLS port by clients without a certificate.

use std::io::{Read, Write};
use std::net::TcpStream;

use rcgen::{DnType, ExtendedKeyUsagePurpose, KeyPair};

use super::certificates::{Authority, Certificate, Validity, is_served, mk_params, stream_for};
use crate::peers::headcount::{ConfigFile, Server, eventually};

/// A server with TLS, and the authority that signs its certificate and those of its clients.
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
    server.logged("clients were rejected on the gRPC port");
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

#[tokio::test]
async fn a_certificate_that_is_not_for_a_client_now_opens_nothing() {
    let (server, authority, _config) = mk_server();
    let name = "cluster-autoscaler";
    let mut for_servers = mk_params(name);
    for_servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let mut of_an_organization = mk_params("other");
    for part in [DnType::OrganizationName, DnType::OrganizationalUnitName] {
        of_an_organization.distinguished_name.push(part, name);
    }
    for (what, certificate) in [
        ("expired", authority.client_of(name, Validity::Past)),
        ("not valid yet", authority.client_of(name, Validity::Future)),
        ("for servers alone", authority.sign(&for_servers)),
        ("the name of an organization", authority.sign(&of_an_organization)),
        ("the name before a NUL", authority.client("cluster-autoscaler\0.evil", Vec::new())),
        ("a letter that looks alike", authority.client("\u{441}luster-autoscaler", Vec::new())),
        ("signed by a client", authority.sign_through(name, name)),
        ("signed by another client", authority.sign_through("other", name)),
    ] {
        assert!(!is_served(server.grpc(), &authority, Some(&certificate)).await, "{what}");
    }
    let good = authority.client(name, Vec::new());
    assert!(is_served(server.grpc(), &authority, Some(&good)).await);
    assert!(stream_for(b"http/1.1", server.grpc(), &authority, Some(&good)).await.is_err(), "another protocol");
}

/// A hello for this version of TLS that offers these ciphers.
fn hello(version: [u8; 2], ciphers: &[[u8; 2]]) -> Vec<u8> {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).expect("short");
    let ciphers = ciphers.concat();
    let body = [&version[..], &[7; 32], &[0, 0, length(&ciphers)], &ciphers, &[1, 0]].concat();
    let message = [&[1, 0, 0, length(&body)][..], &body].concat();
    [&[0x16, 3, 1, 0, length(&message)][..], &message].concat()
}

#[test]
fn old_versions_of_tls_and_weak_ciphers_are_refused() {
    let (server, ..) = mk_server();
    // TLS_RSA_WITH_RC4_128_SHA, TLS_RSA_WITH_3DES_EDE_CBC_SHA, TLS_RSA_WITH_AES_128_CBC_SHA,
    // TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA
    let weak = [[0, 0x05], [0, 0x0a], [0, 0x2f], [0xc0, 0x14]];
    // TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    let strong = [[0xc0, 0x2b]];
    for (version, ciphers) in [([3, 1], &strong[..]), ([3, 2], &strong), ([3, 3], &weak)] {
        let mut stream = TcpStream::connect(server.grpc()).expect("connects");
        stream.write_all(&hello(version, ciphers)).expect("sent");
        let mut answer = Vec::new();
        let _may_be_reset = stream.read_to_end(&mut answer);
        // An alert of level fatal, and nothing else.
        assert!(matches!(answer[..], [0x15, 3, _, 0, 2, 2, _]), "{version:?} {ciphers:?}: {answer:?}");
    }
}

#[tokio::test]
async fn nobody_gets_in_while_the_files_are_broken() {
    let (server, authority, config) = mk_server();
    let good = authority.client("cluster-autoscaler", Vec::new());
    let stranger = Authority::new("ca");
    let evil = stranger.client("cluster-autoscaler", Vec::new());
    let other = stranger.server(Validity::Now);
    let whole = authority.pem();
    for (file, broken) in [
        ("ca.crt", ""),
        ("ca.crt", "not a certificate"),
        ("ca.crt", &whole[..whole.len() / 2]),
        ("tls.key", ""),
        ("tls.key", &other.key),
        ("tls.crt", &other.chain),
        ("tls.crt", "-----BEGIN CERTIFICATE-----"),
    ] {
        let path = config.path_of(file);
        let before = std::fs::read_to_string(&path).expect("read");
        let complains = || server.probe("/readyz").contains("tls: ");
        std::fs::write(&path, broken).expect("written");
        server.signal("HUP");
        eventually("the broken file is noticed", complains).await;
        for certificate in [None, Some(&evil)] {
            assert!(!is_served(server.grpc(), &authority, certificate).await, "{file}: {broken}");
        }
        let plain = server.lazy_client().refresh().await;
        assert!(plain.is_err(), "{file}: {broken}: plaintext");
        assert!(is_served(server.grpc(), &authority, Some(&good)).await, "{file}: {broken}");
        std::fs::write(&path, before).expect("written");
        server.signal("HUP");
        eventually("the whole file is noticed", || !complains()).await;
    }
}

#[tokio::test]
async fn a_long_chain_of_certificates_is_refused_before_it_is_verified() {
    let (server, authority, _config) = mk_server();
    let client = authority.client("cluster-autoscaler", Vec::new());
    // Authorities of one name and one key, so that each may have signed each.
    let stranger = Authority::new("stranger");
    let leaf = stranger.client("cluster-autoscaler", Vec::new());
    let key = KeyPair::generate().expect("a key");
    let chain: String = (0..36).map(|_| Authority::with_key("stranger", &key).pem()).collect();
    let attack = Certificate { chain: format!("{}{chain}", leaf.chain), key: leaf.key };
    let began = std::time::Instant::now();
    for _ in 0..10 {
        assert!(!is_served(server.grpc(), &authority, Some(&attack)).await);
    }
    assert!(is_served(server.grpc(), &authority, Some(&client)).await);
    println!("{:?} for ten handshakes", began.elapsed());
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}
