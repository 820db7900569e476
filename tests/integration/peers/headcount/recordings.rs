//! What a server has recorded replays to the same decisions.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use headcount::fleet::recording::{Outcome, Recording, Step};

/// A server that tests have stopped or cut off does not respond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Fails if the server at this admin port has recorded a decision that is another one when it is made again.
pub(super) fn check(admin: SocketAddr) {
    let Some(text) = fetch(admin) else { return };
    let recording = Recording::parse(text.as_bytes()).unwrap_or_else(|error| panic!("its recording: {error}"));
    let mut number = 0;
    for stretch in recording.replay() {
        number += stretch.steps.len();
        let is_other = |step: &&Step| !matches!(step.outcome, Outcome::Same | Outcome::NotRecorded);
        let other = stretch.steps.iter().find(is_other);
        assert!(other.is_none(), "{}: the decision differs when it is made again: {other:#?}", stretch.group);
    }
    println!("{number} decisions are the same when they are made again");
}

/// `None` where it does not respond, or not with a recording.
fn fetch(admin: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&admin, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    write!(stream, "GET /debug/recordings HTTP/1.1\r\nHost: headcount\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}
