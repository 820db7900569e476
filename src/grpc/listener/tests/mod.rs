mod clients;
mod connections;

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
