//! Attacks on the admin port.

use std::io::Write;
use std::net::TcpStream;

use crate::peers::headcount::Server;

#[test]
fn silent_clients_do_not_lock_the_probes_out() {
    let server = Server::start(&["--demo"]);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(server.admin()).expect("connects"));
    }
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    for stream in &mut silent {
        let _closed_already = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost:");
    }
    for _ in 0..10 {
        silent.push(TcpStream::connect(server.admin()).expect("connects"));
        assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn an_endless_head_is_refused() {
    let server = Server::start(&["--demo"]);
    let mut stream = TcpStream::connect(server.admin()).expect("connects");
    let line = format!("x: {}\r\n", "y".repeat(1000));
    let _ended_by_the_server = stream.write_all(format!("GET /livez HTTP/1.1\r\n{}", line.repeat(1000)).as_bytes());
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    assert!(server.peak_memory() < 200);
}
