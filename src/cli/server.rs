//! Reads the status and the recordings of a running server.

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::admin::statusz::Document;
use crate::limits::{Limit, RECORDING, SERVER_STATUS, read_body};

/// The status of the server at this address of its admin port, such as `http://127.0.0.1:8087`. The error is a text
/// for people.
pub(super) async fn status(server: &str) -> Result<Document, String> {
    let body = read(server, "/statusz?format=json", SERVER_STATUS).await?;
    serde_json::from_slice(&body).map_err(|error| format!("{server} returned no status of this version: {error}"))
}

/// What it has recorded of a group, or of all groups.
pub(super) async fn recording(server: &str, group: Option<&str>) -> Result<String, String> {
    let path = group.map_or_else(String::new, |group| format!("/{}", encoded(group)));
    let body = read(server, &format!("/debug/recordings{path}"), RECORDING).await?;
    String::from_utf8(body.into()).map_err(|_| format!("{server} returned no recording"))
}

/// A name as a part of a path. It may have any character.
fn encoded(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

async fn read(server: &str, path: &str, limit: Limit) -> Result<Bytes, String> {
    let response = timeout(limit.time(), get(server, path, limit)).await;
    response.unwrap_or_else(|_elapsed| Err(format!("{server} did not respond within {} s", limit.time().as_secs())))
}

async fn get(server: &str, path: &str, limit: Limit) -> Result<Bytes, String> {
    let uri: Uri = server.parse().map_err(|error| format!("{server} is not a URL: {error}"))?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(format!("{server} is not an address of the form http://HOST:PORT"));
    };
    let port = uri.port_u16().unwrap_or(80);
    let failed = |error: &dyn std::fmt::Display| {
        format!("{server}: {error}; is the server running, and is its admin port forwarded?")
    };
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(|error| failed(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(HOST, format!("{host}:{port}"))
        .header(ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(&error))?;
    let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let code = response.status();
    let body = read_body(response.into_body(), limit).await.map_err(|error| failed(&error))?;
    if code != StatusCode::OK {
        return Err(format!("{server} responded with {code}: {}", String::from_utf8_lossy(&body).trim()));
    }
    Ok(body)
}
